package worldfile

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/world"
)

const (
	// MaxCSV is the largest trace or histogram, in bytes.
	MaxCSV = 64 << 20
	// maxLine is the longest line of one, in bytes.
	maxLine = 64 << 10
	// maxSpan is the longest time between the first instant of a trace and another.
	maxSpan = 366 * 24 * time.Hour
)

// lines reads a file of comma-separated values and calls row for each line, from 1,
// that is not empty. row returns what it expected if the line does not have it. The
// first line is a heading if it begins with no number. At most most lines are read.
func (d *decoder) lines(n node, path string, most int, row func(fields []string) (want string)) {
	f, err := d.open(path)
	if err != nil {
		d.Wrong(n, err.Error(), "a readable file")
		return
	}
	defer f.Close()
	limited := &io.LimitedReader{R: f, N: MaxCSV + 1}
	scan := bufio.NewScanner(limited)
	scan.Buffer(nil, maxLine)
	line, rows := 0, 0
	for scan.Scan() {
		line++
		text := strings.TrimSuffix(strings.TrimPrefix(scan.Text(), "\ufeff"), "\r")
		if strings.TrimSpace(text) == "" {
			continue
		}
		if rows++; rows > most+1 { // one of them may be the heading
			d.Other(n, path, line, fmt.Sprintf("more than %d lines", most), fmt.Sprintf("at most %d", most))
			return
		}
		fields := strings.Split(text, ",")
		for i, field := range fields {
			fields[i] = strings.Trim(strings.TrimSpace(field), `"`)
		}
		if line == 1 && !strings.ContainsAny(fields[0][:min(1, len(fields[0]))], "0123456789+-.") {
			continue
		}
		if want := row(fields); want != "" {
			d.Other(n, path, line, plainyaml.Quoted(text), want)
		}
	}
	switch {
	case scan.Err() != nil:
		d.Other(n, path, line+1, scan.Err().Error(), fmt.Sprintf("lines of at most %d bytes", maxLine))
	case limited.N <= 0:
		d.Other(n, path, 0, fmt.Sprintf("more than %d bytes", MaxCSV), fmt.Sprintf("at most %d bytes", MaxCSV))
	}
}

// trace reads the instants of a trace, its first column, into l. It is played speed
// times as fast as it was, from its first instant on.
func (d *decoder) trace(n node, path string, speed float64, l *world.Load) {
	var parse func(string) (time.Duration, bool)
	var last time.Duration
	var arrivals []time.Duration
	before := d.Len()
	d.lines(n, path, world.MaxArrivals, func(fields []string) string {
		if parse == nil {
			if parse = clock(fields[0]); parse == nil {
				return "in the first column an instant: seconds, or a date and time such as 2026-01-31 17:04:05.25"
			}
		}
		at, ok := parse(fields[0])
		switch {
		case !ok:
			return "in the first column an instant, written as those before it"
		case at < last:
			return "an instant that is not before the one above"
		case at > maxSpan:
			return "an instant within 366 days from the first"
		}
		last = at
		arrivals = append(arrivals, time.Duration(float64(at)/speed))
		return ""
	})
	if len(arrivals) == 0 && d.Len() == before {
		d.Other(n, path, 0, "no instants", "one or more")
	}
	l.Arrivals = arrivals
}

// clock returns what reads instants that are written as s is, as times from s on;
// nil if s is no instant.
func clock(s string) func(string) (time.Duration, bool) {
	if first, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(first) < 1e12 {
		return func(s string) (time.Duration, bool) {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil || !(math.Abs(x-first) < 1e9) {
				return 0, false
			}
			return time.Duration(math.Round((x - first) * float64(time.Second))), true
		}
	}
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", time.DateTime} {
		if first, err := time.Parse(layout, s); err == nil {
			return func(s string) (time.Duration, bool) {
				t, err := time.Parse(layout, s)
				return t.Sub(first), err == nil
			}
		}
	}
	return nil
}

// histogram reads times, in seconds, and how often each came, into the points of
// out.
func (d *decoder) histogram(n node, path string, out *world.Draw) {
	before := d.Len()
	d.lines(n, path, world.MaxPoints, func(fields []string) string {
		const want = "seconds,count: two numbers of at least 0"
		if len(fields) < 2 {
			return want
		}
		seconds, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(seconds >= 0) {
			return want
		}
		count, err := strconv.ParseFloat(fields[1], 64)
		if err != nil || !(count >= 0) || math.IsInf(count, 0) {
			return want
		}
		if seconds > world.MaxTime.Seconds() {
			return fmt.Sprintf("a time of at most %g seconds", world.MaxTime.Seconds())
		}
		out.Points = append(out.Points, world.Point{Value: time.Duration(math.Round(seconds * float64(time.Second))), Weight: count})
		return ""
	})
	if len(out.Points) == 0 && d.Len() == before {
		d.Other(n, path, 0, "no points", "lines of seconds,count")
	}
}
