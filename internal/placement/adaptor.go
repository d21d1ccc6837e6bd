package placement

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// AdaptorConfig sets up an Adaptor. Zero fields take the default named in their comment.
type AdaptorConfig struct {
	// Bucket is that of the whole topic. Required.
	Bucket
	// Brokers is how many hold publishers of the topic. Required; at most MaxBrokers.
	Brokers int
	// Window is over how long traffic is looked at. Default 10 s. Longer is calmer, shorter follows
	// sooner.
	Window time.Duration
	// Steps is how many parts the window has; a report is due in each. Default 10.
	Steps int
	// Floor is the share of the bucket that brokers without traffic have together, so that
	// their first message does not wait for a decision. Default 0.05.
	Floor float64
	// Change is how much a part must change, by ratio, for anything to be changed; for rates no more than
	// half of what the topic has to spare. Default 0.1. Smaller follows noise.
	Change float64
}

// maxSteps is the most parts of a window.
const maxSteps = 100

// MaxBrokers is the most brokers that one topic may be on.
const MaxBrokers = 1 << 10

func (c AdaptorConfig) filled() (AdaptorConfig, error) {
	var errs []error
	wrong := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("placement: %s is %v, expected %s", name, value, want))
		}
	}
	wrong(c.Rate > 0 && !math.IsInf(c.Rate, 1), "Rate", c.Rate, "messages a second above 0")
	wrong(c.Burst >= 1 && !math.IsInf(c.Burst, 1), "Burst", c.Burst, "1 message or more")
	wrong(c.Brokers >= 1 && c.Brokers <= MaxBrokers, "Brokers", c.Brokers, fmt.Sprintf("1 to %d", MaxBrokers))
	wrong(c.Window >= 0, "Window", c.Window, "a duration of 0 or more")
	wrong(c.Steps >= 0 && c.Steps <= maxSteps, "Steps", c.Steps, fmt.Sprintf("0 to %d", maxSteps))
	wrong(c.Floor >= 0 && c.Floor < 1, "Floor", c.Floor, "a share below 1")
	wrong(c.Change >= 0 && !math.IsInf(c.Change, 1), "Change", c.Change, "a ratio of 0 or more")
	set(&c.Window, 10*time.Second)
	set(&c.Steps, 10)
	set(&c.Floor, 0.05)
	set(&c.Change, 0.1)
	return c, errors.Join(errs...)
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Report is what a broker saw of the topic since its last report.
type Report struct {
	// Messages is how many arrived.
	Messages float64
	// Span is over how long they did. 0 stands for the time since the last report that arrived here, which is wrong where one is
	// late or lost.
	Span time.Duration
	// Backlog is the most that the queue behind the bucket had, in messages: the burst that
	// would have let all of them through at once.
	Backlog float64
	// Waiting is how many messages wait for a token now.
	Waiting float64
	// Version is that of the grant that the broker obeys.
	Version uint64
}

// Grant is what a broker may let through.
type Grant struct {
	Bucket
	// Version grows with every change.
	Version uint64
	// Expires is when the broker falls back to Floor by itself, unless a later grant comes.
	Expires mono.Time
	// Floor is what it falls back to.
	Floor Bucket
}

// Adaptor lets the parts of a topic's bucket follow the traffic of its brokers (section 5.4). A broker gets what it uses: the
// mean rate of a window, the largest backlog. What the topic has to spare stays divided as the parts are, so parts come to be in
// proportion to the traffic, the sooner the less there is to spare, and the first report of a topic that was idle moves next to
// nothing: brokers do not report at the same instant, and a division by traffic alone would take the bucket from those that are heard later.
// Where messages wait at one broker for longer than a step while others have tokens to spare, half of what there is to spare goes to
// those that wait, and where the last step is no chance by its window either, traffic has moved: that window begins anew.
//
//	report ──▶ Report ──▶ wanted parts ──▶ cuts at once ──▶ raises, from what cuts were confirmed
//
// What all brokers may use together never exceeds the bucket, also when messages to and from
// them are late or lost: a part is counted as in use, as large as the largest that the broker
// may still obey, until a report confirms a smaller one or its grant has expired. It is not safe
// for concurrent use.
type Adaptor struct {
	cfg        AdaptorConfig
	brokers    []adapted
	version    uint64
	worthwhile float64 // the least change of a rate, by ratio
}

// adapted is what the Adaptor knows of one broker.
type adapted struct {
	steps    []step
	next     int
	heard    mono.Time
	grant    Grant   // the last one issued
	target   Bucket  // the part that grants go to: cuts at once, raises out of what cuts set free
	issued   []issue // what it may obey: the grant that it confirmed last and all since
	expiring mono.Time
	adopted  bool // it may have the floor of another Adaptor: it has confirmed no grant of this one
}

// issue is a grant that was made.
type issue struct {
	Bucket
	version uint64
}

// maxIssues bounds how many are told apart. Of more the two oldest count as one, the larger.
const maxIssues = 32

// silence is after how many windows without a word a broker is given up: it has fallen back to
// its floor by itself then.
const silence = 2

// NewAdaptor divides the bucket evenly at first, or returns every mistake of the configuration.
func NewAdaptor(now mono.Time, cfg AdaptorConfig) (*Adaptor, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	a := &Adaptor{cfg: cfg, brokers: make([]adapted, cfg.Brokers), version: 1}
	for i := range a.brokers {
		b := &a.brokers[i]
		b.steps, b.heard = make([]step, 0, cfg.Steps), now
		b.grant = Grant{Bucket: cfg.Split(1 / float64(cfg.Brokers)), Version: 1, Expires: now.Add(silence * cfg.Window), Floor: a.floor()}
		b.target, b.issued, b.expiring = b.grant.Bucket, []issue{{b.grant.Bucket, 1}}, b.grant.Expires
	}
	return a, nil
}

// floor is what a broker has at least.
func (a *Adaptor) floor() Bucket { return a.cfg.Split(a.cfg.Floor / float64(a.cfg.Brokers)) }

// Grant returns what a broker is to obey.
func (a *Adaptor) Grant(broker int) Grant { return a.brokers[broker].grant }

// Report enters what a broker saw. Figures below 0 and of no number count as 0.
func (a *Adaptor) Report(now mono.Time, broker int, r Report) {
	b := &a.brokers[broker]
	if now <= b.heard {
		return
	}
	span := r.Span
	if span <= 0 {
		span = now.Sub(b.heard)
	}
	s := step{at: now, span: span.Seconds(), n: sane(r.Messages), backlog: sane(r.Backlog), waiting: sane(r.Waiting)}
	if s.waiting > 0 { // for a rate, it may be, and that says nothing of bursts
		s.backlog = min(s.backlog, b.target.Burst)
	}
	if s.n > 0 && b.idle(now, a.cfg.Window) { // traffic began somewhere within it, elsewhere in that of another broker
		s.n, s.span = 0, 0
		b.steps, b.next = b.steps[:0], 0
	}
	if len(b.steps) < a.cfg.Steps {
		b.steps = append(b.steps, s)
	} else {
		b.steps[b.next] = s
		b.next = (b.next + 1) % len(b.steps)
	}
	b.heard = now
	for i, is := range b.issued {
		if is.version == r.Version { // it obeys none of those before any more
			b.issued = append(b.issued[:0], b.issued[i:]...)
			b.adopted = b.adopted && i == 0
			break
		}
	}
}

func sane(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 0
	}
	return x
}

// Moved tells that publishers of a rate, in messages a second, go from one broker to another: their part of the bucket goes
// with them at the next Step, instead of following their messages.
func (a *Adaptor) Moved(now mono.Time, from, to int, rate float64) {
	f, t := &a.brokers[from], &a.brokers[to]
	had, burst, _ := f.seen(now, a.cfg.Window)
	if from == to || !(rate > 0 && had > 0) {
		return
	}
	part := min(1, rate/had)
	for i := range f.steps {
		f.steps[i].n *= 1 - part
		f.steps[i].backlog *= 1 - part
	}
	for i := range t.steps {
		t.steps[i].n += part * had * t.steps[i].span
		t.steps[i].backlog += part * burst
	}
	with := f.target.Split(part)
	f.target = Bucket{f.target.Rate - with.Rate, f.target.Burst - with.Burst}
	t.target = Bucket{t.target.Rate + with.Rate, t.target.Burst + with.Burst}
}

// Step decides the grants anew. Call it once a step of the window; the driver sends every
// Grant afterwards, changed or not, since each extends how long it is valid.
func (a *Adaptor) Step(now mono.Time) {
	for i := range a.brokers {
		a.expire(now, &a.brokers[i])
	}
	if wanted, known := a.wanted(now); known {
		a.aim(wanted)
	}
	for i := range a.brokers { // cuts at once
		b := &a.brokers[i]
		if cut := lesser(b.target, b.grant.Bucket); off(cut.Rate, b.grant.Rate) > leastChange || off(cut.Burst, b.grant.Burst) > leastChange {
			a.change(b, cut)
		}
	}
	free := a.cfg.Bucket
	for i := range a.brokers {
		used := a.brokers[i].use()
		free.Rate, free.Burst = free.Rate-used.Rate, free.Burst-used.Burst
	}
	a.raise(free)
	for i := range a.brokers {
		b := &a.brokers[i]
		b.grant.Expires = b.heard.Add(silence * a.cfg.Window)
		b.expiring = max(b.expiring, b.grant.Expires)
	}
}

// expire takes back what a silent broker had: it has fallen back by itself.
func (a *Adaptor) expire(now mono.Time, b *adapted) {
	if now < b.expiring.Add(a.step()) {
		return // a step more, for the time that the grant was on its way
	}
	a.fall(b)
}

// Fell tells that a broker has fallen back to its floor for sure, before its grant has expired: at the next Step the others may have what it had.
func (a *Adaptor) Fell(broker int) { a.fall(&a.brokers[broker]) }

func (a *Adaptor) fall(b *adapted) {
	keeps := issue{}
	if b.adopted { // it fell back to the floor of an Adaptor that may have had fewer brokers, but to no more than it obeyed
		keeps.Bucket = lesser(b.use(), a.cfg.Split(a.cfg.Floor))
	}
	b.steps, b.next = b.steps[:0], 0
	b.target = a.floor()
	a.change(b, b.target)
	b.issued = append(b.issued[:0], keeps, issue{b.grant.Bucket, b.grant.Version})
}

// wanted returns each broker's part by its traffic in the window. A broker that is not heard keeps what it may
// use until that expires, and one whose traffic has just begun the part that it is to have; the others share the rest. It
// reports whether there are any.
func (a *Adaptor) wanted(now mono.Time) (out []Bucket, known bool) {
	n := len(a.brokers)
	rates, bursts, waiting := make([]float64, n), make([]float64, n), make([]float64, n)
	behind := a.behind(waiting)
	if behind {
		a.restart(now)
	}
	rest, waits := a.cfg.Bucket, 0.0
	arriving, held := Bucket{}, Bucket{}
	out = make([]Bucket, n)
	for i := range a.brokers {
		b := &a.brokers[i]
		steps := 0
		rates[i], bursts[i], steps = b.seen(now, a.cfg.Window)
		heard := float64(now.Sub(b.heard)) <= unheard*float64(a.step())
		if !heard || steps < leastSteps && !behind {
			if out[i] = b.target; !heard {
				out[i] = b.use()
			}
			rates[i], bursts[i] = -1, -1
			rest.Rate, rest.Burst = rest.Rate-out[i].Rate, rest.Burst-out[i].Burst
			continue
		}
		known = true
		arriving.Rate, arriving.Burst = arriving.Rate+rates[i], arriving.Burst+bursts[i]
		held.Rate, held.Burst = held.Rate+b.target.Rate, held.Burst+b.target.Burst
		waits += waiting[i]
	}
	rest = Bucket{max(rest.Rate, a.floor().Rate), max(rest.Burst, a.floor().Burst)}
	spare := Bucket{max(0, rest.Rate-arriving.Rate), max(0, rest.Burst-arriving.Burst)}
	for i := range a.brokers {
		if rates[i] < 0 {
			continue
		}
		has := a.brokers[i].target
		keeps := ratio(has.Rate, held.Rate)
		if waits > 0 {
			keeps = (keeps + waiting[i]/waits) / 2
		}
		rates[i] += spare.Rate * keeps
		bursts[i] += spare.Burst * ratio(has.Burst, held.Burst)
	}
	// Within half of what is to spare nobody falls behind.
	a.worthwhile = min(a.cfg.Change, max(spare.Rate/rest.Rate/2, leastChange))
	floor := a.floor()
	share(rates, floor.Rate/rest.Rate)
	share(bursts, max(floor.Burst, min(1, rest.Burst/float64(2*n)))/rest.Burst) // a message is a whole one
	for i := range out {
		if rates[i] >= 0 { // less than the floor would become more when the grant expires
			out[i] = Bucket{max(rates[i]*rest.Rate, floor.Rate), max(bursts[i]*rest.Burst, floor.Burst)}
		}
	}
	return out, known
}

const (
	// leastSteps is how many whole steps of each broker there must be to go by, unless messages wait: by fewer the
	// noise of bursts is more than the topic has to spare.
	leastSteps = 3
	// unheard is after how many steps without a word a broker is not planned with: one report is missing then. Its window ends
	// earlier than those of the others, so that where all of them begin to send it would seem to send less.
	unheard = 1.5
	// leastChange is the least change of a part that is worth a grant, whatever little there is to spare.
	leastChange = 0.02
)

func (a *Adaptor) step() time.Duration { return a.cfg.Window / time.Duration(a.cfg.Steps) }

// behind enters what waits at brokers that will not have it through for longer than a step, and reports whether
// others have enough to spare for these.
func (a *Adaptor) behind(waiting []float64) bool {
	spare, short := 0.0, 0.0
	for i := range a.brokers {
		b := &a.brokers[i]
		last, ok := b.last()
		switch {
		case !ok:
		case last.waiting > b.grant.Rate*a.step().Seconds():
			waiting[i] = last.waiting
			short += b.grant.Rate
		case last.span > 0:
			spare += max(0, b.grant.Rate-last.n/last.span)
		}
	}
	return short > 0 && spare > a.cfg.Change*short
}

// restart begins the window of brokers anew with the last step where traffic has moved: what was before tells nothing
// about what comes. The paper's adaptor forgets it a window later.
func (a *Adaptor) restart(now mono.Time) {
	for i := range a.brokers {
		if b := &a.brokers[i]; a.moved(now, b) {
			last, _ := b.last()
			b.steps, b.next = append(b.steps[:0], last), 0
		}
	}
}

// share turns weights into shares that add up to 1. Those that are below the floor get it, at the expense of the
// others. Weights below 0 get nothing.
func share(weights []float64, floor float64) {
	low := make([]bool, len(weights))
	for more := true; more; {
		sum, left, n := weigh(weights, low, floor)
		more = false
		for i, w := range weights {
			if w >= 0 && !low[i] && sum > 0 && w/sum*left < floor {
				low[i], more = true, true
			}
		}
		if more {
			continue
		}
		for i, w := range weights {
			switch {
			case w < 0:
			case sum == 0:
				weights[i] = 1 / n
			case low[i]:
				weights[i] = floor
			default:
				weights[i] = w / sum * left
			}
		}
	}
}

// weigh returns the sum of the weights that are not low, what floors leave to them, and how many weights there are.
func weigh(weights []float64, low []bool, floor float64) (sum, left, n float64) {
	left = 1
	for i, w := range weights {
		switch {
		case w < 0:
			continue
		case low[i]:
			left -= floor
		default:
			sum += w
		}
		n++
	}
	return sum, left, n
}

// aim makes what is wanted the target, rates or bursts or both, if any part of these is far enough from what it should be.
func (a *Adaptor) aim(wanted []Bucket) {
	rates, bursts := false, false
	for i, w := range wanted {
		has := a.brokers[i].target
		rates = rates || off(w.Rate, has.Rate) > a.worthwhile
		bursts = bursts || off(w.Burst, has.Burst) > a.cfg.Change
	}
	for i, w := range wanted {
		if rates {
			a.brokers[i].target.Rate = w.Rate
		}
		if bursts {
			a.brokers[i].target.Burst = w.Burst
		}
	}
}

// ratio is 0 where there is nothing.
func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

func off(want, has float64) float64 { return math.Abs(want-has) / max(min(want, has), 1e-300) }

// use is the most that a broker may let through now.
func (b *adapted) use() (most Bucket) {
	for _, is := range b.issued {
		most = Bucket{max(most.Rate, is.Rate), max(most.Burst, is.Burst)}
	}
	return most
}

func lesser(a, b Bucket) Bucket { return Bucket{min(a.Rate, b.Rate), min(a.Burst, b.Burst)} }

// change issues a grant, if it is another one.
func (a *Adaptor) change(b *adapted, to Bucket) {
	if to == b.grant.Bucket {
		return
	}
	b.grant.Bucket = to
	a.issue(b)
}

// issue gives the grant of a broker a new version.
func (a *Adaptor) issue(b *adapted) {
	a.version++
	b.grant.Version = a.version
	b.issued = append(b.issued, issue{b.grant.Bucket, a.version})
	if len(b.issued) > maxIssues {
		first, second := b.issued[0], &b.issued[1]
		second.Rate, second.Burst = max(first.Rate, second.Rate), max(first.Burst, second.Burst)
		b.issued = append(b.issued[:0], b.issued[1:]...)
	}
}

// raise gives what is free to those that have less than they should, in proportion to what
// they lack.
func (a *Adaptor) raise(free Bucket) {
	var lack Bucket
	for i := range a.brokers {
		want, has := a.brokers[i].target, a.brokers[i].use()
		lack.Rate, lack.Burst = lack.Rate+max(0, want.Rate-has.Rate), lack.Burst+max(0, want.Burst-has.Burst)
	}
	give := Bucket{portion(free.Rate, lack.Rate), portion(free.Burst, lack.Burst)}
	for i := range a.brokers {
		b := &a.brokers[i]
		has := b.use()
		more := Bucket{max(0, b.target.Rate-has.Rate) * give.Rate, max(0, b.target.Burst-has.Burst) * give.Burst}
		if more.Rate > 1e-9*a.cfg.Rate || more.Burst > 1e-9*a.cfg.Burst {
			a.change(b, Bucket{b.grant.Rate + more.Rate, b.grant.Burst + more.Burst})
		}
	}
}

// portion is the part of what is lacking that can be given; a hair less, so that rounding
// never exceeds the bucket.
func portion(free, lack float64) float64 {
	if free <= 0 || lack <= 0 {
		return 0
	}
	return min(1, free/lack) * (1 - 1e-12)
}

// Adopt tells, before the first Step, what a broker obeys that another Adaptor granted: the part is its own
// until it confirms a smaller one or the grant expires, and it is raised only out of what is free. A bucket of 0
// is that of a broker which has nothing yet.
func (a *Adaptor) Adopt(broker int, obeys Bucket, version uint64, expires mono.Time) {
	b := &a.brokers[broker]
	a.version = max(a.version, version)
	b.grant.Bucket, b.grant.Version, b.target = obeys, version, obeys
	b.issued = append(b.issued[:0], issue{obeys, version})
	b.expiring, b.adopted = expires, true
}

// Expect tells, before the first Step and after Adopt, the share of the bucket that a broker's publishers are expected to need, by what
// is known of them: the part that it is to have until its traffic says more.
func (a *Adaptor) Expect(broker int, share float64) {
	to, floor := a.cfg.Split(share), a.floor()
	a.brokers[broker].target = Bucket{max(to.Rate, floor.Rate), max(to.Burst, floor.Burst)}
}

// Renew issues a broker's grant anew, with a version above one up to which it obeys none: that of another Adaptor, as it says.
func (a *Adaptor) Renew(broker int, above uint64) {
	a.version = max(a.version, above)
	a.issue(&a.brokers[broker])
}

// Use returns the most that a broker may let through now, by all that it may obey.
func (a *Adaptor) Use(broker int) Bucket { return a.brokers[broker].use() }
