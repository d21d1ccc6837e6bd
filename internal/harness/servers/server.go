package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/freeport"
)

// ErrMissing is the error of a server that is not installed.
var ErrMissing = errors.New("the server is not installed")

const (
	startTimeout = 30 * time.Second // of one start, without the making of its directory
	stopTimeout  = 5 * time.Second  // until a server that was asked to end is killed
	starts       = 3                // tries, because a free port may be taken meanwhile
	logQuoted    = 2 << 10          // bytes of a server's log in an error
)

// Server is a server that runs. Its methods may be called from any goroutine.
type Server struct {
	// Name is "PostgreSQL", "MariaDB", "MySQL", "etcd", "mosquitto", "Apache", "PHP-FPM",
	// "OpenSearch", "Elasticsearch", "Solr" or "Tomcat".
	Name string
	// Host is 127.0.0.1, Port where it listens.
	Host string
	Port int
	// ExtraPort is a second listener: with threads of its own (MariaDB), for other members
	// (etcd), for the status of a pool (PHP-FPM), 0 without.
	ExtraPort int
	// Dir is the directory of the server's files, removed by Stop.
	Dir string
	// Programs is the directory of the server's own client programs.
	Programs string

	cmd     *exec.Cmd
	watcher *exec.Cmd
	ask     syscall.Signal
	exited  chan struct{}
	stopped sync.Once
	forget  func() bool
}

// spec is how a server is made and started.
type spec struct {
	name  string
	user  string         // it runs as, if this process is root; empty: root, as what changes its user itself
	ask   syscall.Signal // that ends it
	extra bool           // wants a second port
	cpus  []int          // it is pinned to, where there is taskset; empty: none
	// patience is how long a start may take, 0 for startTimeout.
	patience time.Duration
	prepare  func(run func(name string, args ...string) error, dir string) error
	// command returns the program and its arguments.
	command func(dir string, port, extra int) []string
	// env returns what is added to the environment; may be nil.
	env func(dir string) []string
	// ready says whether the server answers.
	ready func(ctx context.Context, port int) error
}

// start makes a directory, fills it and starts the server.
func start(ctx context.Context, s spec) (*Server, error) {
	dir, err := os.MkdirTemp("", "spillgate-"+strings.ToLower(s.name)+"-")
	if err != nil {
		return nil, fmt.Errorf("servers: %s: %w", s.name, err)
	}
	server, err := s.in(ctx, dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("servers: %s: %w", s.name, err)
	}
	return server, nil
}

// in fills dir and starts the server there.
func (s spec) in(ctx context.Context, dir string) (*Server, error) {
	attr, err := s.attr(dir)
	if err != nil {
		return nil, err
	}
	// From here on a death of this process removes the directory.
	run := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, attr, s.environment(dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, tail(string(out)))
		}
		return nil
	}
	if err := s.prepare(run, dir); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		server, err := s.once(ctx, dir, attr)
		if err == nil || ctx.Err() != nil || try == starts {
			return server, err
		}
	}
}

func (s spec) environment(dir string) []string {
	if s.env == nil {
		return nil
	}
	return append(os.Environ(), s.env(dir)...)
}

// attr gives dir to the user that the server runs as.
func (s spec) attr(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() != 0 || s.user == "" {
		return attr, nil
	}
	who, err := user.Lookup(s.user)
	if err != nil {
		return nil, fmt.Errorf("%w: it does not run as root, and there is no user %q", ErrMissing, s.user)
	}
	uid, errUID := strconv.Atoi(who.Uid)
	gid, errGID := strconv.Atoi(who.Gid)
	if err := errors.Join(errUID, errGID, os.Chown(dir, uid, gid)); err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, nil
}

// once starts the server on ports that are free at this moment.
func (s spec) once(ctx context.Context, dir string, attr *syscall.SysProcAttr) (*Server, error) {
	port, extra, err := freePorts(s.extra)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	words := pinned(s.cpus, s.command(dir, port, extra))
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.SysProcAttr, cmd.Env, cmd.Stdout, cmd.Stderr = dir, attr, s.environment(dir), log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	server := &Server{Name: s.name, Host: "127.0.0.1", Port: port, ExtraPort: extra, Dir: dir, Programs: filepath.Dir(words[0]),
		cmd: cmd, ask: s.ask, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(server.exited)
	}()
	if server.watcher, err = watch(cmd.Process.Pid, dir, s.ask); err == nil {
		err = server.await(ctx, cmp.Or(s.patience, startTimeout), s.ready)
	}
	if err != nil {
		server.end()
		return nil, fmt.Errorf("%w; its log ends with: %s", err, server.logTail())
	}
	server.forget = context.AfterFunc(ctx, server.Stop)
	return server, nil
}

// pinned returns a command that runs on the given processors, numbered from 0, as far as
// this system has taskset.
func pinned(cpus []int, words []string) []string {
	taskset, err := exec.LookPath("taskset")
	if len(cpus) == 0 || err != nil {
		return words
	}
	var list []string
	for _, cpu := range cpus {
		list = append(list, strconv.Itoa(cpu))
	}
	return append([]string{taskset, "-c", strings.Join(list, ",")}, words...)
}

// accepts is the ready of a server that answers as soon as it accepts connections.
func accepts(ctx context.Context, port int) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// await returns when the server answers.
func (s *Server) await(ctx context.Context, patience time.Duration, ready func(context.Context, int) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ready(ctx, s.Port)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("it ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Pid returns the process id of the server.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Exited is closed when the server has ended, by itself or by Stop.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Stop ends the server and removes its directory. Further calls return when the
// first has done so.
func (s *Server) Stop() {
	s.stopped.Do(func() {
		if s.forget != nil {
			s.forget()
		}
		s.end()
		_ = os.RemoveAll(s.Dir)
	})
}

// end ends the server's processes, and then those that watch it.
func (s *Server) end() {
	s.signal(s.ask)
	patience := time.NewTimer(stopTimeout)
	defer patience.Stop()
	select {
	case <-s.exited:
	case <-patience.C:
		s.signal(syscall.SIGKILL)
		<-s.exited
	}
	// Its number is free now, but its session's is not while it has members.
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	if s.watcher != nil {
		_ = s.watcher.Process.Kill()
		_ = s.watcher.Wait()
	}
}

func (s *Server) signal(sig syscall.Signal) {
	select {
	case <-s.exited:
	default:
		_ = s.cmd.Process.Signal(sig)
	}
}

func (s *Server) logTail() string {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	return tail(string(text))
}

func tail(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > logQuoted {
		text = "…" + strings.ToValidUTF8(text[len(text)-logQuoted:], "")
	}
	return text
}

// watcher is what ends a server whose starter is gone: it reads a pipe that
// nobody writes to and that ends with the starter.
const watcher = `cat >/dev/null
kill -s "$3" "$1" 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" 2>/dev/null || break; sleep 0.1; done
kill -s KILL -- "-$1" 2>/dev/null
rm -rf -- "$2"`

// watch starts the watcher of a server in a session of its own, so that what is
// typed at a terminal does not reach it.
func watch(pid int, dir string, ask syscall.Signal) (*exec.Cmd, error) {
	name := map[syscall.Signal]string{syscall.SIGQUIT: "QUIT", syscall.SIGKILL: "KILL", syscall.SIGTERM: "TERM"}[ask]
	cmd := exec.Command("sh", "-c", watcher, "watcher", strconv.Itoa(pid), dir, name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("its watcher: %w", err)
	}
	return cmd, nil
}

// freePorts returns one or two unused ports of loopback.
func freePorts(two bool) (port, extra int, err error) {
	n := 1
	if two {
		n = 2
	}
	var ports [2]int
	for i := range n {
		l, err := freeport.Listen()
		if err != nil {
			return 0, 0, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}

// SkipMissing ends a test whose server could not be started: it skips where the
// server is not installed, and fails in continuous integration and otherwise.
func SkipMissing(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// settings returns params as --name=value in the order of their names.
func settings(prefix string, params map[string]string, flag func(name, value string) []string) []string {
	var out []string
	for _, name := range sorted(params) {
		out = append(out, flag(prefix+name, params[name])...)
	}
	return out
}
