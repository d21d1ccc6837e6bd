package httpgate

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A classifier is told all that a request says, and what it returns counts, in the
// gate, for the handler and in what the handler passes on, but not of credits.
func TestClassify(t *testing.T) {
	var asked []wire.Tags
	var malformed atomic.Int64
	decision := wire.Tags{Workflow: "mine", Class: work.Interactive, Priority: 5, Total: wire.Progress{Service: time.Hour}, Attempt: 1}
	events := &events{}
	gate := newGate(t, roomy(), events.observe)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tags := live.TagsFrom(r.Context())
		_, timed := r.Context().Deadline()
		fmt.Fprintf(w, "%s %v %d %d %v [%s] %d fields", tags.Workflow, tags.Class, tags.Priority, tags.Attempt, timed, r.Header.Get(baggage), len(r.Header[field]))
	}),
		Trust(func(*http.Request) bool { t.Error("Trust was asked beside a classifier"); return true }),
		OnMalformed(func(*http.Request, error) { malformed.Add(1) }),
		Exempt(Paths("/health")),
		Classify(func(r *http.Request, claimed wire.Tags) wire.Tags {
			asked = append(asked, claimed)
			d := decision
			if r.URL.Path == "/timed" {
				d.Budget = time.Minute
			}
			if d.Credits = !claimed.Credits; !claimed.Credits {
				d.Client, d.Demand = 99, 99
			}
			return d
		}),
	))
	hostile := wire.Tags{Workflow: "evil", Priority: 1, Process: 3, Claim: 7, Elapsed: wire.Progress{Service: time.Second, Work: time.Second}}
	hungry := wire.Tags{Credits: true, Client: 7, Demand: 4, Priority: 2}
	const mine = "mine interactive 5 1 "
	for _, test := range []struct {
		name, path string
		tags       *wire.Tags
		bags       string
		claimed    wire.Tags
		want       string
		credits    bool
	}{
		{name: "nothing", want: mine + "false [] 0 fields"},
		{name: "nothing, timed", path: "/timed", want: mine + "true [] 0 fields"},
		{name: "tags", tags: &hostile, claimed: hostile, want: mine + "false [] 0 fields"},
		{name: "credits", tags: &hungry, claimed: hungry, want: mine + "false [] 0 fields", credits: true},
		{name: "baggage", bags: "a=b,spillgate.workflow=evil", claimed: wire.Tags{Workflow: "evil"},
			want: mine + "false [a=b,spillgate.workflow=mine,spillgate.class=interactive,spillgate.priority=5] 0 fields"},
		{name: "others' baggage", bags: "a=b", want: mine + "false [a=b] 0 fields"},
		{name: "exempt", path: "/health", bags: "spillgate.workflow=evil", tags: &hostile, claimed: hostile,
			want: " default 0 0 false [spillgate.workflow=mine,spillgate.class=interactive,spillgate.priority=5] 0 fields"},
	} {
		for _, major := range []int{1, 2} {
			asked = nil
			r, _ := http.NewRequest("GET", s.url+test.path, nil)
			if test.tags != nil {
				r.Header.Set(field, wire.Header(test.tags.Append(nil)))
			}
			if test.bags != "" {
				r.Header.Set(baggage, test.bags)
			}
			resp, body := send(t, base(t, major), r)
			if body != test.want {
				t.Errorf("HTTP/%d, %s: %s, want %s", major, test.name, body, test.want)
			}
			if len(asked) != 1 || asked[0] != test.claimed {
				t.Errorf("HTTP/%d, %s: asked about %+v, want %+v", major, test.name, asked, test.claimed)
			}
			reply := replyIn(t, resp.Header)
			if reply == nil {
				reply = replyIn(t, resp.Trailer)
			}
			if has := reply != nil && reply.HasGrant; has != test.credits {
				t.Errorf("HTTP/%d, %s: credits %v, want %v", major, test.name, has, test.credits)
			}
		}
	}
	for _, e := range events.list() {
		if e.Workflow != "mine" || e.Class != work.Interactive || e.Priority != 5 {
			t.Errorf("the gate had %+v", e)
		}
	}

	asked = nil
	r, _ := http.NewRequest("GET", s.url, nil)
	r.Header.Set(field, "!")
	r.Header.Set(baggage, "spillgate.priority=1000")
	if _, body := send(t, base(t, 1), r); body != mine+"false [spillgate.workflow=mine,spillgate.class=interactive,spillgate.priority=5] 0 fields" {
		t.Errorf("malformed: %s", body)
	}
	if malformed.Load() != 2 || len(asked) != 1 || asked[0] != (wire.Tags{}) {
		t.Errorf("malformed: %d told, asked about %+v", malformed.Load(), asked)
	}
}

// Whom a classifier believes is told the rate for its process, and others are not.
func TestClassifiedProcess(t *testing.T) {
	gate := rated(t, "s", 8, nil)
	s := serve(t, Handler(gate, text("ok"), Classify(func(r *http.Request, claimed wire.Tags) wire.Tags {
		if r.Header.Get("X-Friend") == "" {
			return wire.Tags{Workflow: claimed.Workflow}
		}
		return claimed
	})))
	for _, friend := range []bool{false, true} {
		r := request(t, s.url, wire.Tags{Workflow: "w", Process: 9, Claim: 5})
		if friend {
			r.Header.Set("X-Friend", "yes")
		}
		resp, _ := send(t, base(t, 2), r)
		reply := replyIn(t, resp.Trailer)
		if told := reply != nil && reply.Process != 0; told != friend {
			t.Errorf("friend %v: told %+v", friend, reply)
		}
	}
}
