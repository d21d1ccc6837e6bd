package screen

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/demo"
)

// floodLines are the lines of a run's panel that are no chart.
const floodLines = 8

// floods draws a panel for each run, side by side and with the same scales. The second
// one's place is empty before it begins.
func (l *look) floods(s *demo.State, width, height int) []string {
	half := width / 2
	left, right := l.flood(s, 0, half, height), l.flood(s, 1, width-half, height)
	for i := range left {
		left[i] += right[i]
	}
	return left
}

// feedOf returns the figures that a panel shows: those of the flood once a run is over,
// those of the last half second before.
func feedOf(r *demo.FeedRun) figures {
	if o, ok := r.During(demo.DuringTopic); ok && !r.Running {
		return figures{o.Offered, o.Goodput, o.P50MS, o.P99MS}
	}
	p := r.Last()
	return figures{p.Offered, p.Goodput, p.P50MS, p.P99MS}
}

// flood draws one of them.
func (l *look) flood(s *demo.State, i, width, height int) []string {
	inside := width - 4
	free := max(height-floodLines, 2)
	top := min((free+1)/2, tallest)
	bottom := min(max(free-top, 1), tallest)
	a := s.Feed
	title := []string{"plain, no limits", "limited, a rate for each"}[i]
	r := &demo.FeedRun{Name: []string{string(demo.Plain), demo.Limited}[i]}
	switch {
	case i >= len(a.Runs):
		title += ", next"
	default:
		if r = &a.Runs[i]; !r.Running {
			title = r.Name + ", figures of the flood"
		}
		if r.Outcome != nil && !r.Outcome.Valid {
			title = r.Name + ": does not count"
		}
	}
	own := *s
	own.ActLength, own.Steps, own.Capacity.Rate = a.Length, a.Steps, a.Load
	rows := l.served(&own, r.Points, feedOf(r), inside, top, bottom)
	name := func(text string) string { return l.faint.Render(fmt.Sprintf("%-11s", text)) }
	waiting, dropped := r.Held()
	rows = append(rows, name("given up")+count(r.Totals.TimedOut),
		name("flood sent")+count(r.Flooded.Sent), name("flood came")+count(r.Flooded.Came),
		name("broker")+fmt.Sprintf("%s wait, %s dropped", count(waiting), count(dropped)))
	return l.box(title, rows, width, len(rows)+2)
}
