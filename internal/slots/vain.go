package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// futile is the share of a window's work in vain that says that the server does nothing else.
	futile = 2.0 / 3
	// catchUp is how many objectives a server gets to work off what is in vain. No world of tuning/core sees it.
	catchUp = 4
	// respiteFirst and respiteLast are for how many objectives late answers are no reason to give way once fewer
	// requests were found to take as long. To find that out costs about one objective.
	respiteFirst, respiteLast = 128, 1024
	// lateRow is how many late answers in a row there must be where no processor is known to be short.
	lateRow = 64
	// flood is how many times as many run as have ended if far too many were let in, and runLonger how many times as
	// long those that run have run, on average.
	flood, runLonger = 4, 1.5
	// grown is the part of the time since the start that the newest completions took if requests wait for each other: of
	// five times as many as are served, four fifths. Short requests beside long polls take as little as the first did.
	grown = 0.5
	// moreThan is how many times as many requests run, once regrowth shows a queue, as are busy by Little's law: what
	// they took was measured with a few completions.
	moreThan = 1.3
	// behind is the part of the most requests at once that run on average, up to which the ends are those of a burst
	// that is over. Where one request in twenty takes as long as the objective, and they come as those to a service for
	// language models (Azure 2023), a third of two does nothing: the limit fell to 1 behind each burst (goodput by the
	// best semaphore's, six worlds of six seeds: 0.887; with 0.3, 0.5 and 0.7: 0.924, 0.948 and 0.95). Three of 350
	// random worlds see it, and no slowdown.
	behind = 0.5
	// lastLook is after how many windows work that is still in vain is not what the server was given before.
	lastLook = 4
)

// recovery is what follows on work in vain.
type recovery uint8

const (
	recovered  recovery = iota
	catchingUp          // the server works off what it was given before
	regrowing           // the limit doubles while slots are missing and the residence stays short
)

// vain is work that came too late, or whose callers had given up, and what follows on it.
type vain struct {
	state   recovery
	patient mono.Time // the server catches up until then
	caught  float64   // completions that told the service time once it had; 0 if the knee was set since
	before  belief    // when the limit gave way
	from    point     // at the last limit that was too high
	// beyond is until when late answers are no reason to give way, because fewer requests take as long, and respite
	// for how long the last one was.
	beyond  mono.Time
	respite time.Duration
	row     int // late answers in a row
	looks   int // windows at the low limit that have shown much in vain
}

// tooLate reports whether a request that took r ns is one of those for whose sake the limit may give way. Where no
// processor is known to be short, requests are late mostly because the work is slow, so only many late ones in a row
// ask whether fewer would be in time.
func (l *Limit) tooLate(r float64) bool {
	if r <= whole*float64(l.cfg.Slack) {
		l.vain.row = 0
		return false
	}
	l.vain.row++
	return l.Sharing() || l.vain.row > lateRow || l.vain.state != recovered
}

// inVain reports whether hardly anything in the running window was finished in time, and before its caller gave up, by more
// than chance, because every completion asks. Where fewer run for a trial that is no reason for fewer still: of the few completions of a stage most are in vain by chance.
func (l *Limit) inVain(now mono.Time) bool {
	w := &l.window
	n := w.given
	if now >= l.vain.beyond {
		n += w.late
	}
	done := float64(w.done)
	return w.done >= 2*earlySize && float64(n) > futile*done+surely*math.Sqrt(futile*(1-futile)*done) && !w.leftovers(now) && l.Lends() && !l.trial.kind.down() && !(l.vain.state == catchingUp && now < l.vain.patient)
}

// leftovers reports whether the window's ends are mostly of requests that began before it, as behind a burst: none
// began in it, or half of the most that ran did on average. The long requests of a burst end last, and say nothing of the
// others.
func (w *window) leftovers(now mono.Time) bool {
	return w.most == 0 || w.area < behind*float64(now.Sub(w.start))*float64(w.most)
}

// flooded reports whether a cold start has let in far too many: many times as many run as have ended, by Little's law
// they take longer than the objective, they have run for longer already than those that have ended took, and the newest
// end took most of the time since the start. Each of these holds elsewhere as well: the first few of requests that take
// nearly the same time end late in the window, of random times the short ones end first, and long polls run beside short
// requests.
func (l *Limit) flooded() bool {
	w, ran := &l.window, float64(l.InUse())
	return l.knee.service == 0 && l.Lends() && !l.Sharing() && l.use.lent == 0 && w.done >= 2*earlySize && ran >= flood*float64(w.done) &&
		w.residence() > whole*float64(l.cfg.Slack) && (w.area-w.sum)/ran > runLonger*w.sum/float64(w.done) &&
		w.newest > grown*float64(w.last.Sub(w.start))
}

// giveWay quarters the limit when all work is in vain. A server that does not hear that callers gave up goes on
// working for nobody as long as it is given more, and how long its work takes cannot be told until it has caught up.
// Then the limit doubles with every few completions until they take longer again. If a quarter as many are late as
// well, and take as long as all did, they do not wait for each other: the objective is out of reach, and as many run
// as before. late says that most answers were late, rather than given up.
func (l *Limit) giveWay(now mono.Time, p point, late bool) {
	v := &l.vain
	switch {
	case v.state == recovered:
		v.before, v.from = l.belief, p
		if l.trial.kind.down() {
			v.before.limit = l.trial.from.limit // a stage of a trial is no limit to come back to
		}
	case late && l.outOfReach(p):
		was := l.limit
		l.grantRespite(now)
		l.begin(now, l.limit/was)
		return
	}
	l.limit = max(float64(l.fewest()), min(l.limit, p.concurrency)/4)
	v.state, v.patient = catchingUp, now.Add(catchUp*whole*l.cfg.Slack)
	l.trial, l.knee.at, l.knee.rate, l.line.before = trial{}, 0, 0, measured{}
	l.lowered = point{}
	l.agenda.untried, l.agenda.gap, l.agenda.last = 0, trialFirst, noTrial
	if late {
		l.unqueued.n, v.patient = 0, now // what runs when the limit is in force is not counted
	}
	l.window = newWindow(now, now)
	l.window.moved, l.window.opens, l.window.fresh = true, now, late
}

// takeAsLong reports whether requests take about as long at p as they did where more ran: nearer to as long, by the
// logarithm, than to as little as their number is.
func (l *Limit) takeAsLong(p point) bool {
	f := l.vain.from
	return p.took*p.took*f.concurrency > f.took*f.took*p.concurrency
}

// outOfReach reports whether p, of which most was late, shows that fewer would be late as well.
func (l *Limit) outOfReach(p point) bool { return l.takeAsLong(p) || l.Limit() <= l.fewest() }

// grantRespite gives back what was taken away for the sake of late answers, and lets them be late for a while.
func (l *Limit) grantRespite(now mono.Time) {
	v := &l.vain
	v.respite = min(max(2*v.respite, respiteFirst*whole*l.cfg.Slack), respiteLast*whole*l.cfg.Slack)
	v.beyond, v.looks, v.state = now.Add(v.respite), 0, recovered
	l.belief = v.before
}

// recover is for a window p after work in vain.
func (l *Limit) recover(p point) {
	v, k := &l.vain, &l.knee
	switch {
	case v.state == regrowing && p.vain > 1-futile+math.Sqrt(futile*(1-futile)/p.samples): // more than chance
		l.limit, v.state = l.limit/2, recovered
		l.window.hasty, l.window.fresh = true, true // what runs now does not tell of half as many
		// So many of them may be in vain by chance, so more are tried soon.
		l.agenda.untried, l.agenda.last = max(l.agenda.gap-memory, 0), fewer
		return
	case v.state == catchingUp && p.vain > 1-futile && (p.vain > futile || v.looks < lastLook):
		// If so few run, and take so long, that windows end with fewer than inVain asks for, several windows tell as
		// much.
		if v.looks++; v.looks > lastLook && l.window.late > l.window.given && l.outOfReach(p) {
			l.grantRespite(l.window.last)
		}
		return
	case v.state == catchingUp:
		// So few run that this is the service time; the one of before may have made the work vain.
		k.service, k.alone = p.residence, p.residence
		v.state, v.caught, v.respite, v.looks = regrowing, p.samples, 0, 0
	}
	if p.bound {
		l.crowd.note(p)
	}
	switch room := l.reach.most() + 1; {
	case p.residence > k.service+max(float64(l.cfg.Slack), 0.4*k.service):
		// There is a queue. Half as many showed none, and by Little's law not many more keep the server busy.
		v.state, l.window.fresh = recovered, true
		l.limit = min(l.limit, max(down*l.limit, moreThan*p.throughput/(1-p.given)*k.service+few))
	case !p.bound:
		v.state = recovered // so many are enough
	case l.reach.told() && l.limit < room && 2*l.limit >= room:
		l.limit, v.state = room, recovered
	default:
		l.limit *= 2
	}
}
