package slots

import "time"

// Learned is what a Limit knows of its service. Another Limit in front of the same service can begin with it.
type Learned struct {
	belief belief
	times  times
}

// Learned returns what l knows now. During a trial the limit is that at which the trial began.
func (l *Limit) Learned() Learned {
	k := Learned{l.belief, l.times}
	if l.trial.kind != noTrial && l.trial.from.limit > 0 {
		k.belief.limit = l.trial.from.limit
	}
	return k
}

// Learn has l, which has seen no request yet, begin with what another limit knew, within l's bounds.
func (l *Limit) Learn(k Learned) {
	l.belief, l.times = k.belief, k.times
	l.limit = max(float64(l.cfg.Min), min(l.limit, float64(l.cfg.Max)))
	l.round()
}

// SetSlack changes Config.Slack. What was learned stays, because it is about the service.
func (l *Limit) SetSlack(d time.Duration) { l.cfg.Slack = d }
