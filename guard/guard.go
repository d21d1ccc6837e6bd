package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
)

// The times of a guard.
const (
	// DefaultPeriod is how often a server is looked at.
	DefaultPeriod = 100 * time.Millisecond
	// connectTimeout is how long opening a source may take.
	connectTimeout = 10 * time.Second
	// shortestPause and longestPause bound the time between two tries to connect.
	shortestPause, longestPause = 100 * time.Millisecond, 30 * time.Second
	// shortestPeriod is the least time from one look to the next when a decision asks for one
	// soon. It is no shorter than the look took, or a server in trouble would do nothing else.
	shortestPeriod = 20 * time.Millisecond
	// longestLate is for how long a server may answer no look in time before its source is opened anew: a
	// few times as long as an answer may take. What was learned of its tasks is lost then.
	longestLate = 10 * time.Second
	// checkEvery is how often the connection that acts is checked.
	checkEvery = 10 * time.Second
)

// Config describes the guard of one server. Zero fields take the default named in their
// comment.
type Config struct {
	// Name is the server's label in logs and metrics. Default: Label(URL).
	Name string
	// URL says where the server is: postgres://user:password@host:port/database,
	// mariadb://…, mysql://…, opensearch://…, elasticsearch://… or solr://host:port/solr/core, these three with ?tasks=FILE for a task file;
	// apache://… and php-fpm://… as guard/apache and guard/phpfpm have it. Required.
	URL string
	// PasswordFile is a file with the password, read at each connect; white space at
	// its ends is left out. Default: the password in the URL, or else the way that is usual for the server.
	PasswordFile string
	// Objective is the latency objective of foreground statements, in
	// seconds to minutes. Required. Smaller finds culprits sooner, and takes shorter
	// ones for such.
	Objective time.Duration
	// Mode is culprit.Monitor by default: only report what Enforce would cancel.
	Mode culprit.Mode
	// Period is the time between two looks, 10 ms to 10 s. Default DefaultPeriod.
	// Larger costs the server less and decides later.
	Period time.Duration
	// Rules say which tasks it may cancel.
	Rules Rules
	// PerSecond, PerMinute and PerCompletion cap the cancels, as those of
	// culprit.Config do, whose defaults they have.
	PerSecond, PerMinute int
	PerCompletion        float64
	// MinAge is the age below which no task is cancelled, except tasks of a kind that was
	// cancelled lately and may not begin. Default Objective.
	MinAge time.Duration
	// KillSwitch is the path of a file; while it exists, the guard only monitors.
	// Default: none.
	KillSwitch string
	// ShowStatements puts normalised texts of statements, without their literals,
	// into log and audit. Default: fingerprints alone.
	ShowStatements bool
}

// Mistake is something wrong with a configuration.
type Mistake struct {
	// Field is the key's path in files, Value what it is, Want what was expected.
	Field, Value, Want string
}

// Error returns field, value and expectation in one line.
func (m Mistake) Error() string {
	if m.Value == "" {
		return fmt.Sprintf("guard: %s is missing, expected %s", m.Field, m.Want)
	}
	return fmt.Sprintf("guard: %s: %s, expected %s", m.Field, m.Value, m.Want)
}

// Check reports every mistake. None shows a password.
func (c *Config) Check() (all []Mistake) {
	wrong := func(ok bool, field string, value any, want string) {
		if !ok {
			all = append(all, Mistake{field, fmt.Sprint(value), want})
		}
	}
	if c.URL == "" {
		wrong(false, "url", "", "postgres://user@host:port/database, mariadb://…, mysql://…, apache://…, php-fpm://…, opensearch://…, elasticsearch://… or solr://…")
	} else if err := Check(c.URL); err != nil {
		value, want, _ := strings.Cut(err.Error(), "expected ") // each says what it expected, and shows no password
		wrong(false, "url", strings.TrimRight(value, ":, "), want)
	}
	if c.Objective == 0 {
		wrong(false, "slo", "", "a duration such as 500ms")
	}
	wrong(c.Objective >= 0, "slo", c.Objective, "a duration above 0, such as 500ms")
	wrong(c.Period == 0 || c.Period >= 10*time.Millisecond && c.Period <= 10*time.Second, "period", c.Period, "10ms to 10s")
	wrong(c.MinAge >= 0, "min_age", c.MinAge, "a duration of 0 or more")
	wrong(c.PerSecond >= 0, "per_second", c.PerSecond, "a number of 0 or more")
	wrong(c.PerMinute >= 0, "per_minute", c.PerMinute, "a number of 0 or more")
	wrong(c.PerCompletion >= 0 && c.PerCompletion <= 1, "per_completion", c.PerCompletion, "a share, 0 to 1")
	return append(all, c.Rules.Check()...)
}

func (c *Config) engine(mode culprit.Mode) culprit.Config {
	return culprit.Config{Objective: c.Objective, Mode: mode, MinAge: c.MinAge, PerSecond: c.PerSecond, PerMinute: c.PerMinute, PerCompletion: c.PerCompletion}
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = Label(c.URL)
	}
	if c.Period == 0 {
		c.Period = DefaultPeriod
	}
	return c
}

// Guard watches one server.
type Guard struct {
	cfg    Config
	log    *slog.Logger
	audit  *Audit
	open   func(ctx context.Context) (Source, error)
	engine engine
	mode   culprit.Mode // of the engine
	ids    numbers

	answered time.Time // when the last look was

	// OnCancel, if not nil, is told of every cancel that was done or would have been.
	// It must be set before Run, and must return soon.
	OnCancel func(Cancel)

	disarmed atomic.Bool
	next     atomic.Pointer[Config] // to be taken with the next look
	mu       sync.Mutex
	status   Status
	counts   counts
	told     told
	keeps    []keeping
}

// New returns a guard that has not connected yet. audit may be nil.
func New(cfg Config, log *slog.Logger, audit *Audit) (*Guard, error) {
	if found := cfg.Check(); len(found) > 0 {
		var errs []error
		for _, m := range found {
			errs = append(errs, m)
		}
		return nil, errors.Join(errs...)
	}
	cfg = cfg.withDefaults()
	kind, err := schemeOf(cfg.URL)
	if err != nil {
		return nil, err
	}
	g := &Guard{cfg: cfg, log: log.With(slog.String("server", cfg.Name)), audit: audit}
	g.open = func(ctx context.Context) (Source, error) {
		url, err := withPassword(cfg.URL, cfg.PasswordFile)
		if err != nil {
			return nil, err
		}
		return kind.open(ctx, url, cfg.Objective)
	}
	g.status = Status{Server: cfg.Name, Mode: cfg.Mode.String(), Objective: cfg.Objective.Seconds(), State: "connecting"}
	if err := g.arm(cfg.Mode); err != nil {
		return nil, err
	}
	return g, nil
}

// arm has the engine work in a mode, with the configuration of this moment. It keeps what it has
// learned.
func (g *Guard) arm(mode culprit.Mode) (err error) {
	if g.engine == nil {
		g.engine, err = g.audit.engine(g.cfg.Name, g.cfg.engine(mode))
	} else {
		err = g.engine.Configure(g.cfg.engine(mode))
	}
	if err == nil {
		g.mode = mode
	}
	return err
}

// Disarm makes the guard monitor until its process ends.
func (g *Guard) Disarm() { g.disarmed.Store(true) }

// latest returns the newest configuration, which the next look takes: there is none while the server cannot be seen.
func (g *Guard) latest() *Config {
	if c := g.next.Load(); c != nil {
		return c
	}
	return &g.cfg
}

// wanted returns the mode of this moment, and why it is not the configured one.
func (g *Guard) wanted() (culprit.Mode, string) {
	c := g.latest()
	if c.Mode != culprit.Enforce {
		return c.Mode, ""
	}
	if g.disarmed.Load() {
		return culprit.Monitor, "disarmed through the admin address"
	}
	if c.KillSwitch != "" {
		// What cannot be looked at may be there.
		if _, err := os.Lstat(c.KillSwitch); err == nil || !errors.Is(err, os.ErrNotExist) {
			return culprit.Monitor, "the kill switch " + c.KillSwitch + " is there"
		}
	}
	return c.Mode, ""
}

// forbidden returns why the configuration of this moment forbids an action that was decided on a look, nil if it does not.
func (g *Guard) forbidden(look *track.Look, a culprit.Action) error {
	if mode, why := g.wanted(); mode != culprit.Enforce {
		return errors.New(cmp.Or(why, "the mode is "+mode.String()+" since the look began"))
	}
	if c := g.next.Load(); c != nil {
		c.Rules.apply(look)
		if i := index(look, a.Task); i >= 0 && look.Sample.Tasks[i].Barred != culprit.NotBarred {
			return errors.New("the rules forbid it since the look began")
		}
	}
	return nil
}

// Run watches until ctx ends. It returns nil then.
func (g *Guard) Run(ctx context.Context) error {
	pause := shortestPause
	for ctx.Err() == nil {
		began := time.Now()
		err := g.watch(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > longestPause {
			pause = shortestPause
		}
		g.lost(err, pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause + rand.N(pause/4+1)):
		}
		pause = min(2*pause, longestPause)
	}
	return nil
}

// watch connects and looks until something fails.
func (g *Guard) watch(ctx context.Context) error {
	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	source, err := g.open(opening)
	cancel()
	if err != nil {
		return err
	}
	defer source.Close()
	g.ids.begin()
	g.answered = time.Now()
	tick := time.NewTicker(g.cfg.Period)
	defer tick.Stop()
	checked := time.Now()
	for seen := false; ; seen = true {
		soon, err := g.step(ctx, source)
		if err != nil {
			return err
		}
		if !seen {
			g.connected()
		}
		if time.Since(checked) > checkEvery {
			if err := source.Alive(ctx); err != nil {
				return fmt.Errorf("the connection that cancels: %w", err)
			}
			checked = time.Now()
		}
		next := tick.C
		if soon > 0 && soon < g.cfg.Period {
			next = time.After(soon)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// step looks, decides and acts once. It returns after which time another look is worth its
// cost, 0 for a period.
func (g *Guard) step(ctx context.Context, source Source) (soon time.Duration, err error) {
	began := time.Now()
	look, err := source.Look(ctx)
	took := time.Since(began)
	if err := g.current(); err != nil { // after the look, which may have taken long, or be late for long
		return 0, err
	}
	if errors.Is(err, track.ErrLate) {
		return 0, g.late(err, began)
	}
	if err != nil {
		return 0, err
	}
	g.answered = time.Now()
	g.ids.enter(look)
	g.cfg.Rules.apply(look)
	decision := g.engine.Observe(&look.Sample)
	g.report(look, decision, took)
	g.keepOutThere(ctx, source) // before the cancel, after which its client may try again
	if a := decision.Action; a.Step != culprit.NoStep && !a.Would {
		if err := g.act(ctx, source, look, a); err != nil {
			return 0, err
		}
	}
	if decision.Soon == 0 {
		return 0, nil
	}
	return max(decision.Soon, shortestPeriod, took), nil
}

// current has the engine work with the configuration and in the mode of this moment.
func (g *Guard) current() error {
	taken := g.takeNext()
	mode, why := g.wanted()
	was := g.mode
	if !taken && mode == was {
		return nil
	}
	if err := g.arm(mode); err != nil {
		return err
	}
	if mode != was {
		g.log.Warn("mode changed", slog.String("mode", mode.String()), slog.String("why", cmp.Or(why, "configured")))
	}
	return nil
}

// act carries an action out. The error is that of a connection that is gone; what a server refuses
// is only told.
func (g *Guard) act(ctx context.Context, source Source, look *track.Look, a culprit.Action) error {
	done, err := false, g.forbidden(look, a)
	if err == nil {
		done, err = source.Act(ctx, g.ids.own(a.Task), a.Step)
	}
	g.acted(look, a, done, err)
	if err == nil {
		return nil
	}
	if err := source.Alive(ctx); err != nil {
		return fmt.Errorf("the connection that cancels: %w", err)
	}
	return nil
}

// late enters a look that began at an instant and was not answered in time. It returns an error if none was for
// long.
func (g *Guard) late(err error, began time.Time) error {
	if began.Sub(g.answered) > longestLate {
		return err
	}
	g.engine.Observe(&culprit.Sample{At: live.Now(), Blind: err.Error()})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts.failures++
	g.status.Connected, g.status.Blind, g.status.State = false, err.Error(), "blind"
	return nil
}

// lost notes that the server cannot be seen, once for a series of failures with one
// cause.
func (g *Guard) lost(err error, pause time.Duration) {
	blind := &culprit.Sample{At: live.Now(), Blind: err.Error()}
	g.engine.Observe(blind)
	g.mu.Lock()
	g.counts.failures++
	g.status.Connected, g.status.Blind = false, err.Error()
	g.status.State = "blind"
	repeated := g.told.failure == err.Error()
	g.told.failure = err.Error()
	g.mu.Unlock()
	if !repeated {
		g.log.Error("cannot look at the server; nothing is cancelled meanwhile", slog.Any("error", err), slog.Duration("next", pause))
	}
}

func (g *Guard) connected() {
	g.mu.Lock()
	g.told.failure = ""
	g.mu.Unlock()
	g.log.Info("watching", slog.String("mode", g.mode.String()), slog.Duration("slo", g.cfg.Objective), slog.Duration("period", g.cfg.Period))
}
