package slots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// TestFollowsTheServer loads stations of unknown capacity at twice what they can
// do, makes them four times slower and then fast again, and asks that the slots
// keep them busy without hiding a long queue. Means over seeds: a single run of a
// random process proves little in either direction.
func TestFollowsTheServer(t *testing.T) {
	phases := []struct {
		name string
		slow time.Duration // factor on the service time
		settle,
		measure time.Duration
		atLeast float64 // throughput, share of capacity
	}{
		{"cold start", 1, 100 * time.Millisecond, 900 * time.Millisecond, 0.90},
		{"steady", 1, 0, 4 * time.Second, 0.95},
		{"4x slower", 4, 0, 5 * time.Second, 0.90},
		{"still slow", 4, 0, 5 * time.Second, 0.94},
		{"fast again", 1, 0, time.Second, 0.90},
		{"steady again", 1, 0, 4 * time.Second, 0.95},
	}
	for _, k := range []int{1, 2, 10, 100} {
		for _, slack := range []time.Duration{time.Millisecond, 200 * time.Microsecond} {
			for _, shape := range []string{"exponential", "fixed", "bimodal"} {
				if shape == "bimodal" && k < 100 {
					continue // few workers with an occasional job of four times the mean: all noise
				}
				t.Run(fmt.Sprintf("k=%d/slack=%v/%s", k, slack, shape), func(t *testing.T) {
					t.Parallel()
					const mean = time.Millisecond
					seeds := 6
					switch {
					case shape == "bimodal": // jobs of four times the mean come seldom
					case k >= 100:
						seeds = 2 // each is of a hundred times as many requests as with one worker
					}
					got := make([]float64, len(phases))
					most := make([]int, len(phases))
					for seed := range uint64(seeds) {
						s := newStation(Config{Slack: slack}, k, mean, 2*float64(k)/mean.Seconds(), seed)
						s.fixed, s.bimodal = shape == "fixed", shape == "bimodal"
						for i, p := range phases {
							s.mean = mean * p.slow
							s.run(p.settle)
							capacity := float64(k) / s.mean.Seconds()
							got[i] += s.run(p.measure) / capacity / float64(seeds)
							most[i] = max(most[i], s.limit.Limit())
						}
					}
					for i, p := range phases {
						atLeast := p.atLeast
						if slack < mean/2 {
							// An objective of twice the service time: less slack than
							// the noise of a window.
							atLeast -= 0.03
						}
						if got[i] < atLeast {
							t.Errorf("%s: throughput is %.3f of capacity, want at least %.2f (limit up to %d)", p.name, got[i], atLeast, most[i])
						}
						if roof := 6*k + 8; most[i] > roof {
							t.Errorf("%s: limit reached %d with %d workers, want at most %d", p.name, most[i], k, roof)
						}
					}
				})
			}
		}
	}
}

// TestColdStartRefusesNothing: nobody told the limit that the server has 100
// slots, and at 70 % load nothing may ever wait for it.
func TestColdStartRefusesNothing(t *testing.T) {
	for seed := range uint64(8) {
		s := newStation(Config{Slack: 5 * time.Millisecond}, 100, 10*time.Millisecond, 7000, seed)
		s.run(10 * time.Second)
		if s.refused > 0 || s.front > 0 {
			t.Errorf("seed %d: %d of %d refused, %d waiting, want none", seed, s.refused, s.offered, s.front)
		}
	}
}

// TestColdStartInOrder: the same where the order of service matters, with a server that has room for all and requests that
// take 0.15 of the objective. Of the first ones some are refused, because nothing is known yet. Where the limit grew only up to a
// tenth of the objective, it was a quarter of those of the first two seconds.
func TestColdStartInOrder(t *testing.T) {
	const mean = 15 * time.Millisecond
	for seed := range uint64(4) {
		s := newStation(Config{Slack: 10 * time.Millisecond}, 100_000, mean, 100/mean.Seconds(), seed)
		s.fixed = true
		s.limit.SetOrdered(true)
		s.run(2 * time.Second)
		if share := float64(s.refused) / float64(s.offered); share > 0.05 {
			t.Errorf("seed %d: %.1f %% refused in the first two seconds, want under 5 %% (limit %d)", seed, 100*share, s.limit.Limit())
		}
	}
}

// TestUnlimitedServerThatSlowsDown: residence grows because the work takes
// longer, not because anything queues. The cut that asks must be undone.
func TestUnlimitedServerThatSlowsDown(t *testing.T) {
	s := newStation(Config{Slack: 500 * time.Microsecond}, 100_000, time.Millisecond, 20_000, 3)
	s.run(2 * time.Second)
	s.mean *= 8
	s.run(2 * time.Second)
	s.refused, s.offered = 0, 0
	s.run(5 * time.Second)
	if share := float64(s.refused) / float64(s.offered); share > 0.01 {
		t.Errorf("%.2f %% refused by a server that has room, want under 1 %% (limit %d, service %v)", 100*share, s.limit.Limit(), s.limit.Service())
	}
}

// TestUseful: a server that is said to have so many processors runs hardly more requests than that, and none of them
// idle: on average two more or half as many again, because requests may also wait for something else, and together they
// wait a tenth of the objective at most. When nobody knows any more, it is tried out again whether more would help.
func TestUseful(t *testing.T) {
	const mean, seeds = 2 * time.Millisecond, 8
	for _, k := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			capacity, slack := float64(k)/mean.Seconds(), 2*mean
			running := 0.0
			for seed := range uint64(seeds) {
				s := newStation(Config{Slack: slack}, k, mean, 2*capacity, seed)
				s.run(time.Second)
				s.limit.SetUseful(k)
				s.run(3 * time.Second)
				served, here := 0.0, 0.0
				const steps = 500
				for range steps {
					served += s.run(10*time.Millisecond) / steps
					here += float64(s.limit.InUse()) / steps
				}
				if served < 0.95*capacity {
					t.Errorf("seed %d: %.3f of the capacity", seed, served/capacity)
				}
				if most := float64(k) + capacity*slack.Seconds() + 1; here > most {
					t.Errorf("seed %d: %.2f requests run, of which %d are of use; those that wait take more than %v", seed, here, k, slack)
				}
				running += here / seeds
				s.limit.SetUseful(0)
				s.run(5 * time.Second)
				if got := s.limit.Limit(); got <= k {
					t.Errorf("seed %d: nobody knows what is of use, and the limit is %d", seed, got)
				}
			}
			if most := max(float64(k)+2.5, 1.65*float64(k)); running > most {
				t.Errorf("%.2f requests run on average, of which %d are of use, want %.1f at most", running, k, most)
			}
		})
	}
}

// TestUsefulLeavesRoomForMessages: where messages wait behind what runs, for half a tenth of the objective each way, no
// more run than are of use, and they again do as much as the server can.
func TestUsefulLeavesRoomForMessages(t *testing.T) {
	const mean = 2 * time.Millisecond
	for _, k := range []int{1, 2, 8} {
		s := newStation(Config{Slack: 2 * mean}, k, mean, 2*float64(k)/mean.Seconds(), 1)
		s.run(time.Second)
		s.limit.SetUseful(k)
		for range 4 * lagMemory {
			s.limit.SetLag(mean)
		}
		s.run(3 * time.Second)
		served := s.run(2*time.Second) / (float64(k) / mean.Seconds())
		if got := s.limit.Limit(); got > k+1 || served < 0.9 {
			t.Errorf("%d of use: the limit is %d, and %.2f of the capacity are served", k, got, served)
		}
		for range 4 * lagMemory {
			s.limit.SetLag(0)
		}
		s.run(3 * time.Second)
		if got := s.limit.Limit(); got < k+2 {
			t.Errorf("%d of use, and messages do not wait any more: the limit is %d, want %d at least", k, got, k+2)
		}
	}
}

// TestUsefulIsNoRoof: requests that wait for something else most of the time can use a
// processor up between them, and more of them are of use all the same.
func TestUsefulIsNoRoof(t *testing.T) {
	s := newStation(Config{Slack: 20 * time.Millisecond, Initial: 20}, 100, 20*time.Millisecond, 4000, 1)
	s.limit.SetUseful(1)
	s.run(2 * time.Second)
	if served := s.run(2 * time.Second); served < 0.97*4000 {
		t.Errorf("%.0f/s of 4000/s are served, with a limit of %d", served, s.limit.Limit())
	}
}

func TestFixedLimitStays(t *testing.T) {
	s := newStation(Config{Slack: time.Millisecond, Min: 7, Max: 7}, 2, time.Millisecond, 4000, 1)
	for range 50 {
		s.run(100 * time.Millisecond)
		if got := s.limit.Limit(); got != 7 {
			t.Fatalf("limit moved to %d, want 7 as configured", got)
		}
	}
}

func TestIgnoredCompletionsFreeTheSlotAndTeachNothing(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond, Initial: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mono.Time(1000) {
		place := l.Acquire(i * 1000)
		l.Release(i*1000+999, i*1000, place, false)
	}
	if l.InUse() != 0 || l.Service() != 0 || l.Limit() != 2 {
		t.Errorf("in use %d, service %v, limit %d; want 0, 0s, 2", l.InUse(), l.Service(), l.Limit())
	}
}

// shortOnes runs n requests, one after the other, of a length each.
func shortOnes(l *Limit, now mono.Time, n int, each time.Duration) mono.Time {
	for range n {
		place := l.Acquire(now)
		l.Release(now.Add(each), now, place, true)
		now = now.Add(each)
	}
	return now
}

// TestLend: a request that is long by nature gives its slot back and teaches nothing. It is known by
// what ended while it ran: four times as many as run at once, of exponential times one in fifty is
// as long. Where fewer did the work may be slow, and slots stay where they are.
func TestLend(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond, Initial: 100})
	if err != nil {
		t.Fatal(err)
	}
	began := mono.Time(time.Second)
	var long []Place
	for range 20 {
		long = append(long, l.Acquire(began))
	}
	now := shortOnes(l, began, outlives*20, time.Millisecond)
	if l.Lend(now, began, long[0], false) {
		t.Error("a slot was lent when no more had ended than four times what runs")
	}
	now = shortOnes(l, now, 1, time.Millisecond)
	for _, p := range long {
		if !l.Lend(now, began, p, false) {
			t.Fatalf("with %d of 20 lent the next one kept its slot, of one request more than four times what runs", l.Lent())
		}
	}
	if l.Lent() != 20 || l.InUse() != 0 {
		t.Errorf("%d run without a slot and %d with, want 20 and 0", l.Lent(), l.InUse())
	}
	for range 20 {
		l.Repay(now, began, long[0], true)
	}
	if now = shortOnes(l, now, 1000, time.Millisecond); l.Lent() != 0 || l.Service() > 2*time.Millisecond {
		t.Errorf("%d run without a slot, and others take %v, want none and 1ms", l.Lent(), l.Service())
	}
	fixed, err := New(Config{Slack: time.Millisecond, Min: 3, Max: 3})
	if err != nil {
		t.Fatal(err)
	}
	place := fixed.Acquire(now)
	if now = shortOnes(fixed, now, 100, time.Millisecond); fixed.Lend(now, now, place, false) {
		t.Error("a fixed limit gave a slot back")
	}
}

// TestOverdueTogether: long polls that hold nearly every slot give them back as soon as a few others have
// ended and none of them, long before four times as many as run have. A poll that ends meanwhile says
// that they may be like the others.
func TestOverdueTogether(t *testing.T) {
	for _, c := range []struct {
		what  string
		ends  int // of short requests beside 20 overdue ones, each passes 20/21 of an end
		polls int // that end after half of them
		lends bool
	}{
		{"too few others ended", 6, 0, false},
		{"enough others ended", 7, 0, true},
		{"one of them ended as well", 7, 1, false},
	} {
		l, err := New(Config{Slack: time.Millisecond, Initial: 100})
		if err != nil {
			t.Fatal(err)
		}
		began := mono.Time(time.Second)
		var polls []Place
		for range 20 + c.polls {
			polls = append(polls, l.Acquire(began))
		}
		now := began.Add(11 * time.Millisecond)
		l.SetOverdue(len(polls))
		now = shortOnes(l, now, c.ends/2, time.Millisecond)
		for i := range c.polls {
			l.Release(now, began, polls[i], true)
			l.SetOverdue(len(polls) - i - 1)
		}
		now = shortOnes(l, now, c.ends-c.ends/2, time.Millisecond)
		if got := l.Lend(now, began, polls[c.polls], false); got != c.lends {
			t.Errorf("%s: lent %v, want %v", c.what, got, c.lends)
		}
	}
}

// TestOverdueBeside: each end of another is at most one that is missing, however many overdue requests run beside, and also
// if the one that ends is the only one, and a stream.
func TestOverdueBeside(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond, Initial: 100})
	if err != nil {
		t.Fatal(err)
	}
	began := mono.Time(time.Second)
	slow := l.Acquire(began)
	for range 40 {
		if _, ok := l.Beside(began); !ok {
			t.Fatal("none may run beside")
		}
	}
	l.SetOverdue(41)
	now := shortOnes(l, began.Add(11*time.Millisecond), 3, time.Millisecond)
	if l.Lend(now, began, slow, false) {
		t.Error("a request gave its slot back after 3 others had ended")
	}
	l.Release(now, began, slow, true)
	for range 8 {
		place, started := l.Acquire(now), now
		l.Answer(now.Add(1), &place)
		now = now.Add(time.Millisecond)
		l.Part(now, started, place)
	}
	if l.use.missing > 8 {
		t.Errorf("%v ends are missing after 8 others", l.use.missing)
	}
}

// TestOutgrow: where long requests hold the slots most of the time before they give them back, the limit
// grows whatever else it believes, up to Max.
func TestOutgrow(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 4, Max: 20})
	if err != nil {
		t.Fatal(err)
	}
	type poll struct {
		began mono.Time
		place Place
	}
	var polls []poll
	now := mono.Time(time.Second)
	for range 60 { // every slot is a poll's; each objective one is taken for stuck, and a short request ends
		for l.Free() {
			polls = append(polls, poll{now, l.Acquire(now)})
		}
		now = now.Add(101 * time.Millisecond)
		if !l.Lend(now, polls[0].began, polls[0].place, false) {
			t.Fatal("no slot was lent though nothing ends")
		}
		l.Repay(now, polls[0].began, polls[0].place, true)
		polls = polls[1:]
		now = shortOnes(l, now, 1, time.Millisecond)
	}
	if l.Limit() != 20 {
		t.Errorf("the limit is %d, want Max, which is 20", l.Limit())
	}
}

// TestLineEndsATrialUpwards: once ranks show a line, a trial with more slots tells nothing of the knee, even
// if fewer come than may run.
func TestLineEndsATrialUpwards(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 9})
	if err != nil {
		t.Fatal(err)
	}
	l.line.confirmed, l.knee.at, l.knee.rate, l.knee.alone, l.knee.samples = true, 8, 8/10e6, 10e6, samplesMost
	from := point{concurrency: 8.9, throughput: l.knee.rate, residence: 11e6, took: 11e6, samples: 200, limit: 9}
	l.trial = trial{kind: more, from: from, before: from}
	l.judge(point{concurrency: 11, throughput: l.knee.rate, residence: 11e6, took: 11e6, samples: 4, limit: 14})
	if l.knee.at != 8 || l.trial.kind != noTrial {
		t.Errorf("the knee is %v in a trial towards %d, want 8 and no trial", l.knee.at, l.trial.kind)
	}
}

// TestSurplusBehindALine: a tenth more than the knee, or one, where departures are many; none where the wait
// for one of them is a part of the objective.
func TestSurplusBehindALine(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		want      int
	}{
		{800, 9}, {200, 9}, {80, 8}, {40, 8},
	} {
		l, err := New(Config{Slack: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.line.confirmed, l.knee.at, l.knee.rate, l.seen.unbound = true, 8, c.perSecond/1e9, 1
		l.limit = l.target()
		if l.Limit() != c.want {
			t.Errorf("with 8 in service and %v departures a second the limit is %d, want %d", c.perSecond, l.Limit(), c.want)
		}
	}
}

// TestALineIsTriedWithOneMore: where no more run than the knee, no rank can pass it. One more slot shows
// whether the knee has moved, ever more seldom as long as it has not.
func TestALineIsTriedWithOneMore(t *testing.T) {
	s := newStation(Config{Slack: 20 * time.Millisecond}, 8, 100*time.Millisecond, 160, 1)
	s.run(60 * time.Second)
	if n := s.limit.Limit(); n < 8 || n > 9 {
		t.Fatalf("the limit of 8 workers is %d, want 8, or 9 in a trial", n)
	}
	if s.limit.agenda.upGap <= raiseFirst {
		t.Errorf("the next trial comes as soon as the first")
	}
	s.k = 16
	s.rate *= 2
	s.run(200 * time.Second)
	if n := s.limit.Limit(); n < 15 {
		t.Errorf("the limit of 16 workers is %d, which were 8, want 15 or more", n)
	}
}

// TestSlow: where a line is confirmed, a driver that sees departures become rare cuts what waits behind it
// at once. More departures than are known, and a limit without a line, change nothing.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  float64
		fifo bool
		want int
	}{
		{"20 times slower", 25e6, true, 8}, {"faster", 0.5e6, true, 12}, {"no line", 25e6, false, 12},
	} {
		l, err := New(Config{Slack: 20 * time.Millisecond, Initial: 12})
		if err != nil {
			t.Fatal(err)
		}
		l.line.confirmed, l.knee.at, l.knee.rate, l.knee.alone, l.knee.service = c.fifo, 8, 8/10e6, 10e6, 10e6
		l.Slow(0, c.gap)
		if l.Limit() != c.want {
			t.Errorf("%s: the limit is %d, want %d", c.name, l.Limit(), c.want)
		}
		if want := time.Duration(8 * c.gap); c.want == 8 && l.Service() != want {
			t.Errorf("%s: a request takes %v, want %v", c.name, l.Service(), want)
		}
	}
}

// TestSinkKeepsRoomForThoseWithoutSlots: the limit does not sink below what runs, slot or no slot.
func TestSinkKeepsRoomForThoseWithoutSlots(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond, Initial: 100})
	if err != nil {
		t.Fatal(err)
	}
	began := mono.Time(time.Second)
	var polls []Place
	for range 50 {
		polls = append(polls, l.Acquire(began))
	}
	now := began.Add(11 * time.Millisecond)
	l.SetOverdue(len(polls))
	now = shortOnes(l, now, 10, time.Millisecond)
	for _, p := range polls {
		if !l.Lend(now, began, p, false) {
			t.Fatal("a poll kept its slot")
		}
	}
	now = shortOnes(l, now, 5000, time.Millisecond)
	if l.Limit() < 50 || l.Limit() > 70 {
		t.Errorf("the limit is %d while 50 run without a slot and one with, want 50 or a little more", l.Limit())
	}
	for _, p := range polls {
		l.Repay(now, began, p, true)
	}
	if shortOnes(l, now, 5000, time.Millisecond); l.Limit() > 5 {
		t.Errorf("the limit is %d when they are gone, want what one at a time needs", l.Limit())
	}
}

// TestSlowWorkKeepsItsSlots: of eight that run, each of which takes longer than the objective, none
// gives its slot back, however brief all were before.
func TestSlowWorkKeepsItsSlots(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 9})
	if err != nil {
		t.Fatal(err)
	}
	began := shortOnes(l, mono.Time(time.Second), 1000, time.Millisecond)
	var slow []Place
	for range 8 {
		slow = append(slow, l.Acquire(began))
	}
	now := began
	for i := range slow { // they end one after the other, others begin
		now = now.Add(40 * time.Millisecond)
		for _, p := range slow[i+1:] {
			if l.Lend(now, began, p, false) {
				t.Fatalf("a slot was lent after %d ends", i)
			}
		}
		l.Release(now, began, slow[i], true)
		l.Acquire(now)
	}
}

// TestLendStuck: long polls that come before anything else take every slot. One is given back
// an objective, until enough others have ended; from then on all are.
func TestLendStuck(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 30})
	if err != nil {
		t.Fatal(err)
	}
	began := mono.Time(time.Second)
	var polls []Place
	for range 30 {
		polls = append(polls, l.Acquire(began))
	}
	ask := func(now mono.Time) (lent int) {
		for len(polls) > 0 && l.Lend(now, began, polls[0], false) {
			polls = polls[1:]
			lent++
		}
		return lent
	}
	now := began.Add(101 * time.Millisecond)
	for _, want := range []struct {
		after time.Duration
		lent  int
	}{{0, 1}, {90 * time.Millisecond, 0}, {101 * time.Millisecond, 1}} {
		if got := ask(now.Add(want.after)); got != want.lent {
			t.Errorf("%d lent %v after the first could be, want %d: one an objective while nothing ends", got, want.after, want.lent)
		}
		if want.lent > 0 {
			polls = append(polls, l.Acquire(now.Add(want.after))) // another poll takes it
		}
	}
	polls = polls[:len(polls)-2] // those came later
	now = shortOnes(l, now.Add(150*time.Millisecond), outlives*30+1, 2*time.Millisecond)
	if held, got := len(polls), ask(now); got != held {
		t.Errorf("%d more lent after %d others had ended, want all %d", got, outlives*30+1, held)
	}
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := New(Config{Slack: -1, Min: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{"Slack", "Min"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error does not name %s: %v", word, err)
		}
	}
	if _, err := New(Config{Slack: 1, Min: 5, Max: 3}); err == nil {
		t.Error("Max below Min was accepted")
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	now := mono.Time(0)
	for b.Loop() {
		now += 1000
		l.Release(now+500, now, l.Acquire(now), true)
	}
}

// TestALongRequestInAShortWindow: windows of a few completions are shorter than one long request. Where such a
// one is a hundredth of all requests, and a tenth of the slots' time, the limit does not grow for it.
func TestALongRequestInAShortWindow(t *testing.T) {
	for _, c := range []struct {
		every int // windows between two long requests
		want  bool
	}{
		{12, false}, {1, true},
	} {
		l, err := New(Config{Slack: 10 * time.Millisecond, Initial: 8})
		if err != nil {
			t.Fatal(err)
		}
		grown := false
		for i := range 60 {
			// Eight slots for 13 ms, in which one that has run for 101 gives its own back now and then.
			p := point{concurrency: 8, throughput: 8 / 13e6, residence: 13e6, took: 13e6, samples: 8, limit: 8, bound: true}
			l.window.area, l.window.lent = 8*13e6, 0
			if i%c.every == c.every-1 {
				l.window.lent = 101e6
			}
			l.slotTime.add(&l.window)
			l.limit, l.knee.at, l.line.confirmed, l.knee.rate, l.knee.samples, l.trial = 8, 8, true, 8/13e6, samplesMost, trial{}
			if l.steer(p); l.limit >= up*8 {
				grown = true
			}
		}
		if grown != c.want {
			t.Errorf("one in %d windows: the limit grew is %v, want %v", c.every, grown, c.want)
		}
	}
}

// TestWorkersLeave: most of the workers are taken away for good, in an overload from then on. The limit follows, because the
// knee of a line falls and what once ran without a queue fades: 16, 61 and 23 % of the answers were late.
func TestWorkersLeave(t *testing.T) {
	const mean, seeds = 20 * time.Millisecond, 4
	for _, c := range []struct {
		from, to int
		service  float64 // of the objective
		late     float64
	}{{35, 8, 0.3, 0.1}, {16, 2, 0.2, 0.3}, {8, 1, 0.1, 0.1}} {
		late, served := 0, 0
		for seed := range uint64(seeds) {
			s := newStation(Config{Slack: time.Duration(float64(mean) / c.service / whole)}, c.from, mean, 0.75*float64(c.from)/mean.Seconds(), seed)
			s.run(20 * time.Second)
			s.k = c.to
			s.run(5 * time.Second)
			s.late, s.served = 0, 0
			s.run(20 * time.Second)
			late, served = late+s.late, served+s.served
			if capacity := float64(c.to) / mean.Seconds() * 20; float64(s.served) < 0.9*capacity {
				t.Errorf("%d of %d workers are left: %d requests are served, want %.0f", c.to, c.from, s.served, 0.9*capacity)
			}
		}
		if share := float64(late) / float64(served); share > c.late {
			t.Errorf("%d of %d workers are left, and the work takes %v of the objective: %.2f of the answers are late, want %v at most", c.to, c.from, c.service, share, c.late)
		}
	}
}
