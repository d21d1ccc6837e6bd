package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
)

// LookTimeout is how long one look may take. Then it is late, and its connection is replaced.
const LookTimeout = time.Second

// oldestWaiters is how many transactions are asked for their blockers.
const oldestWaiters = 4

// dear is how many times as long as a view of lock waits took it is not read again.
const dear = 10

// Source is a server. It is for one goroutine.
type Source struct {
	cfg         *mysql.Config // of the port that looks and acts use
	looks, acts *connection
	builder     *builder
	mysql       bool
	pool        bool   // it has a thread pool
	quick       bool   // whether anybody does anything can be asked for less than the list
	reserve     string // why the port that is kept for administrators is not used; "" if it is, or there is none
	pid         int64
	port        int
	unread      []int // client ports
	notes       []string
	in          input
	rowWaits    []rowWait
	spare       []transactionRow
	fresh       bool // the transactions of this look are not those of the look before
	cache       cache
	rowsRead    time.Time
	rowsTook    time.Duration
	asked       uint64  // statements of the guard
	working     float64 // sessions that run something, in the mean
}

// connection is one connection, which is never replaced by another silently.
type connection struct {
	db   *sql.DB
	conn *sql.Conn
	id   int64
}

// Open connects twice: to look, and to act when the server takes no more connections; to
// its extra_port or admin_port if it has one. The foreground's objective tells short
// statements from long ones.
func Open(ctx context.Context, text string, objective time.Duration) (*Source, error) {
	cfg, isMySQL, err := parse(text)
	if err != nil {
		return nil, err
	}
	s := &Source{builder: newBuilder(objective, isMySQL), mysql: isMySQL}
	if err := s.open(ctx, cfg); err != nil {
		s.Close()
		return nil, fmt.Errorf("mariadb: %w", err)
	}
	return s, nil
}

func (s *Source) open(ctx context.Context, cfg *mysql.Config) (err error) {
	if s.looks, err = connect(ctx, cfg); err != nil {
		return err
	}
	if reserved := s.reserved(ctx, cfg); reserved != nil {
		other, err := connect(ctx, reserved)
		if err == nil {
			s.looks.close()
			s.looks, cfg = other, reserved
		} else {
			s.reserve = fmt.Sprintf("the guard may not get in when all connections are in use; the server's port for that, %s, is not open to it: %v", reserved.Addr, err)
		}
	}
	if s.acts, err = connect(ctx, cfg); err != nil {
		return err
	}
	s.cfg = cfg
	return s.learn(ctx)
}

// Check reports what is wrong with a URL, without its password.
func Check(text string) error {
	_, _, err := parse(text)
	return err
}

// parse reads mariadb://user:password@host:port/database?tls=…, or mysql://….
func parse(text string) (cfg *mysql.Config, isMySQL bool, err error) {
	wrong := errors.New("mariadb: the URL cannot be read (its text is not shown, it may hold a password): expected mariadb://user@host:port/, or mysql://user@host:port/")
	u, err := url.Parse(text)
	// An @ behind the host tells of a password with a / or # that ended it.
	if err != nil || u.Hostname() == "" || u.Scheme != "mariadb" && u.Scheme != "mysql" || strings.Contains(u.Path+u.Fragment, "@") {
		return nil, false, wrong
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	cfg = mysql.NewConfig()
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(u.Hostname(), port)
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.InterpolateParams = true
	cfg.Timeout = 5 * time.Second
	cfg.ReadTimeout, cfg.WriteTimeout = 5*time.Second, 5*time.Second
	cfg.ConnectionAttributes = "program_name:spillgate guard"
	cfg.Logger = &mysql.NopLogger{}
	cfg.Params = map[string]string{"transaction_isolation": "'READ-UNCOMMITTED'", "lock_wait_timeout": "1", "autocommit": "1", "max_execution_time": "1000"}
	if u.Scheme == "mariadb" { // the name came to MariaDB with version 11
		cfg.Params = map[string]string{"tx_isolation": "'READ-UNCOMMITTED'", "lock_wait_timeout": "1", "autocommit": "1", "max_statement_time": "1"}
	}
	// The server's own may be another dialect, and another zone than that of the machine, in which InnoDB tells when transactions began.
	cfg.Params["sql_mode"], cfg.Params["time_zone"] = "''", "'SYSTEM'"
	for name, values := range u.Query() {
		if name != "tls" {
			return nil, false, fmt.Errorf("mariadb: the URL has the parameter %q, expected none but tls", name)
		}
		cfg.TLSConfig = values[0]
	}
	if err := cfg.Apply(); err != nil {
		return nil, false, wrong
	}
	return cfg, u.Scheme == "mysql", nil
}

func connect(ctx context.Context, cfg *mysql.Config) (*connection, error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("the connection's settings are not accepted by the driver, such as tls")
	}
	c := &connection{db: sql.OpenDB(connector)}
	c.db.SetMaxOpenConns(1)
	if c.conn, err = c.db.Conn(ctx); err == nil {
		err = c.conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&c.id)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *connection) close() {
	if c == nil {
		return
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
	_ = c.db.Close()
}

// reserved returns how to reach the port that works when the usual one is full, nil if
// there is none.
func (s *Source) reserved(ctx context.Context, cfg *mysql.Config) *mysql.Config {
	sqlText := "SELECT @@extra_port"
	if s.mysql {
		sqlText = "SELECT IF(@@admin_address IS NULL, 0, @@admin_port)"
	}
	var port int
	if err := s.looks.conn.QueryRowContext(ctx, sqlText).Scan(&port); err != nil || port == 0 {
		return nil
	}
	host, _, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return nil
	}
	other := cfg.Clone()
	other.Addr = net.JoinHostPort(host, strconv.Itoa(port))
	return other
}

// alike refuses two connections that reached two servers, as an address of several may have them do, and a pooler, which tells clients numbers of
// its own for sessions, and takes a KILL to be about those.
func (s *Source) alike(ctx context.Context) error {
	var names [2]string
	for i, c := range []*connection{s.looks, s.acts} {
		var own int64 // asked so that no pooler answers it
		if err := c.conn.QueryRowContext(ctx, "SELECT CONNECTION_ID() + 0 FROM DUAL").Scan(&own); err != nil {
			return err
		}
		if own != c.id {
			return errors.New("there is a pooler in front of the server, expected the address of the server itself: what is seen there could not be cancelled")
		}
		if err := c.conn.QueryRowContext(ctx, "SELECT CONCAT_WS('/', @@hostname, @@port, @@datadir, @@pid_file)").Scan(&names[i]); err != nil {
			return err
		}
	}
	if names[0] != names[1] {
		return errors.New("two connections reached two servers, expected the address of one: what is seen on one could not be cancelled on the other")
	}
	return nil
}

// learn asks what does not change while connected.
func (s *Source) learn(ctx context.Context) error {
	if err := s.alike(ctx); err != nil {
		return err
	}
	var version, handling, pidFile string
	var schema bool
	const text = "SELECT VERSION(), @@thread_handling, @@pid_file, @@performance_schema, @@port"
	if err := s.looks.conn.QueryRowContext(ctx, text).Scan(&version, &handling, &pidFile, &schema, &s.port); err != nil {
		return err
	}
	if isMariaDB := strings.Contains(version, "MariaDB"); isMariaDB == s.mysql {
		return fmt.Errorf("the server calls itself version %s, expected what the scheme of the URL says", version)
	}
	if s.mysql && !schema {
		return errors.New("the server shows no sessions; missing: performance_schema=ON in its configuration")
	}
	s.pid = s.beside(ctx, pidFile)
	s.quick = schema && !s.mysql
	s.pool = handling == "pool-of-threads" && !s.mysql
	if s.reserve != "" {
		s.notes = append(s.notes, s.reserve)
	}
	if !schema {
		s.notes = append(s.notes, "who holds metadata locks cannot be seen; missing: performance_schema=ON in the server's configuration")
	} else if err := s.instrument(ctx); err != nil {
		return err
	}
	return s.rights(ctx)
}

// beside returns the server's process if that is one of this machine, else 0. The file that has its number may be that of another server here: the
// thread that serves this connection, and the connection itself, are only where the server is.
func (s *Source) beside(ctx context.Context, pidFile string) int64 {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return 0
	}
	pid, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || !procfs.Beside(pid, "mariadbd") && !procfs.Beside(pid, "mysqld") {
		return 0
	}
	sqlText := "SELECT TID, HOST FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
	if s.mysql {
		sqlText = "SELECT COALESCE(t.THREAD_OS_ID, 0), p.HOST FROM information_schema.PROCESSLIST p JOIN performance_schema.threads t ON t.PROCESSLIST_ID = p.ID WHERE p.ID = CONNECTION_ID()"
	}
	var thread int64
	var host string
	if err := s.looks.conn.QueryRowContext(ctx, sqlText).Scan(&thread, &host); err != nil {
		return 0
	}
	if port, err := strconv.Atoi(host[strings.LastIndexByte(host, ':')+1:]); err != nil || procfs.ThreadState(pid, thread) == procfs.Unknown || !procfs.Connected(pid, port) {
		return 0
	}
	return pid
}

// instrument notes if metadata locks are not recorded.
func (s *Source) instrument(ctx context.Context) error {
	var on string
	err := s.looks.conn.QueryRowContext(ctx, "SELECT ENABLED FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl'").Scan(&on)
	var denied *mysql.MySQLError
	switch {
	case errors.As(err, &denied):
		s.notes = append(s.notes, "who holds metadata locks cannot be seen; missing: GRANT SELECT ON performance_schema.* TO this user")
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case on != "YES":
		s.notes = append(s.notes, "who holds metadata locks cannot be seen; missing: performance_schema_instrument='wait/lock/metadata/sql/mdl=ON' in the server's configuration")
	}
	return nil
}

// rights notes which grants are missing.
func (s *Source) rights(ctx context.Context) error {
	all := ""
	err := query(ctx, s.looks.conn, "SHOW GRANTS", func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(&line)
		// The part after TO names the user and may hold a hash of the password.
		grants, _, _ := strings.Cut(line, " TO ")
		all += grants + "\n"
		return err
	})
	if err != nil {
		return err
	}
	s.notes = append(s.notes, missing(all, s.mysql)...)
	return nil
}

// missing says what a role with some grants cannot do.
func missing(grants string, isMySQL bool) (notes []string) {
	global := ""
	for line := range strings.Lines(grants) {
		if strings.Contains(line, " ON *.*") {
			global += line
		}
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(append(words, "ALL PRIVILEGES"), func(w string) bool { return strings.Contains(global, w) })
	}
	if !has("PROCESS") {
		notes = append(notes, "other users' sessions are hidden; missing: GRANT PROCESS ON *.* TO this user")
	}
	admin := "CONNECTION ADMIN"
	if isMySQL {
		admin = "CONNECTION_ADMIN"
	}
	if !has(admin, "SUPER") {
		notes = append(notes, "other users' sessions cannot be cancelled; missing: GRANT "+admin+" ON *.* TO this user")
	}
	return notes
}

// Look looks once. An error means that a view failed; the source must be closed and
// opened again, unless the error is track.ErrLate.
func (s *Source) Look(ctx context.Context) (*track.Look, error) {
	if s.looks == nil {
		if err := s.again(ctx); err != nil {
			return nil, fmt.Errorf("mariadb: connect again: %w: %w", track.ErrLate, err)
		}
	}
	l, err := s.look(ctx)
	if late(err) {
		s.looks.close() // the driver has given it up, or the server is still at it
		s.looks = nil
		err = fmt.Errorf("%w: %w", track.ErrLate, err)
	}
	return l, err
}

// again replaces the connection for looks, which ends with a look that takes too long. The other one is kept: the server may
// take no more connections by now.
func (s *Source) again(ctx context.Context) (err error) {
	if s.looks, err = connect(ctx, s.cfg); err != nil {
		s.looks = nil
		return err
	}
	s.notes = s.notes[:0]
	if err = s.learn(ctx); err != nil {
		s.looks.close()
		s.looks = nil
	}
	return err
}

// late reports whether the server was too slow, and nothing else is wrong.
func late(err error) bool {
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		return told.Number == 1969 || told.Number == 3024 || told.Number == 1205 // by max_statement_time, by max_execution_time, by lock_wait_timeout
	}
	return errors.Is(err, context.DeadlineExceeded)
}

func (s *Source) look(ctx context.Context) (*track.Look, error) {
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	in, c := &s.in, s.looks.conn
	in.asked = live.Now()
	in.pooled, in.seconds = s.pool, s.mysql
	in.own, in.notes, in.rowWaits, in.locks, in.queues = []int64{s.looks.id, s.acts.id}, s.notes, nil, in.locks[:0], nil
	var err error
	fail := func(view string) (*track.Look, error) { return nil, fmt.Errorf("mariadb: %s: %w", view, err) }
	if s.fresh, err = s.transactions(ctx); err != nil {
		return fail("INNODB_TRX")
	}
	if s.cache.contended() {
		in.notes = append(slices.Clip(in.notes), "transactions are seen late; "+errShared.Error())
	}
	var ids []int64
	for i := range in.transactions {
		ids = append(ids, in.transactions[i].session)
	}
	busy := true
	if s.quick && len(ids) == 0 {
		var told *mysql.MySQLError
		switch busy, err = readBusy(ctx, c); {
		case errors.As(err, &told) && !late(err): // without the right to ask: the list tells it as well
			s.quick, busy = false, true
		case err != nil:
			return fail("performance_schema.threads")
		}
		s.asked++
	}
	if in.sessions = in.sessions[:0]; !busy {
		s.asked-- // no process list is read
	} else if in.sessions, err = readSessions(ctx, c, in.sessions[:0], s.mysql, ids); err != nil {
		return fail("the process list")
	}
	in.at = live.Now()
	if len(in.sessions) > mostRows {
		return nil, fmt.Errorf("mariadb: the process list shows more than %d busy sessions", mostRows)
	}
	if in.counts, err = readCounts(ctx, c); err != nil {
		return fail("SHOW GLOBAL STATUS")
	}
	s.asked += 2
	if s.mysql && slices.ContainsFunc(in.transactions, func(t transactionRow) bool { return t.keeps }) {
		history, err := readHistory(ctx, c)
		if in.counts.history, err = without(s, history, -1, "INNODB_METRICS", "how many old versions of rows are kept", err); err != nil {
			return nil, err
		}
		s.asked++
	}
	if in.connected = nil; s.crowded() {
		if in.connected, err = readConnected(ctx, c, s.mysql); err != nil {
			return fail("the process list")
		}
		s.asked++
	}
	in.stale, in.fresh, in.proven = time.Since(s.cache.shown), s.fresh, s.cache.proven
	if err = s.waits(ctx); err != nil {
		return nil, err
	}
	if err = s.queues(ctx); err != nil {
		return nil, err
	}
	in.counts.questions -= min(s.asked, in.counts.questions)
	if in.usage, in.state = nil, nil; s.pid != 0 {
		in.usage = func(thread int64) (procfs.Usage, bool) { return procfs.Thread(s.pid, thread) }
		in.state = func(thread int64) procfs.State { return procfs.ThreadState(s.pid, thread) }
	}
	return s.builder.build(in), nil
}

// workingWeight is the weight of a look in the mean of how many sessions work: some ten seconds count.
const workingWeight = 0.01

// crowded reports whether two sessions keep their connections for long enough that their pool may
// be exhausted, or twice as many as usual work: how many are free is worth a second reading of the process list then.
func (s *Source) crowded() bool {
	kept, working := 0, 0
	for i := range s.in.sessions {
		r := &s.in.sessions[i]
		if slices.Contains(s.in.own, r.id) {
			continue
		}
		if !r.idle() {
			working++
		}
		if r.elapsed >= float64(track.FreeAfter/time.Millisecond) {
			kept++
		}
	}
	usual := s.working
	s.working += workingWeight * (float64(working) - usual)
	return kept >= 2 || working >= 4 && float64(working) >= 2*usual
}

// queues reads what waits for a thread of the pool: in its queues and, on this machine, in
// the sockets of connections that run nothing. Without a pool each connection has a thread, and what is in a
// socket waits until that gets a processor.
func (s *Source) queues(ctx context.Context) (err error) {
	in := &s.in
	if s.pool {
		queues, err := readQueues(ctx, s.looks.conn)
		if in.queues, err = without(s, queues, nil, "THREAD_POOL_QUEUES", "who waits for a thread of the pool", err); err != nil {
			return err
		}
		s.asked++
	}
	if s.pid == 0 || !s.pool && !s.builder.starved {
		return nil
	}
	if s.unread = procfs.Unread(s.unread[:0], s.pid, s.port); len(s.unread) == 0 {
		return nil
	}
	if in.queues, err = readUnread(ctx, s.looks.conn, in.queues, s.unread); err != nil {
		return fmt.Errorf("mariadb: the process list: %w", err)
	}
	s.asked++
	return nil
}

// waits reads which session waits for which, if any does.
func (s *Source) waits(ctx context.Context) (err error) {
	in := &s.in
	if waiters := oldest(in.transactions); len(waiters) > 0 {
		if (s.fresh || s.mysql) && time.Since(s.rowsRead) >= dear*s.rowsTook {
			began := time.Now()
			rows, err := readRowWaits(ctx, s.looks.conn, s.mysql, waiters)
			if s.rowWaits, err = without(s, rows, nil, "the view of row lock waits", "who holds locks of rows", err); err != nil {
				return err
			}
			s.rowsRead, s.rowsTook = time.Now(), time.Since(began)
			if !s.mysql {
				s.cache.read = s.rowsRead // of the same cache
			}
			s.asked++
		}
		in.rowWaits = s.rowWaits
	}
	if !slices.ContainsFunc(in.sessions, func(r sessionRow) bool { return waitsForLock(r.state) }) || slices.ContainsFunc(s.notes, func(n string) bool { return strings.Contains(n, "metadata locks") }) {
		return nil
	}
	locks, err := readLocks(ctx, s.looks.conn, in.locks)
	if in.locks, err = without(s, locks, in.locks, "metadata_locks", "who holds metadata locks", err); err != nil {
		return err
	}
	s.asked++
	if waiting := waitForTable(in.sessions); len(waiting) > 0 {
		locks, err = readHandles(ctx, s.looks.conn, in.locks, func(session int64) bool { return waiting[session] })
		if in.locks, err = without(s, locks, in.locks, "table_handles", "who holds locks of whole tables", err); err != nil {
			return err
		}
		s.asked++
	}
	// Who holds what others wait for may do nothing, and be in no transaction.
	var unseen []int64
	for _, l := range in.locks {
		if l.granted && l.session != s.looks.id && !slices.ContainsFunc(in.sessions, func(r sessionRow) bool { return r.id == l.session }) {
			unseen = append(unseen, l.session)
		}
	}
	if len(unseen) == 0 {
		return nil
	}
	before := len(in.sessions)
	if in.sessions, err = readSessions(ctx, s.looks.conn, in.sessions, s.mysql, unseen); err != nil {
		return fmt.Errorf("mariadb: the process list: %w", err)
	}
	s.asked++
	// Those that were seen before come twice.
	fresh := in.sessions[:before]
	for _, r := range in.sessions[before:] {
		if !slices.ContainsFunc(fresh, func(f sessionRow) bool { return f.id == r.id }) {
			fresh = append(fresh, r)
		}
	}
	in.sessions = fresh
	return nil
}

// withheld are the server's errors where it never shows a view to this role, or does not have it: no rights in a database, on a table,
// on a column, or of another kind; no such table, and none in a database that is not there.
var withheld = []uint16{1044, 1142, 1143, 1227, 1146, 1049}

// without returns what was read of a view that tells what some sessions wait for, or instead, if the server withholds it. The connection is
// as it was then, and the other views tell what they always do: the look goes on, and notes what it does not
// show. Any other error is that of the look: for a moment nothing is known of who waits for whom, and a session that
// itself waits would be blamed for what it holds.
func without[T any](s *Source, read, instead T, view, hides string, err error) (T, error) {
	var told *mysql.MySQLError
	switch {
	case err == nil:
		return read, nil
	case !errors.As(err, &told), !slices.Contains(withheld, told.Number):
		return instead, fmt.Errorf("mariadb: %s: %w", view, err)
	}
	s.in.notes = append(slices.Clip(s.in.notes), fmt.Sprintf("%s cannot be seen; the server refuses %s: %s", hides, view, told.Message))
	return instead, nil
}

// oldest returns the transactions that have waited longest for rows.
func oldest(all []transactionRow) (ids []uint64) {
	var waiting []*transactionRow
	for i := range all {
		if all[i].waiting {
			waiting = append(waiting, &all[i])
		}
	}
	slices.SortStableFunc(waiting, func(a, b *transactionRow) int {
		if a.waited != b.waited {
			return int(b.waited - a.waited)
		}
		return int(int64(a.id) - int64(b.id))
	})
	for _, t := range waiting[:min(len(waiting), oldestWaiters)] {
		ids = append(ids, t.id)
	}
	return ids
}

// Act does a step to a task of the last look. It reports false if the task was gone. Over a connection that is lost
// it is done again over another one.
func (s *Source) Act(ctx context.Context, task uint64, step culprit.Step) (bool, error) {
	goal, ok := s.builder.targets[task]
	if !ok {
		return false, nil
	}
	done, err := s.act(ctx, goal, step)
	var told *mysql.MySQLError
	if err == nil || errors.As(err, &told) || errors.Is(err, errShared) || step != culprit.Statement && step != culprit.Session || s.Alive(ctx) != nil {
		return done, err
	}
	return s.act(ctx, goal, step)
}

func (s *Source) act(ctx context.Context, goal target, step culprit.Step) (bool, error) {
	var kill string
	switch step {
	case culprit.Statement:
		kill = fmt.Sprintf("KILL QUERY ID %d", goal.query)
		if s.mysql {
			kill = fmt.Sprintf("KILL QUERY %d", goal.session)
		}
	case culprit.Session:
		kill = fmt.Sprintf("KILL CONNECTION %d", goal.session)
	default:
		return false, fmt.Errorf("mariadb: there is no step %v, expected statement or session", step)
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	// MariaDB keeps the number of the statement that a session ended last, so the number
	// in the KILL alone would meet an idle session.
	if same, err := s.same(ctx, goal, step); err != nil || !same {
		return false, err
	}
	_, err := s.acts.conn.ExecContext(ctx, kill)
	s.asked++
	var gone *mysql.MySQLError
	if errors.As(err, &gone) && (gone.Number == 1094 || gone.Number == 1957) { // no such thread, no such query
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mariadb: %.15s: %w", kill, err)
	}
	return true, nil
}

// same reports whether a session still does the task, or still keeps what it is for. The
// numbers of sessions are not used again while the server runs.
func (s *Source) same(ctx context.Context, goal target, step culprit.Step) (bool, error) {
	if goal.whole && step == culprit.Session {
		return s.keeps(ctx, goal)
	}
	s.asked++
	rows, err := readSessions(ctx, s.acts.conn, nil, s.mysql, []int64{goal.session})
	at := slices.IndexFunc(rows, func(r sessionRow) bool { return r.id == goal.session })
	if err != nil || at < 0 || rows[at].command == killed {
		return false, err
	}
	r := &rows[at]
	// MySQL does not count what a session did before it went idle.
	alike := r.query == goal.query && r.idle() == goal.idle && !(s.mysql && r.idle())
	switch inside := goal.snapshot || goal.transaction != 0; {
	case step == culprit.Statement && (r.query != goal.query || r.idle()):
		return false, nil
	case inside && !(alike && goal.settled):
		return s.inside(ctx, goal)
	case !inside && s.mysql && r.idle() && goal.lock != "":
		return s.keeps(ctx, goal)
	}
	// Its statements inside have gone on, and it is older than the look.
	return r.query == goal.query || goal.parts && !r.idle() && r.elapsed > live.Now().Sub(goal.asked).Seconds()*1000, nil
}

// keepsSQL counts the locks of an object that a session has.
const keepsSQL = `SELECT COUNT(*) FROM performance_schema.metadata_locks l JOIN performance_schema.threads t ON t.THREAD_ID = l.OWNER_THREAD_ID
WHERE t.PROCESSLIST_ID = ? AND CONCAT(l.OBJECT_TYPE, '/', COALESCE(l.OBJECT_SCHEMA, ''), '/', COALESCE(l.OBJECT_NAME, '')) = ? AND l.LOCK_STATUS = 'GRANTED' AND (l.LOCK_DURATION = 'EXPLICIT' OR NOT ?)`

// keeps reports whether a session still has the lock that it is to let go.
func (s *Source) keeps(ctx context.Context, goal target) (bool, error) {
	var n int
	s.asked++
	err := s.acts.conn.QueryRowContext(ctx, keepsSQL, goal.session, goal.lock, goal.whole).Scan(&n)
	return n > 0, err
}

// inside reports whether a session is still in the transaction. The view of transactions shows what it showed
// before until nobody has read it for a while, so the answer takes that while: what the look saw would prove
// nothing about now.
func (s *Source) inside(ctx context.Context, goal target) (bool, error) {
	for {
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("%w; it is not known whether the session is in that transaction still", errShared)
		case <-time.After(s.cache.due()):
		}
		var there bool
		// Those that only read have no number of their own.
		shown, err := s.cache.marked(ctx, s.acts, func(mark uint64) (own bool, err error) {
			err = s.acts.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT %[1]s COALESCE(MAX(trx_id = ? AND trx_mysql_thread_id = ? AND TIMESTAMPDIFF(SECOND, trx_started, NOW()) >= ?), FALSE), COALESCE(MAX(trx_query LIKE 'SELECT %[1]s%%'), FALSE) FROM information_schema.INNODB_TRX", markSQL(mark)),
				goal.transaction, goal.session, goal.age).Scan(&there, &own)
			return own, err
		})
		s.asked += 3
		if err != nil || shown {
			return there, err
		}
	}
}

// Alive checks the connection that acts, and replaces one that is gone: what was learned stays.
func (s *Source) Alive(ctx context.Context) error {
	ping, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	s.asked++
	gone := s.acts.conn.PingContext(ping)
	if gone == nil || s.looks == nil {
		return gone
	}
	other, err := connect(ctx, s.cfg)
	if err != nil {
		return errors.Join(gone, err)
	}
	s.acts.close()
	s.acts = other
	if err := s.alike(ctx); err != nil {
		s.acts.close() // or the next check would find it well
		return err
	}
	return nil
}

// Close ends both connections.
func (s *Source) Close() {
	s.looks.close()
	s.acts.close()
}

// Setup returns the statements that make a user with the rights that a guard needs and no
// other.
func Setup(role string) string {
	name := "'" + strings.ReplaceAll(strings.ReplaceAll(role, `\`, `\\`), "'", "''") + "'@'%'"
	return strings.Join([]string{
		"-- Least rights for spillgate guard on MariaDB 10.6 or later, or MySQL 8. Narrow '%' to the guard's host, and choose a password.",
		"CREATE USER " + name + " IDENTIFIED BY '…' WITH MAX_USER_CONNECTIONS 4;",
		"GRANT PROCESS ON *.* TO " + name + ";   -- to see other sessions",
		"GRANT SELECT ON performance_schema.* TO " + name + ";",
		"-- To cancel, only needed for --mode enforce. On MariaDB:",
		"GRANT CONNECTION ADMIN ON *.* TO " + name + ";",
		"-- On MySQL instead: GRANT CONNECTION_ADMIN ON *.* TO " + name + ";",
		"-- In the server's configuration. On MariaDB, to see who holds metadata locks:",
		"--   performance_schema=ON",
		"--   performance_schema_instrument='wait/lock/metadata/sql/mdl=ON'",
		"-- and to connect when all other connections are in use:",
		"--   extra_port=3307   extra_max_connections=4",
		"-- On MySQL instead: admin_address=127.0.0.1, with GRANT SERVICE_CONNECTION_ADMIN ON *.* TO " + name + ";",
		"",
	}, "\n")
}
