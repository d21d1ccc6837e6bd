package grpcgate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// tier is one process of a chain: entry → middle → leaf, each with a gate.
type tier struct {
	*testServer
	down *grpc.ClientConn // to the next one

	mu      sync.Mutex
	arrived map[string]wire.Tags // last, by workflow
	refused [work.NumReasons]map[string]int
}

func (r *tier) observe(e live.Event) {
	if e.Reason == work.None {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused[e.Reason] == nil {
		r.refused[e.Reason] = map[string]int{}
	}
	r.refused[e.Reason][e.Workflow]++
}

func (r *tier) count(reason work.Reason, workflow string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused[reason][workflow]
}

func (r *tier) last(workflow string) wire.Tags {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrived[workflow]
}

// rated is a gate whose workflows have rates.
func rated(slotCount int) admission.Config {
	return admission.Config{
		Objective: 200 * time.Millisecond, NoCredit: true,
		Slots: slots.Config{Min: slotCount, Max: slotCount, Initial: slotCount},
		Rates: &rates.Config{MaxWait: 50 * time.Millisecond},
	}
}

// newTier serves with work as its handler, which is given the connection to next.
func newTier(t *testing.T, name string, cfg admission.Config, next *tier, do func(ctx context.Context, r *tier, req string) (string, error)) *tier {
	t.Helper()
	r := &tier{arrived: map[string]wire.Tags{}}
	gate, err := live.NewGate(live.GateConfig{Config: cfg, Service: name, Observe: r.observe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	if next != nil {
		r.down, _ = dialGated(t, next.addr, nil)
	}
	see := func(_ context.Context, _ string, claimed wire.Tags) wire.Tags {
		r.mu.Lock()
		r.arrived[claimed.Workflow] = claimed
		r.mu.Unlock()
		return claimed
	}
	r.testServer = serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) { return do(ctx, r, req) }}, []Option{WithClassifier(see)})
	return r
}

func pass(ctx context.Context, r *tier, req string) (string, error) { return call1(ctx, r.down, req) }

// TestProgressOfThreeTiers: tags reach the leaf, what it took comes back to the
// entry, and the entry learns what a whole request takes.
func TestProgressOfThreeTiers(t *testing.T) {
	const ms = time.Millisecond
	var spans [2]struct {
		mu    sync.Mutex
		last  wire.Progress
		apart time.Duration // work beyond the service, at most: a stall between two calls makes it small
	}
	note := func(i int, ctx context.Context) {
		p := live.SpanFrom(ctx).Spent()
		spans[i].mu.Lock()
		spans[i].last = p
		spans[i].apart = max(spans[i].apart, p.Work-p.Service)
		spans[i].mu.Unlock()
	}
	cfg := rated(8)
	cfg.Objective = patience // nothing is learned of requests that are late
	leaf := newTier(t, "leaf", cfg, nil, func(_ context.Context, _ *tier, req string) (string, error) {
		time.Sleep(20 * ms)
		return req, nil
	})
	middle := newTier(t, "middle", cfg, leaf, func(ctx context.Context, r *tier, req string) (string, error) {
		time.Sleep(10 * ms)
		done := make(chan error)
		for range 2 { // side by side: they count once for service, twice for work
			go func() { _, err := call1(ctx, r.down, req); done <- err }()
		}
		err := errors.Join(<-done, <-done)
		note(1, ctx)
		return req, err
	})
	entry := newTier(t, "entry", cfg, middle, func(ctx context.Context, r *tier, req string) (string, error) {
		out, err := call1(ctx, r.down, req)
		note(0, ctx)
		return out, err
	})
	client := dial(t, entry.addr)
	ctx := metadata.AppendToOutgoingContext(within(t), wire.MetadataKey, string(wire.Tags{Workflow: "A", Class: work.Interactive, Priority: 3}.Append(nil)))
	for range 4 {
		if _, err := call1(ctx, client, "x"); err != nil {
			t.Fatal(err)
		}
	}
	got := leaf.last("A")
	if got.Class != work.Interactive || got.Priority != 3 || got.Process == 0 || got.Elapsed.Service < 10*ms {
		t.Errorf("the leaf was told %+v", got)
	}
	if total := got.Total; total.Service < 30*ms || total.Work < 50*ms {
		t.Errorf("the leaf was told %+v, expected the entry's total of 30 ms of service and 50 ms of work", got)
	}
	if m := middle.last("A"); m.Process == got.Process || m.Total != got.Total || m.Elapsed.Service >= got.Elapsed.Service {
		t.Errorf("the middle was told %+v, the leaf %+v", m, got)
	}
	if e := entry.last("A"); e.Process != 0 || e.Total != (wire.Progress{}) {
		t.Errorf("the entry was told %+v", e)
	}
	// The leaf's own 20 ms twice, the middle's 10 ms once; and no tier takes less
	// than the one below it.
	for i, at := range []string{"entry", "middle"} {
		if p := spans[i].last; p.Service < 30*ms || p.Work < 50*ms {
			t.Errorf("at the %s: %+v, expected at least 30 ms of service and 50 ms of work", at, p)
		}
		if apart := spans[i].apart; apart < 10*ms {
			t.Errorf("at the %s: %v more of work than of service, expected about 20 ms", at, apart)
		}
	}
	if spans[0].last.Service < spans[1].last.Service {
		t.Errorf("the entry %+v, the middle %+v", spans[0].last, spans[1].last)
	}
	for _, r := range []*tier{entry, middle} {
		limited := r.gate.Rates(nil)
		for _, s := range limited {
			if s.Limited() {
				t.Errorf("an idle chain limits %+v", s)
			}
		}
	}
}

// TestEntryShedsWhatTheLeafCannotServe: a leaf that one workflow overloads makes
// the entry refuse that workflow, and no other. In one run of fifty, in which it began to refuse in the first half second, it
// refused three of the other one as well, so a second run decides.
func TestEntryShedsWhatTheLeafCannotServe(t *testing.T) {
	if n := shedsWhatTheLeafCannotServe(t); n > 0 {
		t.Logf("the entry refused %d of A for their rate", n)
		if n = shedsWhatTheLeafCannotServe(t); n > 0 {
			t.Errorf("the entry refused %d of A for their rate, in a second run, too", n)
		}
	}
}

// shedsWhatTheLeafCannotServe returns how many of the other workflow the entry refused although it had a processor.
func shedsWhatTheLeafCannotServe(t *testing.T) (wrong int) {
	const ms = time.Millisecond
	leaf := newTier(t, "leaf", rated(2), nil, func(_ context.Context, _ *tier, req string) (string, error) {
		if req == "F" {
			time.Sleep(50 * ms)
		}
		return req, nil
	})
	middle := newTier(t, "middle", rated(2000), leaf, pass)
	entry := newTier(t, "entry", rated(2000), middle, pass)
	conn := dial(t, entry.addr)
	send := func(workflow string) error {
		ctx := metadata.AppendToOutgoingContext(context.Background(), wire.MetadataKey, string(wire.Tags{Workflow: workflow}.Append(nil)))
		ctx, cancel := context.WithTimeout(ctx, 500*ms)
		defer cancel()
		_, err := call1(ctx, conn, workflow)
		return err
	}
	var wg sync.WaitGroup
	defer await.All(t, &wg, "the clients to end")
	stop := make(chan struct{})
	defer close(stop)
	var good, bad atomic.Int64
	load := func(workflow string, every time.Duration, done func(error)) {
		wg.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					wg.Go(func() { done(send(workflow)) })
				case <-stop:
					return
				}
			}
		})
	}
	away := watchProcessor(t)
	// The leaf can do 40 a second of F and gets 100, which is little enough for the processor of a busy machine; of A
	// it gets 20.
	load("F", 10*ms, func(error) {})
	load("A", 50*ms, func(err error) {
		if err == nil {
			good.Add(1)
		} else {
			bad.Add(1)
		}
	})
	begun := time.Now()
	eventually(t, "the entry refuses F for its rate", func() bool { return entry.count(work.Rate, "F") >= 20 })
	t.Logf("after %v: %d of F refused for their rate at the entry", time.Since(begun).Round(10*ms), entry.count(work.Rate, "F"))
	served := good.Load()
	eventually(t, "A is served", func() bool { return good.Load() >= served+20 })
	if n := entry.count(work.Rate, "A"); n > 0 {
		if d := away(); d < 50*ms {
			wrong = n
		} else {
			t.Logf("no processor for %v: the entry refused %d of A for their rate", d, n)
		}
		served, refused := good.Load(), n
		eventually(t, "A is served 20 times in a row without being refused for its rate", func() bool {
			if n := entry.count(work.Rate, "A"); n > refused {
				served, refused = good.Load(), n
			}
			return good.Load() >= served+20
		})
	}
	if n := entry.count(work.Rate, ""); n > 0 {
		t.Errorf("the entry refused %d of the default workflow", n)
	}
	t.Logf("A: %d served, %d not; the leaf refused %d of A", good.Load(), bad.Load(), leaf.count(work.Rate, "A")+leaf.count(work.Delay, "A"))
	// A stall of the machine may limit A for a moment.
	var limits []rates.State
	of := func(name string) rates.State {
		i := slices.IndexFunc(limits, func(s rates.State) bool { return s.Name == name })
		if i < 0 {
			return rates.State{}
		}
		return limits[i]
	}
	eventually(t, "at the entry no limit binds A's 20/s, and one far below 100/s binds F", func() bool {
		limits = entry.gate.Rates(limits[:0])
		return of("A").Rate >= 40 && of("F").Rate > 0 && of("F").Rate <= 80
	})
	err := func() error {
		for range 1000 {
			if err := send("F"); err != nil && entry.count(work.Rate, "F") > 0 {
				if info, retry := details(err); info != nil && info.Reason == "RATE" {
					if status.Code(err) != codes.ResourceExhausted || retry == nil {
						return err
					}
					return nil
				}
			}
		}
		return errors.New("no refusal for the rate in 1000")
	}()
	if err != nil {
		t.Errorf("the form of a refusal: %v", err)
	}
	return wrong
}

// TestHostileClaimsBuyNothing: what strangers say of themselves is not believed
// where the edge does not, and what is impossible is not by anybody.
func TestHostileClaimsBuyNothing(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: rated(4), Service: "s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	counters := new(Counters)
	var seen atomic.Pointer[wire.Tags]
	strip := func(_ context.Context, _ string, claimed wire.Tags) wire.Tags {
		return wire.Tags{Workflow: claimed.Workflow}
	}
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		tags := live.TagsFrom(ctx)
		seen.Store(&tags)
		return req, nil
	}}, []Option{WithCounters(counters), WithClassifier(strip)})
	conn := dial(t, s.addr)
	say := func(msg []byte) wire.Reply {
		t.Helper()
		var trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(within(t), wire.MetadataKey, string(msg))
		if _, err := call1(ctx, conn, "x", grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		var n atomic.Int64
		return replyOf(trailer, &n)
	}
	stranger := wire.Tags{Workflow: "w", Process: 9, Claim: wire.MaxRate, Total: wire.Progress{Service: time.Hour, Work: time.Hour}, Elapsed: wire.Progress{Service: 1, Work: 1}}
	if r := say(stranger.Append(nil)); r != (wire.Reply{}) {
		t.Errorf("a stranger was told %+v", r)
	}
	if tags := seen.Load(); tags.Total.Service > time.Minute || tags.Elapsed != (wire.Progress{}) {
		t.Errorf("a stranger's tags go on: %+v", tags)
	}
	for _, claim := range [][]byte{{0x7f, 0xf8, 0, 0, 0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		before := counters.Malformed.Load()
		if r := say(append([]byte{1, 10, 8}, claim...)); r != (wire.Reply{}) || counters.Malformed.Load() != before+1 {
			t.Errorf("a claim of %x: %+v, malformed %d", claim, r, counters.Malformed.Load()-before)
		}
	}
	for _, s := range gate.Rates(nil) {
		if s.Demand > 1000 {
			t.Errorf("a claim became demand: %+v", s)
		}
	}
}

// TestRatesAreAskedFor: a limit that no answer corrects is asked for on the control
// stream, and lifted when it is over.
func TestRatesAreAskedFor(t *testing.T) {
	const ms = time.Millisecond
	var slow atomic.Bool
	leaf := newTier(t, "leaf", rated(1), nil, func(_ context.Context, _ *tier, req string) (string, error) {
		if slow.Load() {
			time.Sleep(30 * ms)
		}
		return req, nil
	})
	entry := newTier(t, "entry", rated(2000), leaf, pass)
	conn := dial(t, entry.addr)
	ctx := metadata.AppendToOutgoingContext(within(t), wire.MetadataKey, string(wire.Tags{Workflow: "F"}.Append(nil)))
	state := func(r *tier) (out rates.State) {
		for _, s := range r.gate.Rates(nil) {
			if s.Name == "F" {
				out = s
			}
		}
		return out
	}
	limited := func(r *tier) bool { s := state(r); return s.Name == "F" && s.Limited() }
	slow.Store(true)
	var wg sync.WaitGroup
	end := time.Now().Add(patience)
	for !limited(entry) && time.Now().Before(end) {
		for ; !limited(entry) && time.Now().Before(end); time.Sleep(2 * ms) {
			wg.Go(func() { _, _ = call1(ctx, conn, "F") })
		}
		await.All(t, &wg, "the clients to end") // the last answers may lift the limit: then once more
	}
	slow.Store(false)
	if !limited(entry) {
		t.Fatal("the overload did not reach the entry")
	}
	// Nothing is sent any more, and so nothing answers: only questions can tell.
	eventually(t, "the leaf lifts its limit", func() bool { return !limited(leaf) })
	eventually(t, "the entry hears of it", func() bool { s := state(entry); return !s.Held && s.Downstream >= rates.NoLimit })
}

// TestQuestionsOfStrangers: a question is answered as far as its tags are believed.
func TestQuestionsOfStrangers(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: rated(4), Service: "s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	s := serve(t, gate, &echo{}, []Option{WithClassifier(func(_ context.Context, method string, claimed wire.Tags) wire.Tags {
		if method == controlMethod && claimed.Workflow == "secret" {
			return wire.Tags{}
		}
		return claimed
	})})
	conn := dial(t, s.addr)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
	if err != nil {
		t.Fatal(err)
	}
	for _, tags := range []wire.Tags{{Workflow: "secret", Process: 7}, {Workflow: "w"}, {Workflow: "w", Process: 7, Claim: 5}} {
		if err := stream.SendMsg(wrapperspb.Bytes(tags.Append(nil))); err != nil {
			t.Fatal(err)
		}
	}
	var msg wrapperspb.BytesValue
	if err := stream.RecvMsg(&msg); err != nil {
		t.Fatal(err)
	}
	r, err := wire.ParseReply(msg.Value)
	if err != nil || r.Workflow != "w" || r.Asker != 7 || r.Process == 0 || r.Service != "s" || r.HasRate || r.HasGrant {
		t.Errorf("the first answer is %+v, %v", r, err)
	}
}

// TestCallsThatLostTheirRequest are counted by method, behind a gate that admits
// requests with tags.
func TestCallsThatLostTheirRequest(t *testing.T) {
	gate := newGate(t, admission.Config{})
	below := serve(t, newGate(t, admission.Config{}), &echo{}, nil)
	down, _ := dialGated(t, below.addr, []ClientOption{WithUntagged(gate.Untagged())})
	s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		if req == "lost" {
			ctx = context.TODO()
		}
		return call1(ctx, down, req)
	}}, trusting)
	conn := dial(t, s.addr)
	ctx := within(t)
	count := func() (n uint64) {
		gate.Untagged().Each(func(method string, c uint64) {
			if method != echoMethod {
				t.Errorf("counted for %q", method)
			}
			n += c
		})
		return n
	}
	do := func(ctx context.Context, what string, want uint64) {
		t.Helper()
		if _, err := call1(ctx, conn, what); err != nil {
			t.Fatal(err)
		}
		if n := count(); n != want {
			t.Errorf("%d calls counted, expected %d", n, want)
		}
	}
	do(ctx, "lost", 0) // nothing to lose: no request had tags
	tagged := metadata.AppendToOutgoingContext(ctx, wire.MetadataKey, string(wire.Tags{Workflow: "w"}.Append(nil)))
	do(tagged, "kept", 0)
	do(tagged, "lost", 1)
	do(tagged, "lost", 2)
}
