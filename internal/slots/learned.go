package slots

import "time"

// Learned is what a Limit has found out about its service: with it, another Limit in front of the
// same service goes on from there.
type Learned struct {
	belief       belief
	mean, spread float64
}

// Learned returns what l knows now. Of a trial it is the level at which the trial began.
func (l *Limit) Learned() Learned {
	k := Learned{l.belief(), l.mean, l.spread}
	if l.trial.dir != 0 && l.trial.from.limit > 0 {
		k.belief.limit = l.trial.from.limit
	}
	return k
}

// Learn has l, which has seen no request yet, begin with what another limit knew, within its own
// bounds.
func (l *Limit) Learn(k Learned) {
	l.restore(k.belief)
	l.mean, l.spread = k.mean, k.spread
	l.limit = max(float64(l.cfg.Min), min(l.limit, float64(l.cfg.Max)))
}

// SetSlack changes Config.Slack, and MaxWindow to what follows from it unless it was configured. What
// was learned stays: it is about the service.
func (l *Limit) SetSlack(d time.Duration) {
	if l.cfg.MaxWindow == longestWindow(l.cfg.Slack) {
		l.cfg.MaxWindow = longestWindow(d)
	}
	l.cfg.Slack = d
}
