package proxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// Check asks the upstreams whether they are well, beside what their answers to requests
// say. Off without Path and GRPC.
type Check struct {
	// Path is asked for with GET, past the gate; an answer from 200 to 299 in time is
	// good, every other and none is bad. Default none: nothing is asked.
	Path string
	// GRPC asks the gRPC health service (grpc.health.v1) in place of a path, for upstreams
	// that are h2c:// or https://. Service is whose health is asked for; default that of
	// the whole server.
	GRPC    bool
	Service string
	// Interval is the time between two of them. Default 5 s; 10 ms to an hour.
	Interval time.Duration
	// Timeout is how long the answer may take. Default 1 s, or the interval if that is
	// shorter.
	Timeout time.Duration
	// Bad is how many in a row must be bad for the upstream to be put out, and Good how
	// many must be good for it to be back. Default 3 and 2, at most 100. Larger tolerates
	// more, smaller sees more. An upstream that was put out for what it answered to
	// requests is back after as many as Good too.
	Bad, Good int
}

// checkBody is how much of the answer to a check is read, in bytes, so that its connection
// can be kept.
const checkBody = 16 << 10

func (c Check) on() bool { return c.Path != "" || c.GRPC }

func (c Check) withDefaults() Check {
	if !c.on() {
		return c
	}
	if c.Interval == 0 {
		c.Interval = 5 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = min(time.Second, c.Interval)
	}
	if c.Bad == 0 {
		c.Bad = 3
	}
	if c.Good == 0 {
		c.Good = 2
	}
	return c
}

// check finds the mistakes in c, which stands in field.
func (c Check) check(wrong func(field, value, want string), field string) {
	switch {
	case !c.on() && c != (Check{}):
		wrong(field+".path", "", "the path to ask for, for example /healthz, or grpc: true")
		return
	case c.GRPC && c.Path != "":
		wrong(field+".path", quote(c.Path), "no grpc beside it: one of the two is asked")
	case c.Service != "" && !c.GRPC:
		wrong(field+".service", quote(c.Service), "grpc: true beside it")
	case len(c.Service) > 256:
		wrong(field+".service", quote(c.Service), "at most 256 bytes")
	}
	if _, err := url.ParseRequestURI(c.Path); c.Path != "" && (err != nil || c.Path[0] != '/' || len(c.Path) > 256 || strings.ContainsAny(c.Path, " #")) {
		wrong(field+".path", quote(c.Path), "a path of at most 256 bytes that begins with a slash, for example /healthz")
	}
	for _, d := range [...]struct {
		name  string
		value time.Duration
	}{{"interval", c.Interval}, {"timeout", c.Timeout}} {
		if d.value != 0 && (d.value < 10*time.Millisecond || d.value > time.Hour) {
			wrong(field+"."+d.name, d.value.String(), fmt.Sprintf("%v to %v, or 0 for the default", 10*time.Millisecond, time.Hour))
		}
	}
	for _, n := range [...]struct {
		name  string
		value int
	}{{"bad", c.Bad}, {"good", c.Good}} {
		if n.value < 0 || n.value > 100 {
			wrong(field+"."+n.name, strconv.Itoa(n.value), "1 to 100, or 0 for the default")
		}
	}
}

// checked takes the result of a check. left reports that the upstream is put out for it,
// back that it is back. Checks put out as many as fail them: it is known of each by itself
// that it is not well. Where all are out, requests go to any of them.
func (h *health) checked(now mono.Time, good bool) (left, back bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if good != (h.checks > 0) {
		h.checks = 0
	}
	c := &h.rule.Check
	if good {
		h.checks = min(h.checks+1, c.Good)
		if !h.out || h.checks < c.Good {
			return false, false
		}
		h.out, h.ill, h.since, h.row = false, false, now, 0
		h.isOut.Store(false)
		h.cuts.Store(0)
		return false, true
	}
	h.checks = max(h.checks-1, -c.Bad)
	if h.ill || h.checks > -c.Bad {
		return false, false
	}
	left = !h.out
	if h.ill = true; left {
		h.out, h.why, h.said, h.since = true, failing, true, now
		h.isOut.Store(true)
		h.outs++
	}
	return left, false
}

// watchWell checks the upstream until ctx ends.
func (u *upstream) watchWell(ctx context.Context) {
	c := u.made.Health.Check
	if !c.on() {
		return
	}
	// The first comes soon, but not at all of the upstreams at once.
	next := time.NewTimer(rand.N(min(c.Interval, time.Second)))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := u.ask(ctx, &c)
		if ctx.Err() != nil {
			return
		}
		u.checked(err)
		next.Reset(c.Interval)
	}
}

// ask makes one check, and returns what was wrong.
func (u *upstream) ask(ctx context.Context, c *Check) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if c.GRPC {
		return u.askGRPC(ctx, c.Service)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(u.url.String(), "/")+c.Path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "spillgate-check")
	resp, err := u.base.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, checkBody)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return nil
}

// checked takes the result of a check, and says in the log what follows from it.
func (u *upstream) checked(err error) {
	if err != nil {
		u.badChecks.Add(1)
	} else {
		u.goodChecks.Add(1)
	}
	left, back := u.health.checked(live.Now(), err == nil)
	switch {
	case left:
		u.p.log.Warn("upstream out of rotation: it fails its checks", "upstream", u.name, "error", err)
	case back:
		u.p.log.Info("upstream back in rotation: it passes its checks", "upstream", u.name)
	}
}

// reach says in the log if no connection to the upstream can be made, which is not fatal: it
// may come later.
func (u *upstream) reach(ctx context.Context) {
	network, address := u.cfg.address(u.url)
	c, err := (&net.Dialer{Timeout: u.made.Limits.Connect}).DialContext(ctx, network, address)
	if err == nil {
		c.Close()
		return
	}
	if ctx.Err() == nil {
		u.p.log.Warn("upstream cannot be reached; requests to it will fail until it can", "upstream", u.name, "url", redact(u.cfg.URL), "address", address, "error", err)
	}
}

// begin does what is done about the upstream beside its requests, until it is closed or
// leaves. The lock of the proxy is held.
func (u *upstream) begin() {
	u.p.leaving.Go(func() {
		u.reach(u.lifetime)
		u.watchWell(u.lifetime)
	})
}

// ready reports whether each group has as many upstreams that are not put out as
// Health.Ready asks for. Until it was ready once, only those count that have passed a check: nothing
// is known of the others yet. After a reload they count, or each would be a pause.
func (p *Proxy) ready() bool {
	was := p.wasReady.Load()
	for _, g := range p.state.Load().groups {
		in := 0
		for _, u := range g.upstreams {
			if !u.health.isOut.Load() && (was || u.goodChecks.Load() > 0) {
				in++
			}
		}
		if in < min(g.cfg.Health.Ready, len(g.upstreams)) {
			return false
		}
	}
	p.wasReady.Store(true)
	return true
}
