package culprits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// plan is what the seed decides of one run.
type plan struct {
	warm  time.Duration // from the first request to the onset
	rest  time.Duration // from the onset to the last request
	rate  float64
	size  float64 // of the culprit
	alone bool    // no culprit comes
	seed  uint64
}

// answer is what became of one request.
type answer struct {
	left, took time.Duration // since the first instant; since it was meant to leave
	ok         bool
}

// cancelled is what a contender cancelled.
type cancelled struct {
	at      time.Time
	process int64
	step    string
}

// played is one run.
type played struct {
	onset   time.Duration
	end     time.Duration
	answers []answer
	cancels []cancelled
	blamed  []int64 // sessions of the culprit
	onsetAt time.Time
	others  float64       // processors that others used
	ended   time.Duration // of the culprit, since the onset; 0 if it was cut off
}

// grace is how long after the last request answers are waited for.
const grace = 10 * time.Second

// settle is from the onset to where measuring begins.
const settle = time.Second

// play makes a run with one contender.
func play(ctx context.Context, s *scene, b *bench, p plan, c contender) (*played, error) {
	out := &played{onset: p.warm, end: p.warm + p.rest}
	var mu sync.Mutex
	mark := func(process int64) {
		mu.Lock()
		defer mu.Unlock()
		out.blamed = append(out.blamed, process)
	}
	cancel := func(process int64, step string) {
		mu.Lock()
		defer mu.Unlock()
		out.cancels = append(out.cancels, cancelled{time.Now(), process, step})
	}
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	var wg sync.WaitGroup
	contend, stopContending := context.WithCancel(running)
	if c.run != nil {
		done, err := c.run(contend, s, b, cancel)
		if err != nil {
			stopContending()
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer done()
	}
	defer stopContending()
	failed := make(chan error, len(s.culprits))
	if !p.alone {
		wg.Go(func() {
			select {
			case <-running.Done():
				return
			case <-time.After(p.warm):
			}
			mu.Lock()
			out.onsetAt = time.Now()
			mu.Unlock()
			var all sync.WaitGroup
			for _, culprit := range s.culprits {
				all.Go(func() {
					if err := culprit(running, b, p.size, mark); err != nil && running.Err() == nil {
						failed <- err
					}
				})
			}
			all.Wait()
			mu.Lock()
			if out.ended = time.Since(out.onsetAt); running.Err() != nil {
				out.ended = 0
			}
			mu.Unlock()
		})
	}
	watch := machine.WatchOthers(processors(), func() time.Duration { return machine.Own() + b.used() })
	err := load(ctx, s, b, p, out, &mu)
	out.others = watch()
	stopRunning()
	wg.Wait()
	close(failed)
	if c.run == nil {
		for e := range failed {
			err = errors.Join(err, fmt.Errorf("the culprit of %s failed by itself: %w", s.name, e))
		}
	}
	return out, err
}

// load sends the requests of a run and waits for their answers.
func load(ctx context.Context, s *scene, b *bench, p plan, out *played, mu *sync.Mutex) error {
	arrivals, err := openloop.Poisson(openloop.Steady(p.rate, p.warm+p.rest), p.seed)
	if err != nil {
		return err
	}
	var first time.Time
	var once sync.Once
	g, err := openloop.New(openloop.Config{Arrivals: arrivals, SLO: s.objective, Drain: grace,
		Send: func(ctx context.Context, i int, intended time.Time) measure.Outcome {
			once.Do(func() {
				mu.Lock()
				first = intended
				mu.Unlock()
			})
			err := s.request(ctx, b, i)
			a := answer{took: time.Since(intended), ok: err == nil}
			mu.Lock()
			a.left = intended.Sub(first)
			out.answers = append(out.answers, a)
			mu.Unlock()
			if err != nil {
				return measure.Outcome{Kind: measure.Failed}
			}
			return measure.Outcome{Kind: measure.Served}
		}})
	if err != nil {
		return err
	}
	_, err = g.Run(ctx)
	return errors.Join(err, ctx.Err())
}

// figures are what is judged of a run, over the time from settle after the onset to
// the end.
type figures struct {
	rate    float64 // answered requests per second
	p99     time.Duration
	late    float64 // share of the requests that took longer than the objective, or failed
	dropped float64 // share of all requests from the onset on that failed
	oldest  time.Duration
}

func (p *played) figures(objective time.Duration) figures {
	from, to := p.onset+settle, p.end
	var took []time.Duration
	var f figures
	answered, failed, all, late := 0, 0, 0, 0
	for _, a := range p.answers {
		if a.left >= p.onset {
			all++
			if !a.ok {
				failed++
			}
		}
		if done := a.left + a.took; a.ok && done >= from && done < to {
			answered++
		}
		if a.left >= from && a.left < to {
			took = append(took, a.took)
			if !a.ok || a.took > objective {
				late++
			}
		}
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		f.p99, f.oldest = took[min(n*99/100, n-1)], took[n-1]
		f.late = float64(late) / float64(n)
	}
	f.rate = float64(answered) / (to - from).Seconds()
	f.dropped = float64(failed) / float64(max(all, 1))
	return f
}

// harm returns how long after the onset the first request that left since missed the objective, 0
// if none did.
func (p *played) harm(objective time.Duration) time.Duration {
	first := time.Duration(0)
	for _, a := range p.answers {
		if at := a.left - p.onset + objective; a.left >= p.onset && (!a.ok || a.took > objective) && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// right counts cancels of the culprit and of others, and how long after the onset the
// first of the culprit came.
func (p *played) right() (right, wrong int, after time.Duration) {
	for _, c := range p.cancels {
		switch {
		case !slices.Contains(p.blamed, c.process):
			wrong++
		default:
			if right++; right == 1 {
				after = c.at.Sub(p.onsetAt)
			}
		}
	}
	return right, wrong, after
}
