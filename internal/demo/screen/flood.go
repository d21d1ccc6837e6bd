package screen

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/demo"
)

// floods draws the act of the broker.
func (l *look) floods(s *demo.State, width, height int) []string {
	a := s.Feed
	return l.pair(s, width, height, func(i int) pane {
		p := pane{what: "plain, no limits", over: "the flood", step: demo.DuringTopic, length: a.Length, steps: a.Steps, rate: a.Load}
		if i == 1 {
			p.what = "limited, a rate for each"
		}
		r := &demo.FeedRun{}
		if i < len(a.Runs) {
			r = &a.Runs[i]
			p.run = &r.Run
		}
		waiting, dropped := r.Held()
		p.rest = [][2]string{
			{"given up", count(r.Totals.TimedOut)}, {"flood sent", count(r.Flooded.Sent)}, {"flood came", count(r.Flooded.Came)},
			{"broker", fmt.Sprintf("%s wait, %s dropped", count(waiting), count(dropped))},
		}
		return p
	})
}
