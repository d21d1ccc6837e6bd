package bed

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/arena"
)

// faults halts and kills processes at their instants until ctx ends.
func (b *bed) faults(ctx context.Context) error {
	begin, err := b.order.awaitBegin(ctx)
	if err != nil {
		return nil // the clients failed, and say why
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, f := range b.plan.Faults {
		if !f.Stop && !f.Kill {
			continue
		}
		for _, s := range b.struck(&f) {
			all.Go(func() {
				for at := range times(&f, b.plan.Length) {
					if sleep(ctx, time.Until(begin.Add(at))); ctx.Err() != nil {
						return
					}
					if err := b.strike(ctx, &f, s); err != nil {
						mu.Lock()
						errs = append(errs, err)
						mu.Unlock()
						return
					}
				}
			})
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// struck returns where a fault happens: in the replicas themselves, never in proxies.
func (b *bed) struck(f *world.Fault) (all []*seat) {
	for _, s := range b.seen {
		if s.order.Upstream == "" && strikes(f, &s.order) {
			all = append(all, s)
		}
	}
	return all
}

func (b *bed) strike(ctx context.Context, f *world.Fault, s *seat) error {
	if !f.Kill {
		s.signal(syscall.SIGSTOP)
		sleep(ctx, f.For)
		s.signal(syscall.SIGCONT)
		return nil
	}
	s.child.Stop(0)
	b.mu.Lock()
	s.used += s.child.CPUTime()
	b.mu.Unlock()
	if sleep(ctx, f.For); ctx.Err() != nil {
		return nil
	}
	err := b.start(ctx, s, threads(b.plan.services[s.order.Service], len(s.cpus)))
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watch notes what others use of the processors of the run, from its beginning until ctx
// ends.
func (b *bed) watch(ctx context.Context, clients *proc.Child, record *Record) error {
	if _, err := b.order.awaitBegin(ctx); err != nil {
		return nil
	}
	cpus := map[int]bool{}
	for _, cpu := range b.place.clients {
		cpus[cpu] = true
	}
	for _, s := range b.seen {
		for _, cpu := range s.cpus {
			cpus[cpu] = true
		}
	}
	var all []int
	for cpu := range cpus {
		all = append(all, cpu)
	}
	mine := func() time.Duration {
		b.mu.Lock()
		defer b.mu.Unlock()
		used := usedBy(clients)
		for _, s := range b.seen {
			used += s.used + usedBy(s.child)
		}
		return used
	}
	stop := arena.WatchOthers(all, mine)
	<-ctx.Done()
	record.Others = stop()
	return nil
}

// usedBy returns the processor time that a process has used so far.
func usedBy(c *proc.Child) time.Duration {
	select {
	case <-c.Exited():
		return c.CPUTime()
	default:
		return arena.Used(c.Pid())
	}
}
