package proxy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/mono"
)

// of returns a turn of a peer that used so much until now.
func (q *intake) of(now mono.Time, peer uint16, used time.Duration) *turn {
	t := &turn{peer: cells{peer, peer}, ended: now}
	if q.uses.of(now, t.peer) == 0 && used > 0 {
		q.uses.add(now, t.peer, used)
	}
	return t
}

func at(ms float64) mono.Time { return mono.Time(time.Hour) + mono.Time(ms*1e6) }

func TestPeersThatUsedLittleGoFirst(t *testing.T) {
	q := &intake{most: 1, looked: at(0)}
	first := q.of(at(0), 1, 200*time.Millisecond)
	if !q.enter(at(0), first) {
		t.Fatal("a turn waits although none is taken")
	}
	much, some, little := q.of(at(0.1), 1, 0), q.of(at(0.1), 2, 50*time.Millisecond), q.of(at(0.1), 3, 0)
	for _, w := range []*turn{much, some, little} {
		if q.enter(at(0.1), w) {
			t.Fatal("two turns at once")
		}
	}
	if next, look := q.take(at(0.2)); next != nil || look {
		t.Fatal("a turn before the one that is taken ends")
	}
	for i, want := range []*turn{little, some, much} {
		q.leave(at(0.2), []*turn{first, little, some}[i])
		if next, _ := q.take(at(0.2)); next != want {
			t.Fatalf("turn %d is that of a peer of rank %d, expected %d", i, next.rank, want.rank)
		}
	}
}

// Many turns of one peer, and one of another that comes last: it waits for a single turn.
func TestFloodWaitsForItself(t *testing.T) {
	q := &intake{most: 1, looked: at(0)}
	now := at(0)
	held := q.of(now, 1, 0)
	q.enter(now, held)
	for range 1000 {
		q.enter(now, q.of(now, 1, 0))
	}
	for n := range 100 { // half a millisecond each
		now += mono.Time(time.Millisecond / 2)
		q.leave(now, held)
		q.sawNetwork(now)
		if held, _ = q.take(now); held == nil {
			t.Fatalf("no turn after %d", n)
		}
	}
	other := q.of(now, 2, 0)
	if q.enter(now, other) {
		t.Fatal("two turns at once")
	}
	q.leave(now, held)
	if next, _ := q.take(now); next != other {
		t.Error("the flood goes first")
	}
}

func TestTurnAfterALookAtTheNetwork(t *testing.T) {
	q := &intake{most: 1, looked: at(0)}
	held, much := q.of(at(0), 1, 0), q.of(at(0), 2, time.Second)
	q.enter(at(0), held)
	q.enter(at(0.1), much)
	q.leave(at(0.6), held)
	if next, look := q.take(at(0.6)); next != nil || !look {
		t.Fatalf("took %v, look %v, expected to wait for a look at the network", next, look)
	}
	little := q.of(at(0.65), 3, 0)
	if q.enter(at(0.65), little) {
		t.Fatal("a turn is taken past one that waits")
	}
	if next, _ := q.take(at(0.65)); next != little {
		t.Fatal("a peer that used little waits for a look at the network")
	}
	q.leave(at(0.7), little)
	q.sawNetwork(at(0.7))
	if next, _ := q.take(at(0.7)); next != much {
		t.Error("the network was looked at, and the turn did not come")
	}
}

// A goroutine that waits for something else does not keep its turn, and what it does later ends no other's.
func TestStuckTurnEnds(t *testing.T) {
	q := &intake{most: 1, looked: at(0)}
	stuck, next := q.of(at(0), 1, 0), q.of(at(0), 2, 0)
	q.enter(at(0), stuck)
	q.enter(at(1), next)
	if got, _ := q.take(at(1.9)); got != nil {
		t.Fatal("a turn ended early")
	}
	if got, _ := q.take(at(2)); got != next {
		t.Fatal("a stuck turn does not end")
	}
	q.leave(at(3), stuck)
	if len(q.taken) != 1 || !next.holds.Load() {
		t.Error("the end of a turn that had ended took another one's")
	}
	if used := q.uses.of(at(2), stuck.peer); used != longestTurn {
		t.Errorf("a stuck turn counts %v, expected %v", used, longestTurn)
	}
}

// A peer that used much has its turn while others never leave the proxy alone: what it used fades, what they use
// does not.
func TestPeerThatUsedMuchHasItsTurn(t *testing.T) {
	q := &intake{most: 1, looked: at(0)}
	held, much := q.of(at(0), 1, 0), q.of(at(0), 2, time.Second)
	q.enter(at(0), held)
	q.enter(at(0), much)
	for n := 1; n < 2000; n++ {
		now := at(float64(n))
		q.enter(now, q.of(now, 3, 0))
		q.leave(now, held)
		q.sawNetwork(now)
		if held, _ = q.take(now); held == much {
			return
		}
	}
	t.Error("it waits for ever")
}

func TestUseFades(t *testing.T) {
	var u uses
	c := cells{1, 2}
	u.add(at(0), c, time.Second)
	if got := u.of(at(1000), c); got < 360*time.Millisecond || got > 370*time.Millisecond {
		t.Errorf("%v a second later, expected 1/e", got)
	}
	if got := u.of(at(0), cells{1, 3}); got != 0 {
		t.Errorf("%v for a peer that shares one cell of two", got)
	}
	for used, want := range map[time.Duration]int{0: 0, leastShare - 1: 0, leastShare: 1, 4 * leastShare: 3, time.Hour: ranks - 1} {
		if got := rankOf(used); got != want {
			t.Errorf("rank %d for %v, expected %d", got, used, want)
		}
	}
}

// At most as many turns as may be are taken, each that waits comes, and none waits after the end.
func TestDoorman(t *testing.T) {
	const most, clients = 2, 50
	d := newDoorman()
	d.q.most = most
	var inside atomic.Int64
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			own := turn{peer: cells{uint16(n % 5), uint16(n % 5)}}
			for range 200 {
				d.enter(&own)
				inside.Add(1)
				for end := time.Now().Add(time.Duration(rand.IntN(20)) * time.Microsecond); time.Now().Before(end); {
				}
				inside.Add(-1)
				d.leave(&own)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	await.Value(t, done, "all turns")
	if d.q.waiting != 0 || len(d.q.taken) != 0 {
		t.Errorf("%d turns wait and %d are taken in the end", d.q.waiting, len(d.q.taken))
	}

	holds := make([]turn, most)
	for i := range holds {
		d.enter(&holds[i])
	}
	late := make(chan struct{})
	go func() {
		defer close(late)
		d.enter(&turn{})
	}()
	d.close()
	await.Value(t, late, "a turn after the end")
}
