package culprits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/tracer"
)

// goMore are more cases of Go services: reports that take what they take in many parts or together, and
// three where nobody may be cancelled, because the tracer is told nothing, or the victims are the culprit.
func goMore() []goCase {
	return []goCase{
		{name: "fanout", title: "a report fans out over all workers", open: goFanout,
			about: `Requests need one of eight workers for 3 ms. A report splits itself into 64 parts that need one each, for 100 ms: no part is long.`},
		{name: "chunks", title: "a report takes a mutex again and again", open: goChunks,
			about: `Requests keep a mutex for 0.2 ms. A report takes it again and again for 20 ms, as one that writes a log does: no hold is long.`},
		{name: "deadlock", title: "a report and a request wait for each other", open: goDeadlock,
			about: `Requests lock the orders and then the stock for 0.2 ms. A report locks the stock, works for 50 ms and asks for the orders, which a request has that waits for the stock: neither ever goes on.`},
		{name: "several", title: "eight reports take a connection each", open: goSeveral, reports: 8,
			about: `Requests need one of eight connections for 2 ms. Eight reports come at once and keep one each.`},
		{name: "condition", title: "a report keeps what others wait for on a sync.Cond", open: goCondition,
			about: `Requests take one of eight buffers from a list that a sync.Cond guards, and record that by the tracer's events. A report takes all.`},
		{name: "flight", title: "requests share one slow call", open: goFlight, nobody: true,
			about: `Requests for one key share a call, as golang.org/x/sync/singleflight has them do. After the report came the call takes a second: who calls is a request like the others, and cancelling it
frees nobody.`},
		{name: "untraced", title: "a report keeps a plain sync.Mutex", open: goUntraced, nobody: true,
			about: `Requests keep a sync.Mutex for 0.2 ms, which no tracer knows of. A report keeps it for seconds. Nothing tells who has it: nobody may be cancelled.`},
	}
}

func goFanout(tr *tracer.Tracer) goHandler {
	const workers, parts = 8, 64
	queue := tr.NewWorkQueue("workers", workers, 10_000)
	part := func(lasts time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { return pause(ctx, lasts) }
	}
	return func(ctx context.Context, what string, _ int) error {
		if what != "report" {
			return queue.Do(ctx, part(3*ms))
		}
		for began := time.Now(); time.Since(began) < goLasts; {
			var all sync.WaitGroup
			var failed atomic.Pointer[error]
			for range parts {
				all.Go(func() {
					ctx, task := tracer.Branch(ctx)
					defer task.End()
					if err := queue.Do(ctx, part(100*ms)); err != nil {
						failed.Store(&err)
					}
				})
			}
			all.Wait()
			if err := failed.Load(); err != nil {
				return *err
			}
		}
		return nil
	}
}

func goChunks(tr *tracer.Tracer) goHandler {
	log := tr.NewMutex("log")
	write := func(ctx context.Context, lasts time.Duration) error {
		if err := log.Lock(ctx); err != nil {
			return err
		}
		defer log.Unlock(ctx)
		return pause(ctx, lasts)
	}
	return func(ctx context.Context, what string, _ int) error {
		if what != "report" {
			return write(ctx, ms/5)
		}
		for began := time.Now(); time.Since(began) < goLasts; {
			if err := write(ctx, 20*ms); err != nil {
				return err
			}
		}
		return nil
	}
}

func goDeadlock(tr *tracer.Tracer) goHandler {
	orders, stock := tr.NewMutex("orders"), tr.NewMutex("stock")
	return func(ctx context.Context, what string, _ int) error {
		first, second, works := orders, stock, time.Duration(0)
		if what == "report" {
			first, second, works = stock, orders, 50*ms
		}
		if err := first.Lock(ctx); err != nil {
			return err
		}
		defer first.Unlock(ctx)
		_ = pause(ctx, works)
		if err := second.Lock(ctx); err != nil {
			return err
		}
		defer second.Unlock(ctx)
		return pause(ctx, ms/5)
	}
}

func goSeveral(tr *tracer.Tracer) goHandler {
	pool := tr.NewPool("connections", 8)
	return func(ctx context.Context, what string, _ int) error {
		if err := pool.Acquire(ctx, 1); err != nil {
			return err
		}
		defer pool.Release(ctx, 1)
		if what == "report" {
			return pause(ctx, goLasts)
		}
		return pause(ctx, 2*ms)
	}
}

func goCondition(tr *tracer.Tracer) goHandler {
	const size = 8
	var mu sync.Mutex
	free := size
	some := sync.NewCond(&mu)
	resource, _ := tr.Resource("buffers", tracer.Queue)
	take := func(ctx context.Context, n int) error {
		task := tracer.From(ctx)
		stop := context.AfterFunc(ctx, func() { mu.Lock(); defer mu.Unlock(); some.Broadcast() })
		defer stop()
		mu.Lock()
		defer mu.Unlock()
		task.WaitBegin(resource)
		defer task.WaitEnd(resource)
		for free < n {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			some.Wait()
		}
		free -= n
		task.Acquire(resource, uint64(n))
		return nil
	}
	give := func(ctx context.Context, n int) {
		mu.Lock()
		defer mu.Unlock()
		free += n
		tracer.From(ctx).Release(resource, uint64(n))
		some.Broadcast()
	}
	return func(ctx context.Context, what string, _ int) error {
		n, lasts := 1, 2*ms
		if what == "report" {
			n, lasts = size, goLasts
		}
		for taken := range n { // one after the other, as they come free
			if err := take(ctx, 1); err != nil {
				give(ctx, taken)
				return err
			}
		}
		defer give(ctx, n)
		return pause(ctx, lasts)
	}
}

func goFlight(tr *tracer.Tracer) goHandler {
	flight := tr.NewMutex("flight")
	var slow atomic.Int64 // until when a call is
	return func(ctx context.Context, what string, _ int) error {
		if what == "report" {
			slow.Store(time.Now().Add(goLasts / 2).UnixNano())
			return nil
		}
		if err := flight.Lock(ctx); err != nil { // as long as the call of another goes on
			return err
		}
		defer flight.Unlock(ctx)
		if time.Now().UnixNano() < slow.Load() {
			return pause(ctx, time.Second)
		}
		return pause(ctx, ms/5)
	}
}

func goUntraced(*tracer.Tracer) goHandler {
	var mu sync.Mutex
	return func(ctx context.Context, what string, _ int) error {
		mu.Lock()
		defer mu.Unlock()
		if what == "report" {
			return pause(ctx, goLasts)
		}
		return pause(ctx, ms/5)
	}
}
