package mesh

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// maxTrace bounds the instants of a trace. A longer one is refused.
const maxTrace = 10_000_000

// ReadTrace reads arrival times from CSV whose first column is an instant such as
// 2023-11-16 18:17:03.9799600, under a line of headings, and makes time run speed
// times as fast: Load.Trace counts from the first. Instants that are out of order
// are sorted. Other columns are ignored.
func ReadTrace(r io.Reader, speed float64) ([]time.Duration, error) {
	if !(speed > 0) {
		return nil, fmt.Errorf("mesh: the speed of a trace is %v, expected above 0", speed)
	}
	var at []time.Time
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		field, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(in.Text(), "\ufeff")), ",")
		if n == 1 && !strings.ContainsAny(field, "0123456789") || field == "" {
			continue
		}
		t, err := time.Parse("2006-01-02 15:04:05.9999999", field)
		if err != nil {
			return nil, fmt.Errorf("mesh: line %d of the trace begins with %.40q, expected an instant such as 2023-11-16 18:17:03.97", n, field)
		}
		if len(at) == maxTrace {
			return nil, fmt.Errorf("mesh: the trace has more than %d instants", maxTrace)
		}
		at = append(at, t)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("mesh: reading the trace: %w", err)
	}
	slices.SortStableFunc(at, time.Time.Compare)
	out := make([]time.Duration, len(at))
	for i, t := range at {
		out[i] = durationOf(float64(t.Sub(at[0])) / speed)
	}
	return out, nil
}
