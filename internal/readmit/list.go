package readmit

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// Config sets up a List. Its zero value works, but for Objective.
type Config struct {
	// Objective is the latency objective of requests. Required.
	Objective time.Duration
	// Calm is for how long the server must have been well before a token is honoured.
	// Default 10 objectives, at least 1 s. Longer is safer for the others.
	Calm time.Duration
	// Keep is for how long a token of a request with an objective is good. Default 100
	// objectives, at least 30 s. Later answers are of no use.
	Keep time.Duration
	// MaxWait is after what time a token of background work is honoured although the
	// server is not well. Default 1 min. Such a token is good for an hour.
	MaxWait time.Duration
	// Tokens and Kinds are the most tokens and limits. Defaults 1,024 and 64. Of more,
	// the oldest go: its request is then one like any other.
	Tokens, Kinds int
}

// keepBackground is for how long a token of background work is good.
const keepBackground = time.Hour

// Check reports every mistake of the configuration.
func (c Config) Check() error {
	var errs []error
	if c.Objective <= 0 {
		errs = append(errs, fmt.Errorf("readmit: Objective is %v; expected a positive duration, such as 100ms", c.Objective))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Calm", c.Calm}, {"Keep", c.Keep}, {"MaxWait", c.MaxWait}} {
		if d.value < 0 || d.value > keepBackground {
			errs = append(errs, fmt.Errorf("readmit: %s is %v; expected 0, the default, to %v", d.name, d.value, keepBackground))
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"Tokens", c.Tokens}, {"Kinds", c.Kinds}} {
		if n.value < 0 || n.value > 1<<16 {
			errs = append(errs, fmt.Errorf("readmit: %s is %d; expected 0, the default, to %d", n.name, n.value, 1<<16))
		}
	}
	return errors.Join(errs...)
}

func (c Config) filled() Config {
	if c.Calm == 0 {
		c.Calm = min(max(10*c.Objective, time.Second), keepBackground)
	}
	if c.Keep == 0 {
		c.Keep = min(max(100*c.Objective, 30*time.Second), keepBackground)
	}
	if c.MaxWait == 0 {
		c.MaxWait = time.Minute
	}
	if c.Tokens == 0 {
		c.Tokens = 1024
	}
	if c.Kinds == 0 {
		c.Kinds = 64
	}
	return c
}

// Answer is what becomes of a request.
type Answer uint8

const (
	// Admit: it is one like any other.
	Admit Answer = iota
	// Protect: its token is taken; it is let in, and must not be cancelled.
	Protect
	// Later: its token is good, and the server has not been well for long enough.
	Later
	// Refuse: its kind is limited, and it has no token that is good.
	Refuse
)

// String returns the word that tests and logs use.
func (a Answer) String() string {
	switch a {
	case Admit:
		return "admit"
	case Protect:
		return "protect"
	case Later:
		return "later"
	case Refuse:
		return "refuse"
	}
	return "unknown"
}

// List holds the limits and the tokens of one server. It is not safe for concurrent
// use. Calls take constant time, but for Ask of a server with limits, which looks at
// each.
type List struct {
	cfg    Config
	tokens map[wire.Token]*grant
	order  []issued // the oldest first
	limits []limit
	bad    bool      // the server is not well
	since  mono.Time // bad changed
}

// grant is a token that is good.
type grant struct {
	kind       uint64
	at         mono.Time
	background bool
	taken      bool
}

type issued struct {
	token wire.Token
	grant *grant
}

type limit struct {
	kind  uint64
	until mono.Time
}

// New returns an empty List, or every mistake in cfg.
func New(cfg Config) (*List, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return &List{cfg: cfg.filled(), tokens: map[wire.Token]*grant{}}, nil
}

// SetConfig changes the configuration, which New or Check has found right. Tokens and limits stay.
func (l *List) SetConfig(cfg Config) { l.cfg = cfg.filled() }

// Empty reports that Ask would say Admit of every request.
func (l *List) Empty() bool { return len(l.tokens) == 0 && len(l.limits) == 0 }

// Limits and Tokens return how many there are, for looking at.
func (l *List) Limits() int { return len(l.limits) }

// Tokens returns how many tokens are good.
func (l *List) Tokens() int { return len(l.tokens) }

// Observe takes whether the server is well at now.
func (l *List) Observe(now mono.Time, well bool) {
	if l.bad == well {
		l.bad, l.since = !well, now
	}
	l.expire(now)
}

// Limit lets no request of a kind begin until an instant.
func (l *List) Limit(kind uint64, until mono.Time) {
	for i := range l.limits {
		if l.limits[i].kind == kind {
			l.limits[i].until = until
			return
		}
	}
	if len(l.limits) >= l.cfg.Kinds {
		l.limits = append(l.limits[:0], l.limits[1:]...)
	}
	l.limits = append(l.limits, limit{kind, until})
}

// Issue makes a token good, which must be random and new, for a request of a kind that
// is cancelled at now. It returns after which time the request is best sent again.
func (l *List) Issue(now mono.Time, token wire.Token, kind uint64, background bool) (after time.Duration) {
	l.bad, l.since = true, now // whatever was seen before
	g := &grant{kind: kind, at: now, background: background}
	l.tokens[token] = g
	l.order = append(l.order, issued{token, g})
	l.expire(now)
	return l.cfg.Calm
}

// Ask decides about a request of a kind, with a token that is zero if it has none. With
// Later and Refuse it returns after what time another attempt makes sense.
func (l *List) Ask(now mono.Time, kind uint64, token wire.Token) (Answer, time.Duration) {
	g := l.tokens[token]
	if g != nil && g.kind == kind && !g.taken && !l.late(now, g) {
		if wait := l.wait(now, g); wait > 0 {
			return Later, wait
		}
		g.taken = true
		return Protect, 0
	}
	for i := range l.limits {
		if left := l.limits[i].until.Sub(now); l.limits[i].kind == kind && left > 0 {
			return Refuse, left
		}
	}
	return Admit, 0
}

// Used ends a token that Ask took: its request was let in. Otherwise, the token is good
// again.
func (l *List) Used(token wire.Token, admitted bool) {
	switch g := l.tokens[token]; {
	case g == nil || !g.taken:
	case admitted:
		delete(l.tokens, token)
	default:
		g.taken = false
	}
}

// wait returns how long it takes at least until g is honoured.
func (l *List) wait(now mono.Time, g *grant) time.Duration {
	wait := l.cfg.Calm
	if !l.bad {
		wait -= now.Sub(l.since)
	}
	if g.background {
		wait = min(wait, l.cfg.MaxWait-now.Sub(g.at))
	}
	return wait
}

func (l *List) late(now mono.Time, g *grant) bool {
	keep := l.cfg.Keep
	if g.background {
		keep = keepBackground
	}
	return now.Sub(g.at) > keep
}

// expire forgets what is over, and the oldest of what is too much.
func (l *List) expire(now mono.Time) {
	kept := l.limits[:0]
	for _, k := range l.limits {
		if k.until > now {
			kept = append(kept, k)
		}
	}
	l.limits = kept
	left := l.order[:0]
	for i, o := range l.order {
		switch {
		case l.tokens[o.token] != o.grant: // used
		case l.late(now, o.grant), len(l.order)-i > l.cfg.Tokens:
			delete(l.tokens, o.token)
		default:
			left = append(left, o)
		}
	}
	clear(l.order[len(left):])
	l.order = left
}
