package bed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/world"
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

// watch notes what others use of the processors on which services compute, from the
// beginning of the run until ctx ends. Elsewhere nobody is short of processors: what else
// disturbs shows in how late requests leave.
func (b *bed) watch(ctx context.Context, clients *proc.Child, record *Record) error {
	if _, err := b.order.awaitBegin(ctx); err != nil {
		return nil
	}
	cpus, shared := map[int]bool{}, false
	for _, s := range b.seen {
		for _, cpu := range s.cpus {
			if computes(b.plan.services[s.order.Service]) {
				cpus[cpu] = true
			}
		}
	}
	for _, cpu := range b.place.clients {
		shared = shared || cpus[cpu]
	}
	if len(cpus) == 0 {
		return nil
	}
	all := slices.Sorted(maps.Keys(cpus))
	mine := func() time.Duration {
		b.mu.Lock()
		defer b.mu.Unlock()
		used := time.Duration(0)
		if shared {
			used = usedBy(clients)
		}
		for _, s := range b.seen {
			if slices.ContainsFunc(s.cpus, func(cpu int) bool { return cpus[cpu] }) {
				used += s.used + usedBy(s.child)
			}
		}
		return used
	}
	stop := machine.WatchOthers(all, mine)
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
		return machine.Used(c.Pid())
	}
}
