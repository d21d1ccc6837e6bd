package chains

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/work"
)

// visit is one request's passage through a proxy that lets as many in as its server
// has workers.
type visit struct {
	passage
	class work.Class
}

// readVisits reads what a proxy logged at debug level, as JSON.
func readVisits(log io.Reader) ([]visit, error) {
	var all []visit
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var l struct {
			Time     time.Time     `json:"time"` // of the end
			Msg      string        `json:"msg"`
			Decision string        `json:"decision"`
			Class    string        `json:"class"`
			Queued   time.Duration `json:"queued"`
			Service  time.Duration `json:"service"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("chains: a proxy's log: %w: %.200s", err, lines.Text())
		}
		if l.Msg != "request" || l.Decision != "admit" {
			continue
		}
		var v visit
		var err error
		if v.class, err = classify.ParseClass(l.Class); err != nil {
			return nil, fmt.Errorf("chains: a proxy's log: %w: %.200s", err, lines.Text())
		}
		v.ended = l.Time
		v.started = v.ended.Add(-max(l.Service, 0))
		v.arrived = v.started.Add(-max(l.Queued, 0))
		all = append(all, v)
	}
	return all, lines.Err()
}

// replay counts what visits waited, and what they would have in order of arrival:
// workers take the same arrivals up for as long as they were taken up in turn.
func replay(visits []visit, workers int) Counts {
	arrivals := slices.SortedFunc(slices.Values(visits), func(a, b visit) int { return a.arrived.Compare(b.arrived) })
	starts := slices.SortedFunc(slices.Values(visits), func(a, b visit) int {
		return cmp.Or(a.started.Compare(b.started), a.arrived.Compare(b.arrived))
	})
	l := newLedger(workers)
	var c Counts
	for _, s := range starts {
		for len(arrivals) > 0 && !arrivals[0].arrived.After(s.started) {
			l.arrive(arrivals[0].arrived, arrivals[0].class)
			arrivals = arrivals[1:]
		}
		l.start(s.service())
		c.add(s.class, s.waited(), s.service())
	}
	c.Arrived, c.Finished = uint64(len(visits)), uint64(len(visits))
	return c.with(&l)
}
