package breakwaterlive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/fastrpc"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/harness/pace"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/worlds"
)

// crowdOrder is the task of a crowd.
type crowdOrder struct {
	Addr    string
	Policy  string
	Tuning  tuning
	Seed    uint64
	Clients int
	Shape   worlds.Shape
	// Closed, if above 0, is how many requests are under way all the time, instead of
	// Steps.
	Closed int
	// Steps are rates, one after another.
	Steps []step
	// Warmup is not counted.
	Warmup time.Duration
	// Bin is the length of Figures.Bins, 0 for none.
	Bin time.Duration
}

// step is a rate for a time, in requests/s.
type step struct {
	Rate float64
	For  time.Duration
}

func (o *crowdOrder) length() (d time.Duration) {
	for _, s := range o.Steps {
		d += s.For
	}
	return d
}

// crowd plays clients.
type crowd struct {
	crowdOrder
	clients []*client
	alarm   *pace.Alarm
	began   time.Time
	all     sync.WaitGroup
	room    chan struct{} // of requests under way

	mu sync.Mutex
	figures
}

// mostUnderWay bounds the requests under way. Further ones count as not answered: without
// control the line in front of the station only grows.
const mostUnderWay = 50_000

// client is one connection.
type client struct {
	rpc    *fastrpc.Client
	method *fastrpc.Method
	outlet *live.Outlet
	ranked bool

	mu    sync.Mutex
	level int // heard last
}

// obey makes the load and answers what came of it.
func (o crowdOrder) obey() error {
	c := &crowd{crowdOrder: o, room: make(chan struct{}, mostUnderWay)}
	alarm, err := pace.NewAlarm()
	if err != nil {
		return err
	}
	defer alarm.Close()
	c.alarm = alarm
	if o.Bin > 0 {
		c.Bins = make([]bin, o.length()/o.Bin+1)
	}
	defer c.close()
	if err := c.connect(); err != nil {
		return err
	}
	c.began = time.Now()
	if o.Closed > 0 {
		c.closed()
	} else {
		c.open()
	}
	c.all.Wait()
	return proc.Answer(c.answer())
}

func (c *crowd) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i := range c.Clients {
		rpc, err := fastrpc.Dial(ctx, fastrpc.ClientConfig{}, c.Addr)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, c.Clients, err)
		}
		one := &client{rpc: rpc, method: rpc.Method("spin")}
		c.clients = append(c.clients, one)
		if one.outlet, one.ranked, err = c.Tuning.outlet(c.Policy, c.Seed, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) close() {
	for _, one := range c.clients {
		if one.outlet != nil {
			one.outlet.Close()
		}
		one.rpc.Close()
	}
}

// closed keeps so many requests under way.
func (c *crowd) closed() {
	end := c.began.Add(c.length())
	for i := range c.Closed {
		c.all.Go(func() {
			rng := rand.New(rand.NewPCG(c.Seed, uint64(i)))
			for now := time.Now(); now.Before(end); now = time.Now() {
				c.request(now, c.clients[i%len(c.clients)], c.draw(rng), 0)
			}
		})
	}
}

// open sends by the plan, whatever has become of earlier requests.
func (c *crowd) open() {
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	from := c.began
	for _, s := range c.Steps {
		end := from.Add(s.For)
		for next := from; ; {
			next = next.Add(time.Duration(rng.ExpFloat64() / s.Rate * 1e9))
			if !next.Before(end) {
				break
			}
			c.alarm.Until(next)
			c.late(next)
			one, need, rank := c.clients[rng.IntN(len(c.clients))], c.draw(rng), work.Priority(rng.IntN(int(work.MaxPriority)+1))
			select {
			case c.room <- struct{}{}:
			default:
				c.count(next, func(f *figures, _ *bin) { f.Failed++ })
				continue
			}
			c.all.Go(func() {
				c.request(next, one, need, rank)
				<-c.room
			})
		}
		from = end
	}
}

// draw returns a service time.
func (c *crowd) draw(rng *rand.Rand) time.Duration {
	mean := float64(c.Tuning.Mean)
	switch c.Shape {
	case worlds.Constant:
		return c.Tuning.Mean
	case worlds.Bimodal:
		if rng.Float64() < 0.2 {
			return time.Duration(4 * mean)
		}
		return time.Duration(mean / 4)
	}
	return time.Duration(rng.ExpFloat64() * mean)
}

// until is a context with a deadline that ends no wait by itself: wallets and gates know the
// deadline, and a late answer is late.
type until struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (u *until) Deadline() (time.Time, bool) { return u.deadline, true }

// request makes one request and counts it.
func (c *crowd) request(intended time.Time, one *client, need time.Duration, rank work.Priority) {
	var body [8]byte
	binary.BigEndian.PutUint64(body[:], uint64(need))
	var ctx context.Context = &until{context.Background(), intended.Add(c.Tuning.SLO)}
	err := one.call(ctx, body[:], rank)
	took := time.Since(intended)
	refusal := (*spillgate.Refusal)(nil)
	switch {
	case err == nil:
		c.count(intended, func(f *figures, b *bin) { f.answered(took, c.Tuning.SLO, b) })
	case errors.As(err, &refusal):
		c.count(intended, func(f *figures, _ *bin) { f.refused(took, refusal.Reason.Sent()) })
	default:
		c.count(intended, func(f *figures, _ *bin) { f.Failed++ })
	}
}

// call goes through the client's policy, if it has one.
func (o *client) call(ctx context.Context, body []byte, rank work.Priority) error {
	if o.outlet == nil {
		_, err := o.method.Call(ctx, body, nil)
		return err
	}
	if o.ranked {
		ctx = live.WithTags(ctx, spillgate.Tags{Priority: rank})
	}
	sending, err := o.outlet.Submit(ctx, rank)
	if err != nil {
		return err
	}
	var room [1]byte
	out, err := o.method.Call(ctx, body, room[:0])
	f := baseline.Feedback{}
	if refusal := (*spillgate.Refusal)(nil); errors.As(err, &refusal) {
		f.Reason = refusal.Reason
	} else if err != nil {
		sending.Lost()
		return err
	}
	f.Level = o.hear(out)
	sending.Answered(f)
	return err
}

// hear returns the newest level, which an answer may tell.
func (o *client) hear(out []byte) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(out) > 0 {
		o.level = int(out[0])
	} else if o.level == 0 {
		return int(work.MaxPriority) // none was told
	}
	return o.level
}
