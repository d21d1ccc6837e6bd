package track

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// shop is a server with one application, whose pool has 4 connections, or with another beside it.
type shop struct {
	pools   Pools
	tracker *Tracker
	at      mono.Time
}

func newShop() *shop {
	return &shop{tracker: New([]culprit.Resource{{Name: "connections", Kind: culprit.Queue}, {Name: "lock", Kind: culprit.Lock}}), at: mono.Time(time.Hour)}
}

// look looks 100 ms later: held connections of the pool of 4 are kept by old tasks, of free ones
// that many, and so many tasks have ended. It returns the requests that are taken to wait.
func (s *shop) look(held, free, ended int, others int) int {
	s.at = s.at.Add(100 * time.Millisecond)
	s.tracker.Begin(s.at)
	s.pools.Begin()
	app := Pool{User: "app"}
	for k := range held {
		e := s.tracker.Task(Key{Process: int64(k)}, s.at.Add(-time.Second))
		s.pools.Session(app, 4, free, false, e)
	}
	if ended > 0 {
		s.pools.Session(app, 4, free, true, nil)
	}
	for range others {
		s.pools.Session(Pool{User: "other"}, 9, 3, true, nil)
	}
	s.pools.End(s.tracker, 0, float64(ended+others))
	look := s.tracker.End(0)
	hidden := len(look.Sample.Tasks) - held
	if want := hidden * held; len(look.Sample.Edges) != want {
		panic("each request waits for all that keep a connection")
	}
	return hidden
}

// A pool of which no connection is free, and in which nothing ends, keeps requests waiting as
// fast as usual; a free connection ends that.
func TestPoolExhausted(t *testing.T) {
	s := newShop()
	for range 30 {
		if n := s.look(1, 2, 10, 0); n != 0 {
			t.Fatalf("%d requests wait although two connections are free", n)
		}
	}
	seen := 0
	for k := range 5 {
		n := s.look(4, 0, 0, 0)
		if n < seen {
			t.Errorf("after %d looks %d requests wait, before %d", k+1, n, seen)
		}
		seen = n
	}
	if seen < 30 {
		t.Errorf("%d requests wait after half a second at 100/s, expected at least 30", seen)
	}
	if n := s.look(3, 1, 0, 0); n != 0 {
		t.Errorf("%d requests wait although a connection is free", n)
	}
}

// Nobody is taken to wait for a pool that was never seen with more to do: jobs that keep all
// connections; nor where as much ends as usual, within the noise of that, or what ends is another application's.
func TestPoolThatIsNotExhausted(t *testing.T) {
	s := newShop()
	for range 30 {
		s.look(0, 4, 0, 5)
	}
	for range 50 {
		if n := s.look(4, 0, 0, 5); n != 0 {
			t.Fatalf("%d requests wait for a pool of jobs", n)
		}
	}
	s = newShop()
	for range 30 {
		s.look(1, 2, 10, 0)
	}
	for range 20 {
		if n := s.look(3, 0, 8, 0); n != 0 {
			t.Fatalf("%d requests wait although 160 of 200 went on, which may be chance", n)
		}
	}
	s = newShop()
	for k := range 100 {
		s.look(1, 2, 5+k/20%2*10, 0) // 50/s for two seconds, and 150/s for two
	}
	for range 50 {
		if n := s.look(3, 0, 8, 0); n != 0 {
			t.Fatalf("%d requests wait although 80/s are not unusual", n)
		}
	}
	s = newShop()
	for range 50 {
		s.look(0, 2, 1, 9)
	}
	for k := range 3 { // one in ten ended in it: 10/s, of which too few are missing
		if n := s.look(4, 0, 0, 9); n != 0 {
			t.Fatalf("look %d: %d requests wait, expected none yet", k, n)
		}
	}
}

// A pool in which less ends than usual, by more than chance, keeps requests waiting also if most go on, and if those that keep the
// connections wait themselves.
func TestPoolThatIsSlower(t *testing.T) {
	s := newShop()
	for range 30 {
		s.look(1, 2, 10, 0)
	}
	seen := 0
	for range 30 {
		seen = s.look(3, 0, 6, 0)
	}
	if seen != mostHidden {
		t.Errorf("%d requests wait after three seconds in which 180 of 300 went on, expected %d", seen, mostHidden)
	}
	s = newShop()
	for range 30 {
		s.look(1, 2, 10, 0)
	}
	for range 5 {
		s.at = s.at.Add(100 * time.Millisecond)
		s.tracker.Begin(s.at)
		s.pools.Begin()
		for k := range 4 {
			e := s.tracker.Task(Key{Process: int64(k)}, s.at.Add(-time.Second))
			s.pools.Session(Pool{User: "app"}, 4, 0, false, e)
			s.tracker.Samples(e, 1)
		}
		s.pools.End(s.tracker, 0, 0)
		seen = len(s.tracker.End(0).Sample.Tasks) - 4
	}
	if seen == 0 {
		t.Error("nobody waits for a pool in which nothing ends because all wait")
	}
}
