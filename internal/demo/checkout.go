package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
)

// ShopPlan is the act of the checkouts: they visit all servers of a shop, one after
// the other, while reads visit one each, first in order of arrival and then with
// shares. Lengths are whole numbers of quarters of a second.
type ShopPlan struct {
	// Servers are their names, in the order of a checkout.
	Servers []string
	// Workers of Mean service time are the capacity of each.
	Workers int
	Mean    time.Duration
	// Conns is the number of connections to each server, of checkouts and of reads.
	Conns int
	// Checkouts, Calm and Flood are loads of each server, as multiples of its
	// capacity: that of checkouts, of reads at first, and of reads in the flood.
	Checkouts, Calm, Flood float64
	CalmFor, FloodFor      time.Duration
	// Period is the time between two changes of the weights.
	Period time.Duration
}

// Capacity returns the requests a second that a server can do.
func (p ShopPlan) Capacity() float64 { return float64(p.Workers) / p.Mean.Seconds() }

// Length returns how long one order is played.
func (p ShopPlan) Length() time.Duration { return p.CalmFor + p.FloodFor }

// flows returns the load on servers with these addresses.
func (p ShopPlan) flows(addrs []string) []stage.Flow {
	steps := func(calm, flood float64) openloop.Profile {
		return openloop.Profile{{Rate: calm * p.Capacity(), For: p.CalmFor}, {Rate: flood * p.Capacity(), For: p.FloodFor}}
	}
	n := float64(len(addrs))
	return []stage.Flow{
		{Name: stage.Checkouts, Targets: addrs[:1], Steps: steps(p.Checkouts, p.Checkouts)},
		{Name: stage.Reads, Targets: addrs, Steps: steps(n*p.Calm, n*p.Flood)},
	}
}

// CheckoutAct is the run of checkouts beside a flood of reads, in two orders.
type CheckoutAct struct {
	Servers []string `json:"servers"`
	Workers int      `json:"workers"` // of each server
	MeanMS  float64  `json:"mean_ms"` // of a request at a server
	// Capacity is what each server's workers can do.
	Capacity float64 `json:"capacity"`
	// Length is that of one order.
	Length float64 `json:"length"`
	// Steps are before the flood and the flood; a Factor is the load of a server.
	Steps []StepState `json:"steps"`
	// Orders holds FIFO and then Shares, as far as they began.
	Orders []OrderState `json:"orders"`
}

// The names of the orders.
const (
	FIFO   = "fifo"
	Shares = "shares"
)

// BeforeFlood and DuringFlood are the places in CheckoutAct.Steps.
const (
	BeforeFlood = iota
	DuringFlood
	floodSteps
)

// OrderState is one order of it.
type OrderState struct {
	Name    string  `json:"name"`
	Running bool    `json:"running"`
	Elapsed float64 `json:"elapsed"`
	// Kinds are the checkouts and the reads.
	Kinds []KindState `json:"kinds"`
	// Weights is the course of the weight of interactive requests at each server;
	// empty in order of arrival.
	Weights  []WeightState  `json:"weights"`
	Services []stage.Report `json:"services"`

	began time.Time
}

// KindState is the requests of one kind.
type KindState struct {
	Name string `json:"name"`
	Course
}

// WeightState is the weight at one server.
type WeightState struct {
	Server string        `json:"server"`
	Points []WeightPoint `json:"points"`
	// Checkout and Read are the classes of the two methods there, and why.
	Checkout stage.Verdict `json:"checkout"`
	Read     stage.Verdict `json:"read"`
}

// WeightPoint is the weight from an instant on.
type WeightPoint struct {
	T      float64 `json:"t"`
	Weight float64 `json:"weight"`
	Want   float64 `json:"want"`
	Reason string  `json:"reason"`
}

// Kind returns the requests of that name, or none.
func (o *OrderState) Kind(name string) *KindState {
	for i := range o.Kinds {
		if o.Kinds[i].Name == name {
			return &o.Kinds[i]
		}
	}
	return &KindState{Name: name}
}

// Flood returns what became of the requests of that kind in the flood, and false
// before it is over.
func (o *OrderState) Flood(name string) (stage.StepStats, bool) {
	if k := o.Kind(name); len(k.Steps) > DuringFlood {
		return k.Steps[DuringFlood], true
	}
	return stage.StepStats{}, false
}

// Weight returns the mean of the servers' newest weights, and false if there is
// none.
func (o *OrderState) Weight() (float64, bool) {
	sum, n := 0.0, 0
	for _, w := range o.Weights {
		if len(w.Points) > 0 {
			sum += w.Points[len(w.Points)-1].Weight
			n++
		}
	}
	return sum / float64(max(n, 1)), n > 0
}

// Order returns the order of that name, nil if it has not begun. A nil act has
// none.
func (a *CheckoutAct) Order(name string) *OrderState {
	if a == nil {
		return nil
	}
	for i := range a.Orders {
		if a.Orders[i].Name == name {
			return &a.Orders[i]
		}
	}
	return nil
}

// Running returns the order that is played, nil if none is.
func (a *CheckoutAct) Running() *OrderState {
	if a == nil {
		return nil
	}
	for i := range a.Orders {
		if a.Orders[i].Running {
			return &a.Orders[i]
		}
	}
	return nil
}

// Step returns the index of the step that a time of an order falls into.
func (a *CheckoutAct) Step(elapsed float64) int { return stepAt(a.Steps, elapsed) }

// Complete reports whether both orders have their outcomes. A nil act has not.
func (a *CheckoutAct) Complete() bool {
	if a == nil || len(a.Orders) != 2 || len(a.Steps) != floodSteps {
		return false
	}
	for i := range a.Orders {
		if !a.Orders[i].complete() {
			return false
		}
	}
	return true
}

func (o *OrderState) complete() bool {
	for _, k := range o.Kinds {
		if k.Outcome == nil || len(k.Outcome.Steps) != floodSteps {
			return false
		}
	}
	return len(o.Kinds) == 2
}

// Change returns how much longer the mean of a kind was in the flood with shares
// than in order of arrival, as a share of that; 0 before both are known.
func (a *CheckoutAct) Change(kind string) float64 {
	fifo, shares := a.Order(FIFO), a.Order(Shares)
	if fifo == nil || shares == nil {
		return 0
	}
	before, ok := fifo.Flood(kind)
	after, also := shares.Flood(kind)
	if !ok || !also || before.MeanMS <= 0 {
		return 0
	}
	return after.MeanMS/before.MeanMS - 1
}

func (a *CheckoutAct) copy() *CheckoutAct {
	if a == nil {
		return nil
	}
	out := *a
	out.Orders = slices.Clone(a.Orders)
	for i := range out.Orders {
		o := &out.Orders[i]
		o.Kinds, o.Weights, o.Services = slices.Clone(o.Kinds), slices.Clone(o.Weights), slices.Clone(o.Services)
		for k := range o.Kinds {
			o.Kinds[k].Points = slices.Clip(o.Kinds[k].Points)
		}
		for w := range o.Weights {
			o.Weights[w].Points = slices.Clip(o.Weights[w].Points)
		}
	}
	return &out
}

func newCheckoutAct(p ShopPlan) *CheckoutAct {
	a := &CheckoutAct{
		Servers: p.Servers, Workers: p.Workers, MeanMS: ms(p.Mean), Capacity: p.Capacity(),
		Length: p.Length().Seconds(), Orders: []OrderState{},
	}
	from := p.CalmFor.Seconds()
	a.Steps = []StepState{
		{"before", p.Checkouts + p.Calm, 0, from},
		{fmt.Sprintf("reads at %gx", p.Flood), p.Checkouts + p.Flood, from, a.Length},
	}
	return a
}

func newOrder(name string, p ShopPlan) OrderState {
	o := OrderState{Name: name, Running: true, Weights: []WeightState{}, Services: []stage.Report{}}
	for _, kind := range []string{stage.Checkouts, stage.Reads} {
		o.Kinds = append(o.Kinds, KindState{kind, newCourse()})
	}
	if name == Shares {
		for _, server := range p.Servers {
			o.Weights = append(o.Weights, WeightState{Server: server, Points: []WeightPoint{}})
		}
	}
	return o
}

// checkout plays the act of the checkouts.
func (d *director) checkout(ctx context.Context, c crew) error {
	for _, name := range []string{FIFO, Shares} {
		if err := d.order(ctx, c, name); err != nil {
			return err
		}
	}
	return nil
}

// order plays one order on servers of its own.
func (d *director) order(ctx context.Context, c crew, name string) error {
	p := d.cfg.Plan.Shop
	note := "act 4: a checkout at all servers, a read at one; all in order"
	if name == Shares {
		note = "act 4: the same requests, weighed by class at every server"
	}
	d.update(func(st *State) {
		if st.Checkout == nil {
			st.Scene, st.Checkout = Checkout, newCheckoutAct(p)
		}
		st.Note = note
		st.Checkout.Orders = append(st.Checkout.Orders, newOrder(name, p))
	})
	change := func(do func(*OrderState)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		do(d.state.Checkout.Order(name))
	}
	s, err := c.openShop(ctx, p, d.cfg.Seed, name == Shares, func(l stage.Line) {
		change(func(o *OrderState) {
			if l.Service != nil {
				o.Services = replace(o.Services, *l.Service)
			}
			if l.Weighing != nil {
				o.weigh(l.Weighing)
			}
		})
	})
	if err != nil {
		return err
	}
	var addrs []string
	for _, child := range slices.Backward(s.children) {
		addrs = append(addrs, child.Addr())
	}
	load := stage.Load{Conns: p.Conns, Objective: d.cfg.Plan.SLO, Timeout: d.cfg.Plan.Timeout, Seed: d.cfg.Seed, Flows: p.flows(addrs)}
	err = c.run(ctx, s, load, func(l stage.Line) {
		if l.Progress == nil && l.Outcome == nil {
			return
		}
		change(func(o *OrderState) { o.take(l, p.Length().Seconds()) })
		d.update(func(*State) {})
	})
	s.stop()
	if err != nil {
		return err
	}
	complete := false
	change(func(o *OrderState) { o.Running, complete = false, o.complete() })
	if !complete {
		return errors.New("demo: the load on the shop ended without a result")
	}
	return nil
}

// take adds what a load tells of one kind of requests.
func (o *OrderState) take(l stage.Line, length float64) {
	for i := range o.Kinds {
		o.Kinds[i].take(l, o.Kinds[i].Name)
	}
	if l.Progress != nil {
		o.Elapsed = max(o.Elapsed, min(l.Progress.Elapsed, length))
		o.began = l.Progress.Began
	}
}

// weigh adds a decision of a server. Those before the load began are not shown.
func (o *OrderState) weigh(w *stage.Weighing) {
	if o.began.IsZero() || w.At.Before(o.began) {
		return
	}
	for i := range o.Weights {
		if s := &o.Weights[i]; s.Server == w.Server {
			s.Points = append(s.Points, WeightPoint{T: w.At.Sub(o.began).Seconds(), Weight: w.Weight, Want: w.Want, Reason: w.Reason})
			s.Checkout, s.Read = w.Checkout, w.Read
		}
	}
}

// openShop starts the servers of a shop, from the last to the first.
func (c crew) openShop(ctx context.Context, p ShopPlan, seed uint64, shares bool, on func(stage.Line)) (*services, error) {
	s := &services{}
	next := ""
	for i, name := range slices.Backward(p.Servers) {
		part := stage.Shop{
			Name: name, Next: next, Shares: shares, Objective: shopObjective, Workers: p.Workers, Mean: p.Mean,
			Seed: seed + uint64(i), Period: p.Period,
		}
		child, err := c.start(ctx, name, stage.Part{Shop: &part}, on)
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("demo: starting the shop: %w", err)
		}
		s.children = append(s.children, child)
		next = child.Addr()
	}
	s.entry = next
	return s, nil
}

// shopObjective is what the gates of a shop are told: so much that they refuse
// nobody before its caller has given up. The act is about order alone.
const shopObjective = 2 * time.Second

func (a *CheckoutAct) invalid() []string {
	if a == nil {
		return nil
	}
	var why []string
	for _, o := range a.Orders {
		for _, k := range o.Kinds {
			if k.Outcome != nil && !k.Outcome.Valid {
				why = append(why, fmt.Sprintf("%s, %s: %s", o.Name, k.Name, strings.Join(k.Outcome.Invalid, ", ")))
			}
		}
	}
	return why
}

// summary says in a sentence what the order changed.
func (a *CheckoutAct) summary() string {
	text := fmt.Sprintf("In the shop, %d servers at %.0f %% of their capacity:", len(a.Servers), 100*a.Steps[DuringFlood].Factor)
	for i, kind := range []string{stage.Checkouts, stage.Reads} {
		fifo, _ := a.Order(FIFO).Flood(kind)
		shares, _ := a.Order(Shares).Flood(kind)
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s took %.0f ms first come, first served, and %.0f ms with shares (%+.0f %%)", kind, fifo.MeanMS, shares.MeanMS, 100*a.Change(kind))
	}
	return text + "."
}

// checkouts is the table of both orders side by side.
func checkouts(s State) *table.Table {
	a := s.Checkout
	t := &table.Table{
		Title: fmt.Sprintf("a checkout at %d servers, one after the other, beside a flood of reads at one each: %s of %.0f/s a server",
			len(a.Servers), a.Steps[DuringFlood].Name, a.Capacity),
		Columns: []table.Column{{Name: ""}, {Name: "fifo", Unit: "ms", Format: "%.0f"}, {Name: "shares", Unit: "ms", Format: "%.0f"}, {Name: "change", Unit: "%", Format: "%+.0f"}},
	}
	change := func(before, after float64) any {
		if before <= 0 {
			return "–"
		}
		return 100 * (after/before - 1)
	}
	for _, kind := range []string{stage.Checkouts, stage.Reads} {
		fifo, _ := a.Order(FIFO).Flood(kind)
		shares, _ := a.Order(Shares).Flood(kind)
		t.Add(kind+", mean", fifo.MeanMS, shares.MeanMS, change(fifo.MeanMS, shares.MeanMS))
		t.Add(kind+", p95", fifo.P95MS, shares.P95MS, change(fifo.P95MS, shares.P95MS))
	}
	var notes []string
	if w, ok := a.Order(Shares).Weight(); ok {
		notes = append(notes, fmt.Sprintf("At the end checkouts had a weight of %.2f, reads %.2f.", w, 1-w))
	}
	if lost := a.lost(); lost != "" {
		notes = append(notes, lost)
	}
	if bad := a.invalid(); len(bad) > 0 {
		notes = append(notes, "This act does not count: "+strings.Join(bad, "; ")+".")
	}
	t.Note = strings.Join(notes, " ")
	return t
}

// lost says how many requests of the flood were not answered, which the means leave
// out; empty if all were.
func (a *CheckoutAct) lost() string {
	var parts []string
	for i := range a.Orders {
		for _, kind := range []string{stage.Checkouts, stage.Reads} {
			if f, ok := a.Orders[i].Flood(kind); ok {
				if n := f.Refused + f.TimedOut + f.Failed; n > 0 {
					parts = append(parts, fmt.Sprintf("%s %s %d", a.Orders[i].Name, kind, n))
				}
			}
		}
	}
	if parts == nil {
		return ""
	}
	return "Not answered, and so not in the figures: " + strings.Join(parts, ", ") + "."
}

// classes is the table of what each server took the two methods for.
func classes(s State) *table.Table {
	t := &table.Table{
		Title:   "class that each server learned for the two, and why; its weight of checkouts at the end",
		Columns: []table.Column{{Name: "server"}, {Name: "checkout"}, {Name: "read"}, {Name: "weight", Format: "%.2f"}, {Name: "changed for"}},
	}
	show := func(v stage.Verdict) string { return v.Class + ", " + v.Why }
	for _, w := range s.Checkout.Order(Shares).Weights {
		if len(w.Points) == 0 {
			continue
		}
		last := w.Points[len(w.Points)-1]
		reason := "none"
		for _, p := range slices.Backward(w.Points) {
			if p.Reason != "steady" && p.Reason != "few" {
				reason = p.Reason
				break
			}
		}
		t.Add(w.Server, show(w.Checkout), show(w.Read), last.Weight, reason)
	}
	return t
}

// checkoutCharts returns the pictures of the act.
func checkoutCharts(s State) []*plot.Chart {
	a := s.Checkout
	over := a.Steps[DuringFlood]
	spans := []plot.Span{{Name: over.Name, From: over.From, To: over.To}}
	time := plot.Axis{Label: "time", Unit: "s"}
	var out []*plot.Chart
	for _, kind := range []string{stage.Checkouts, stage.Reads} {
		c := &plot.Chart{Title: "Latency of " + kind + ", mean of half a second", X: time, Y: plot.Axis{Label: "latency", Unit: "ms"}, Spans: spans}
		for i := range a.Orders {
			line := plot.Series{Name: a.Orders[i].Name}
			for _, p := range a.Orders[i].Kind(kind).Points {
				if p.MeanMS > 0 {
					line.X, line.Y = append(line.X, p.T), append(line.Y, p.MeanMS)
				}
			}
			c.Series = append(c.Series, line)
		}
		out = append(out, c)
	}
	weights := &plot.Chart{Title: "Weight of checkouts at each server", X: time, Y: plot.Axis{Label: "weight", Max: 1}, Spans: spans}
	for _, w := range a.Order(Shares).Weights {
		line := plot.Series{Name: w.Server}
		for _, p := range w.Points {
			line.X, line.Y = append(line.X, p.T), append(line.Y, p.Weight)
		}
		weights.Series = append(weights.Series, line)
	}
	return append(out, weights)
}
