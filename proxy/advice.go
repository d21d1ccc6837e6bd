package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// A guard that watches the server behind the proxy may say that no more requests of a kind should
// begin. It cannot keep them out; the proxy can:
//
//	guard: status, kept_out ──every 200 ms──▶ advice ──▶ refusal, with its cause
//
// Advice that was not heard again for adviceKept is forgotten: without its guard, the proxy keeps
// nothing out.

const (
	// adviceEvery is how often a guard is asked: the wait for its next look is half of that.
	adviceEvery = 200 * time.Millisecond
	// adviceKept is how long advice stands without being heard again.
	adviceKept = 2 * time.Second
	// adviceBytes bounds the status of a guard, adviceRoutes what of it is kept.
	adviceBytes, adviceRoutes = 1 << 20, 256
	// adviceField is the response's field with the cause of such a refusal, at most adviceCause bytes.
	adviceField, adviceCause = "Spillgate-Cause", 200
)

// KeptOut is a kind of requests that a guard has the proxy refuse.
type KeptOut struct {
	// Route is the kind, Cause what the guard says of it.
	Route string `json:"route"`
	Cause string `json:"cause"`
	// For is how long it stands at least, in seconds.
	For float64 `json:"for_seconds"`
}

// advice is what a guard said last.
type advice struct {
	said atomic.Pointer[map[string]KeptOut]
	last time.Time // of the goroutine that asks
}

// of returns what is said of a request.
func (a *advice) of(r *http.Request, use *classify.Use) (KeptOut, bool) {
	all := a.said.Load()
	if all == nil || len(*all) == 0 {
		return KeptOut{}, false
	}
	kind := use.Kind
	if kind == "" {
		kind = httpgate.Kind(r)
	}
	k, ok := (*all)[kind]
	return k, ok
}

// list returns what is kept out, for the status page.
func (a *advice) list() (all []KeptOut) {
	if said := a.said.Load(); said != nil {
		for _, route := range slices.Sorted(maps.Keys(*said)) {
			all = append(all, (*said)[route])
		}
	}
	return all
}

// watchGuard asks the guard of the configuration of each moment until ctx ends.
func (p *Proxy) watchGuard(ctx context.Context) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(adviceEvery)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		address := p.state.Load().cfg.Culprit.Guard
		said, err := map[string]KeptOut(nil), error(nil)
		if address != "" {
			said, err = askGuard(ctx, &client, address)
		}
		switch {
		case err == nil:
			p.advice.last, failed = time.Now(), ""
			p.advice.said.Store(&said)
		case ctx.Err() == nil:
			if text := err.Error(); text != failed {
				failed = text
				p.log.Warn("the guard does not say what to keep out", "guard", address, "error", err)
			}
			if time.Since(p.advice.last) > adviceKept {
				p.advice.said.Store(nil)
			}
		}
	}
}

// askGuard returns what a guard says, by route.
func askGuard(ctx context.Context, client *http.Client, address string) (map[string]KeptOut, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+PathStatus, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, adviceBytes+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK || len(text) > adviceBytes:
		return nil, fmt.Errorf("it answered %s with %d bytes, expected its status of at most %d bytes: is this the admin address of spillgate guard?", resp.Status, len(text), adviceBytes)
	}
	return readAdvice(text)
}

// readAdvice reads a guard's status.
func readAdvice(text []byte) (map[string]KeptOut, error) {
	var doc struct {
		Guards []struct {
			Server  string `json:"server"`
			KeptOut []struct {
				Route    string  `json:"route"`
				Resource string  `json:"resource"`
				For      float64 `json:"for_seconds"`
			} `json:"kept_out"`
		} `json:"guards"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("its status is not that of a guard: %w", err)
	}
	said := map[string]KeptOut{}
	for _, g := range doc.Guards {
		for _, k := range g.KeptOut {
			if k.Route != "" && k.For > 0 && k.For <= time.Hour.Seconds() && len(said) < adviceRoutes {
				said[k.Route] = KeptOut{Route: k.Route, Cause: printable(fmt.Sprintf("%s took %s of %s from others", k.Route, k.Resource, g.Server)), For: k.For}
			}
		}
	}
	return said, nil
}

// printable returns what a field of a response may hold.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text[:min(len(text), adviceCause)])
}

// advised counts a request that a guard has the proxy keep out, and unless the mode is monitor
// answers it and reports true.
func (p *Proxy) advised(s *state, w http.ResponseWriter, r *http.Request, use *classify.Use) bool {
	if s.cfg.Mode == live.Off || s.cfg.Culprit.Guard == "" || s.exempts(r) {
		return false
	}
	k, ok := p.advice.of(r, use)
	if !ok {
		return false
	}
	p.keptOut.Add(context.Background(), 1)
	if s.cfg.Mode != live.Enforce {
		return false
	}
	w.Header().Set(adviceField, k.Cause)
	httpgate.Refuse(w, r, &live.Refusal{Reason: work.Culprit, Pushback: time.Duration(k.For * float64(time.Second))})
	return true
}
