package live

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestACancelableIsTheContextOfThePackage: whatever is asked when, and whatever ends first, it
// answers as a context of WithCancelCause does. The oracle runs beside it.
func TestACancelableIsTheContextOfThePackage(t *testing.T) {
	type pair struct{ got, want context.Context }
	type key struct{}
	own, other := errors.New("its cause"), errors.New("the cause of its parent")
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		parent, end := context.WithCancelCause(context.WithValue(context.Background(), key{}, seed))
		var c Cancelable
		c.Begin(parent)
		want, cancel := context.WithCancelCause(parent)
		pairs := []pair{{&c, want}}
		for range 6 {
			switch r.IntN(7) {
			case 0:
				end(other)
			case 1:
				c.Cancel(own)
				cancel(own)
			case 2:
				c.Cancel(nil)
				cancel(nil)
			case 3:
				ended(c.Done())
			case 4:
				derived, stop := context.WithCancel(&c)
				defer stop()
				same, stop := context.WithCancel(want)
				defer stop()
				pairs = append(pairs, pair{derived, same})
			case 5:
				derived, stop := context.WithTimeout(&c, time.Hour)
				defer stop()
				same, stop := context.WithTimeout(want, time.Hour)
				defer stop()
				pairs = append(pairs, pair{derived, same})
			}
			for i, p := range pairs {
				if p.got.Err() != p.want.Err() || context.Cause(p.got) != context.Cause(p.want) || p.got.Value(key{}) != p.want.Value(key{}) {
					t.Fatalf("seed %d, context %d: %v, cause %v; expected %v, cause %v", seed, i, p.got.Err(), context.Cause(p.got), p.want.Err(), context.Cause(p.want))
				}
				if r.IntN(3) == 0 && ended(p.got.Done()) != ended(p.want.Done()) {
					t.Fatalf("seed %d, context %d: ended is %v, expected %v", seed, i, ended(p.got.Done()), ended(p.want.Done()))
				}
			}
		}
		end(nil)
		cancel(nil)
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// TestACancelableIsHeardByAllWhoListen, however they race with its end.
func TestACancelableIsHeardByAllWhoListen(t *testing.T) {
	own := errors.New("its cause")
	for _, cause := range []error{nil, own} {
		for range 500 {
			var c Cancelable
			c.Begin(t.Context())
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					<-c.Done()
					if got := context.Cause(&c); cause != nil && got != cause || c.Err() != context.Canceled {
						t.Errorf("the cause is %v, %v; expected %v", got, c.Err(), cause)
					}
				})
			}
			all.Go(func() { c.Cancel(cause) })
			all.Wait()
		}
	}
}

func TestACancelableNobodyHearsAllocatesNothing(t *testing.T) {
	var c Cancelable
	parent, stop := context.WithCancel(t.Context())
	defer stop()
	if n := testing.AllocsPerRun(100, func() {
		c = Cancelable{}
		c.Begin(parent)
		if c.Err() != nil || c.Value("key") != nil {
			t.Error("it has ended, or has values")
		}
		c.Cancel(nil)
	}); n > 0 {
		t.Errorf("%v allocations, expected none", n)
	}
}
