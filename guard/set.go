package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	record "github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/telemetry"
)

// The paths of the admin listener, as far as they are the proxy's too.
const (
	PathMetrics = telemetry.PathMetrics
	PathStatus  = telemetry.PathStatus
	PathLive    = telemetry.PathLive
	PathReady   = telemetry.PathReady
	// PathDisarm takes a POST after which no guard of the process cancels any more.
	PathDisarm = "/.spillgate/disarm"
)

// MostServers is how many servers one process guards.
const MostServers = 64

// SetConfig describes the guards of one process.
type SetConfig struct {
	// Servers are what is guarded, one to MostServers.
	Servers []Config
	// Admin is the host:port of metrics, status and health; keep it private. Default:
	// none.
	Admin string
	// Audit is the file that the audit log is appended to, made with mode 0600.
	// Default: none.
	Audit string
}

// Check reports every mistake of all servers.
func (c *SetConfig) Check() (all []Mistake) {
	if n := len(c.Servers); n == 0 || n > MostServers {
		all = append(all, Mistake{"servers", fmt.Sprintf("%d servers", n), fmt.Sprintf("1 to %d", MostServers)})
	}
	names := map[string]bool{}
	for i := range c.Servers {
		s := c.Servers[i].withDefaults()
		at := fmt.Sprintf("servers[%d]", i)
		for _, m := range s.Check() {
			m.Field = at + "." + m.Field
			all = append(all, m)
		}
		if names[s.Name] {
			all = append(all, Mistake{at + ".name", s.Name, "another name than that of the servers before"})
		}
		names[s.Name] = true
	}
	if _, _, err := net.SplitHostPort(c.Admin); c.Admin != "" && err != nil {
		all = append(all, Mistake{"admin", c.Admin, "host:port, such as 127.0.0.1:9091"})
	}
	return all
}

// Set is the guards of one process, and what serves their metrics.
type Set struct {
	cfg     SetConfig
	log     *slog.Logger
	guards  []*Guard
	metrics *telemetry.Telemetry

	mu    sync.Mutex
	file  *os.File // of audit, nil: there is none, or the set has ended
	audit *Audit
}

// NewSet makes the guards, opens the audit log and connects to nothing yet.
func NewSet(cfg SetConfig, log *slog.Logger) (*Set, error) {
	if found := cfg.Check(); len(found) > 0 {
		var errs []error
		for _, m := range found {
			errs = append(errs, m)
		}
		return nil, errors.Join(errs...)
	}
	s := &Set{cfg: cfg, log: log}
	if cfg.Audit != "" {
		var err error
		if s.file, err = record.Append(cfg.Audit, record.Mode); err != nil {
			return nil, fmt.Errorf("guard: the audit log: %w", err)
		}
		s.audit = NewAudit(s.file, log)
	}
	if err := s.make(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *Set) make() (err error) {
	for _, c := range s.cfg.Servers {
		g, err := New(c, s.log, s.audit)
		if err != nil {
			return err
		}
		s.guards = append(s.guards, g)
	}
	if s.metrics, err = telemetry.New(); err != nil {
		return err
	}
	return watchMetrics(s.metrics.Meter(), s.guards)
}

// Reopen opens the audit log again, which may have been moved away, and has what is decided from now on written there. If it cannot, the log goes on
// where it was.
func (s *Set) Reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return
	}
	file, err := record.Append(s.cfg.Audit, record.Mode)
	if err != nil {
		s.log.Error("the audit log cannot be opened again", slog.Any("error", err))
		return
	}
	s.audit.move(file)
	_ = s.file.Close()
	s.file = file
	s.log.Info("the audit log was opened again", slog.String("file", s.cfg.Audit))
}

func (s *Set) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
	if s.metrics != nil {
		_ = s.metrics.Shutdown(context.Background())
	}
}

// Run guards until ctx ends and returns nil then, or the error of the admin listener.
// A set runs once.
func (s *Set) Run(ctx context.Context) error {
	defer s.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	failed := make(chan error, 1)
	if s.cfg.Admin != "" {
		l, err := net.Listen("tcp", s.cfg.Admin)
		if err != nil {
			return fmt.Errorf("guard: the admin address: %w", err)
		}
		s.log.Info("serving metrics, status and health", slog.String("admin", l.Addr().String()))
		admin := telemetry.AdminServer(s.Admin(), slog.NewLogLogger(s.log.Handler(), slog.LevelDebug))
		running.Go(func() {
			if err := admin.Serve(telemetry.AdminListener(l)); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
				cancel()
			}
		})
		defer admin.Close()
	}
	var guarding sync.WaitGroup
	for _, g := range s.guards {
		guarding.Go(func() { _ = g.Run(ctx) })
	}
	guarding.Wait()
	select {
	case err := <-failed:
		return fmt.Errorf("guard: the admin address: %w", err)
	default:
		return nil
	}
}

// Admin serves metrics, status and health, and takes the order to cancel no more. It
// answers every request, so it belongs on a private address.
func (s *Set) Admin() http.Handler {
	mux := s.metrics.Admin(func() any { return map[string]any{"guards": s.Status()} }, func() (string, bool) {
		var blind []string
		for _, st := range s.Status() {
			if !st.Connected {
				blind = append(blind, st.Server+": "+st.Blind)
			}
		}
		if len(blind) > 0 {
			return "blind\n" + strings.Join(blind, "\n"), false
		}
		return "watching", true
	})
	mux.HandleFunc("POST "+PathDisarm, func(w http.ResponseWriter, _ *http.Request) {
		for _, g := range s.guards {
			g.Disarm()
		}
		s.log.Warn("disarmed: nothing is cancelled until the process is started again")
		_, _ = w.Write([]byte("disarmed\n"))
	})
	return mux
}

// Status returns the status of every guard, in the order of the configuration.
func (s *Set) Status() (all []Status) {
	for _, g := range s.guards {
		all = append(all, g.Status())
	}
	return all
}
