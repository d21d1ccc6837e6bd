package screen

import "github.com/spillgate/spillgate/internal/demo"

// seized draws the act of the culprit.
func (l *look) seized(s *demo.State, width, height int) []string {
	a := s.Culprit
	return l.pair(s, width, height, func(i int) pane {
		p := pane{what: "plain, no gate", over: "that time", step: demo.DuringReport, length: a.Length, steps: a.Steps, rate: a.Rate}
		r := &demo.LockRun{Run: demo.Run{Name: string(demo.Plain)}}
		if i == 1 {
			p.what, r.Name = "gated, culprit cancelled", string(demo.Gated)
		}
		if i < len(a.Runs) {
			r = &a.Runs[i]
			p.run = &r.Run
		}
		p.rest = [][2]string{
			{"timed out", count(r.Totals.TimedOut)}, {"refused", count(r.Totals.Refused)},
			{"cancelled", r.Verdict()}, {"the report", r.Fate()},
		}
		return p
	})
}
