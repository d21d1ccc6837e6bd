package live

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

// TestATimedIsTheContextOfThePackage: it answers as a context of WithDeadline does, whatever is asked when. The oracle runs beside it.
func TestATimedIsTheContextOfThePackage(t *testing.T) {
	type pair struct{ got, want context.Context }
	type key struct{}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		parent, end := context.WithCancel(context.WithValue(context.Background(), key{}, seed))
		if r.IntN(4) == 0 {
			within, stop := context.WithTimeout(parent, []time.Duration{time.Minute, 2 * time.Hour}[r.IntN(2)])
			defer stop()
			parent = within
		}
		deadline := time.Now().Add([]time.Duration{-time.Second, 0, time.Hour, time.Hour}[r.IntN(4)])
		var c Timed
		c.Begin(parent, deadline)
		want, cancel := context.WithDeadline(parent, deadline)
		pairs := []pair{{&c, want}}
		for i := range 7 {
			op := r.IntN(6)
			if i == 0 {
				op = -1 // a deadline that has passed is seen first
			}
			switch op {
			case 0:
				end()
			case 1:
				c.End()
				cancel()
			case 2:
				ended(c.Done())
			case 3:
				derived, stop := context.WithCancel(&c)
				defer stop()
				same, stop := context.WithCancel(want)
				defer stop()
				pairs = append(pairs, pair{derived, same})
			}
			for i, p := range pairs {
				if p.got.Err() != p.want.Err() || context.Cause(p.got) != context.Cause(p.want) || p.got.Value(key{}) != p.want.Value(key{}) {
					t.Fatalf("seed %d, context %d: %v, cause %v; expected %v, cause %v", seed, i, p.got.Err(), context.Cause(p.got), p.want.Err(), context.Cause(p.want))
				}
				if got, ok := p.got.Deadline(); !ok {
					t.Fatalf("seed %d, context %d: no deadline", seed, i)
				} else if should, _ := p.want.Deadline(); !got.Equal(should) {
					t.Fatalf("seed %d, context %d: deadline %v, expected %v", seed, i, got, should)
				}
				if r.IntN(3) == 0 && ended(p.got.Done()) != ended(p.want.Done()) {
					t.Fatalf("seed %d, context %d: ended is %v, expected %v", seed, i, ended(p.got.Done()), ended(p.want.Done()))
				}
			}
		}
		end()
		cancel()
		c.End()
	}
}

// TestATimedEnds: who listens hears of its deadline.
func TestATimedEnds(t *testing.T) {
	var c Timed
	c.Begin(t.Context(), time.Now().Add(time.Millisecond))
	<-c.Done()
	if c.Err() != context.DeadlineExceeded || context.Cause(&c) != context.DeadlineExceeded {
		t.Errorf("%v, cause %v, expected that its deadline has passed", c.Err(), context.Cause(&c))
	}
	c.End()
}

func TestATimedNobodyHearsAllocatesNothing(t *testing.T) {
	var c Timed
	parent, stop := context.WithCancel(t.Context())
	defer stop()
	deadline := time.Now().Add(time.Hour)
	if n := testing.AllocsPerRun(100, func() {
		c = Timed{}
		c.Begin(parent, deadline)
		if c.Err() != nil || c.Value("key") != nil {
			t.Error("it has ended, or has values")
		}
		c.End()
	}); n > 0 {
		t.Errorf("%v allocations, expected none", n)
	}
}
