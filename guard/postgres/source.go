package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
)

// Application is what the guard's own sessions call themselves. They are left out of
// every look; sessions of another role that call themselves so are not.
const Application = "spillgate guard"

// LookTimeout is how long one look may take. Then it is late, and its connection is replaced.
const LookTimeout = time.Second

// ownTimeout is statement_timeout of the guard's sessions as the server shows it.
const ownTimeout = "1s"

// pooled reports whether a pooler is between the guard and the process that serves it: it tells
// clients numbers of its own for processes, or keeps their settings from the server.
func pooled(process int64, told uint32, timeout string) bool {
	return process != int64(told) || timeout != ownTimeout
}

// Source is a server. It is for one goroutine.
type Source struct {
	cfg         *pgx.ConnConfig
	looks, acts *pgx.Conn
	builder     *builder
	version     int
	role        string
	super       bool
	maySignal   bool
	tracks      bool // what sessions do
	beside      bool
	pid         int64     // of a process of the server, that of looks
	begun       time.Time // when that began
	port        int
	unread      []int // client ports
	locksSQL    string
	since       time.Time // texts that began from here on are not known yet
	rows        []activityRow
	locks       []lockRow
}

// Open connects twice: to look, and to act when the server takes no more connections.
// The foreground's objective tells short statements from long ones.
func Open(ctx context.Context, url string, objective time.Duration) (*Source, error) {
	cfg, err := Parse(url)
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: cfg, builder: newBuilder(objective), since: time.Unix(0, 0)}
	if s.looks, err = pgx.ConnectConfig(ctx, cfg); err == nil {
		s.acts, err = pgx.ConnectConfig(ctx, cfg)
	}
	if err == nil {
		err = s.learn(ctx)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return s, nil
}

// Parse checks a URL and returns how to connect. Errors do not show a password.
func Parse(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	// The parser's own words may hold the password; so may the name of a database, if a / or # in
	// the password ended the host.
	if err != nil || strings.Contains(cfg.Database, "@") || strings.Contains(url, "#") {
		return nil, errors.New("postgres: the URL cannot be read: expected postgres://user:password@host:port/database, with / in the password written as %2F, ? as %3F, # as %23")
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	// Users may have functions that fit a statement better than the server's own: without search_path these would run with the guard's rights.
	for name, value := range map[string]string{"application_name": Application, "search_path": "pg_catalog", "jit": "off", "statement_timeout": ownTimeout, "lock_timeout": "500",
		"max_parallel_workers_per_gather": "0", "default_transaction_read_only": "on"} {
		cfg.RuntimeParams[name] = value
	}
	return cfg, nil
}

// learn asks what does not change while connected.
func (s *Source) learn(ctx context.Context) error {
	var version int
	var timeout string
	var now time.Time
	err := s.looks.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('statement_timeout'), pg_backend_pid(), current_setting('port')::int, current_user::text,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), pg_has_role(current_user, 'pg_signal_backend', 'USAGE'),
  (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()), clock_timestamp(), current_setting('track_activities')::bool`).
		Scan(&version, &timeout, &s.pid, &s.port, &s.role, &s.super, &s.maySignal, &s.begun, &now, &s.tracks)
	if err != nil {
		return err
	}
	s.beside = beside(s.pid, now.Sub(s.begun))
	if version < 130000 {
		return fmt.Errorf("the server is of version %d, expected 13 or later", version/10_000)
	}
	if pooled(s.pid, s.looks.PgConn().PID(), timeout) {
		return errors.New("there is a pooler in front of the server, expected the address of the server itself: a pool has no connection left when the guard needs one")
	}
	if err := s.alike(ctx); err != nil {
		return err
	}
	s.version = version
	s.maySignal = s.maySignal || s.super
	waitstart := "waitstart"
	if version < 140000 {
		waitstart = "NULL::timestamptz"
	}
	s.locksSQL = fmt.Sprintf(locksSQL, waitstart)
	return nil
}

// startup is how long a process may have been there when its session begins, as the server tells it, and its answer be under way, on a busy machine.
const startup = 5 * time.Second

// beside reports whether the process of a session that has lasted for some time is one of this machine. The number alone may be that of a
// process of another server here.
func beside(pid int64, lasted time.Duration) bool {
	age, ok := procfs.Age(pid)
	return ok && procfs.Beside(pid, "postgres") && age-lasted < startup && lasted-age < time.Second
}

// Look looks once. An error means that a view failed; the source must be closed and
// opened again, unless the error is track.ErrLate.
func (s *Source) Look(ctx context.Context) (*track.Look, error) {
	if s.looks.IsClosed() {
		if err := s.again(ctx); err != nil {
			return nil, fmt.Errorf("postgres: connect again: %w: %w", track.ErrLate, err)
		}
	}
	l, err := s.look(ctx)
	if late(err) {
		err = fmt.Errorf("%w: %w", track.ErrLate, err)
	}
	return l, err
}

// again replaces the connection for looks, which ends with a look that takes too long. The other one is kept: the server may
// take no more connections by now.
func (s *Source) again(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout) // also for a server that takes a connection and then answers nothing
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.cfg)
	if err != nil {
		return err
	}
	s.looks = conn
	if err = s.learn(ctx); err != nil {
		_ = conn.Close(ctx) // to be tried again
	}
	return err
}

// late reports whether the server was too slow, and nothing else is wrong.
func late(err error) bool {
	const cancelled, noLock = "57014", "55P03" // by statement_timeout, by lock_timeout
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code == cancelled || told.Code == noLock
	}
	return errors.Is(err, context.DeadlineExceeded)
}

func (s *Source) look(ctx context.Context) (*track.Look, error) {
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	in := input{asked: live.Now(), since: s.since, role: s.role, super: s.super, maySignal: s.maySignal, untracked: !s.tracks}
	if s.unread = s.unread[:0]; s.beside && s.builder.use.delayed() {
		s.unread = procfs.Unread(s.unread, s.pid, s.port)
		in.unread, in.unreadAt = s.unread, live.Now()
	}
	var err error
	in.summary, s.rows, err = readActivity(ctx, s.looks, s.rows[:0], activitySQL, s.since, maxText, Application, mostRows+1, s.unread)
	in.at = live.Now()
	if err != nil {
		return nil, fmt.Errorf("postgres: pg_stat_activity: %w", err)
	}
	if len(s.rows) > mostRows {
		return nil, fmt.Errorf("postgres: pg_stat_activity shows more than %d busy sessions", mostRows)
	}
	if err := s.read(ctx); err != nil {
		return nil, fmt.Errorf("postgres: pg_stat_activity: %w", err)
	}
	if s.locks = s.locks[:0]; s.waiting(in.summary.now) {
		if s.locks, err = readLocks(ctx, s.looks, s.locks, s.locksSQL); err != nil {
			return nil, fmt.Errorf("postgres: pg_locks: %w", err)
		}
		if pids := s.unseen(); len(pids) > 0 {
			if _, s.rows, err = readActivity(ctx, s.looks, s.rows, byPidSQL, pids, maxText); err != nil {
				return nil, fmt.Errorf("postgres: pg_stat_activity of %d sessions: %w", len(pids), err)
			}
		}
	}
	if s.commands(in.summary.now) {
		if in.progress, err = readProgress(ctx, s.looks, s.version); err != nil {
			return nil, fmt.Errorf("postgres: pg_stat_progress: %w", err)
		}
	}
	if s.version < 140000 {
		queue(s.locks, s.rows)
	}
	in.rows, in.locks = s.rows, s.locks
	if s.beside {
		in.usage = procfs.Process
	}
	look := s.builder.build(&in)
	s.since = in.summary.began
	return look, nil
}

// read reads the texts of statements that the look lacks: those that were shown so much later than they began that the look before had not
// shown them. Of what kind a statement is decides whether it may be cancelled.
func (s *Source) read(ctx context.Context) error {
	var pids []int32
	for i := range s.rows {
		if r := &s.rows[i]; r.text == nil && !r.hidden && r.backend == "client backend" && r.state != "idle" && !r.statement.IsZero() && !s.builder.read(r) {
			pids = append(pids, int32(r.pid))
		}
	}
	if len(pids) == 0 {
		return nil
	}
	_, told, err := readActivity(ctx, s.looks, nil, byPidSQL, pids, maxText)
	for i := range told {
		t := &told[i]
		at := slices.IndexFunc(s.rows, func(r activityRow) bool { return r.pid == t.pid })
		if r := &s.rows[at]; r.begun.Equal(t.begun) && r.statement.Equal(t.statement) { // else it does something else by now
			r.text = t.text
		}
	}
	return err
}

// waiting reports whether a session waits for a lock longer than noise.
func (s *Source) waiting(now time.Time) bool {
	for i := range s.rows {
		if r := &s.rows[i]; r.waitType == "Lock" && now.Sub(r.statement) >= noise {
			return true
		}
	}
	return false
}

// unseen returns the processes that hold what others wait for and are in no row: they
// do nothing.
func (s *Source) unseen() []int32 {
	seen := map[int64]bool{0: true}
	for i := range s.rows {
		seen[s.rows[i].pid] = true
	}
	var pids []int32
	for i := range s.locks {
		if r := &s.locks[i]; r.granted && !seen[r.pid] {
			seen[r.pid] = true
			pids = append(pids, int32(r.pid))
		}
	}
	return pids
}

// commands reports whether something runs that tells its progress.
func (s *Source) commands(now time.Time) bool {
	for i := range s.rows {
		r := &s.rows[i]
		class := s.builder.known[r.pid].parsed.Class
		if r.state == "active" && now.Sub(r.statement) >= s.builder.objective &&
			(class == statement.Vacuum || class == statement.Schema || class == statement.Copy || r.backend == "autovacuum worker") {
			return true
		}
	}
	return false
}

// Act does a step to a task of the last look. It reports false if the task was gone:
// the statement that signals compares the session and the transaction itself. Over a connection that is lost
// it is done again over another one.
func (s *Source) Act(ctx context.Context, task uint64, step culprit.Step) (bool, error) {
	goal, ok := s.builder.targets[task]
	if !ok {
		return false, nil
	}
	done, err := s.act(ctx, goal, step)
	if err != nil && s.acts.IsClosed() && s.Alive(ctx) == nil {
		return s.act(ctx, goal, step)
	}
	return done, err
}

func (s *Source) act(ctx context.Context, goal target, step culprit.Step) (bool, error) {
	var call string
	switch step {
	case culprit.Statement:
		call = "pg_cancel_backend"
	case culprit.Session:
		call = "pg_terminate_backend"
	default:
		return false, fmt.Errorf("postgres: there is no step %v, expected statement or session", step)
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	sql := "SELECT " + call + "(a.pid) FROM pg_stat_activity a WHERE a.pid = $1 AND a.backend_start = $2 AND "
	args := []any{int32(goal.pid), goal.begun}
	switch {
	case len(goal.keeps) > 0:
		sql += "EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.granted AND " + lockSQL + " = ANY($3))"
		args = append(args, goal.keeps)
	case !goal.transaction.IsZero():
		sql += "a.xact_start = $3"
		args = append(args, goal.transaction)
	default:
		sql += "a.xact_start IS NULL AND a.query_start = $3"
		args = append(args, goal.statement)
	}
	var done bool
	switch err := s.acts.QueryRow(ctx, sql, args...).Scan(&done); {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("postgres: %s: %w", call, err)
	}
	if done && step == culprit.Session {
		s.builder.ends(goal)
	}
	return done, nil
}

// Alive checks the connection that acts, and replaces one that is gone: what was learned stays.
func (s *Source) Alive(ctx context.Context) error {
	ping, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	gone := s.acts.Ping(ping)
	if gone == nil || s.looks.IsClosed() { // then there is nothing to compare another one with
		return gone
	}
	conn, err := pgx.ConnectConfig(ctx, s.cfg)
	if err != nil {
		return errors.Join(gone, err)
	}
	_ = s.acts.Close(ping)
	s.acts = conn
	if err := s.alike(ctx); err != nil {
		_ = conn.Close(ctx) // or the next check would find it well
		return err
	}
	return nil
}

// alike refuses two connections that reached two servers, as an address of several may have them do.
func (s *Source) alike(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	var there bool
	if err := s.acts.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2)", int32(s.pid), s.begun).Scan(&there); err != nil {
		return err
	}
	if !there {
		return errors.New("two connections reached two servers, expected the address of one: what is seen on one could not be cancelled on the other")
	}
	return nil
}

// Close ends both connections.
func (s *Source) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	for _, c := range []*pgx.Conn{s.looks, s.acts} {
		if c != nil {
			_ = c.Close(ctx)
		}
	}
}

// Setup returns the statements that make a role with the rights that a guard needs and
// no other.
func Setup(role string) string {
	name := quoteName(role)
	return strings.Join([]string{
		"-- Least rights for spillgate guard on PostgreSQL 13 or later. Run as a superuser, once per cluster.",
		"CREATE ROLE " + name + " LOGIN CONNECTION LIMIT 4;  -- then: \\password " + role,
		"GRANT pg_read_all_stats TO " + name + ";   -- to see other sessions",
		"GRANT pg_signal_backend TO " + name + ";   -- to cancel them, only needed for --mode enforce; superusers' sessions stay out of reach",
		"-- PostgreSQL 16 or later, with reserved_connections of 2 or more in postgresql.conf:",
		"-- GRANT pg_use_reserved_connections TO " + name + ";   -- to connect when all other connections are in use",
		"",
	}, "\n")
}

// quoteName writes a name as an identifier.
func quoteName(name string) string { return pgx.Identifier{name}.Sanitize() }
