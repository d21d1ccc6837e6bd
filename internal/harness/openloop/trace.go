package openloop

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// MaxTraceRows is the longest trace that is read, in requests. It keeps a
// wrong file from filling the memory.
const MaxTraceRows = 5_000_000

// Trace is a recorded sequence of requests.
type Trace []TraceRow

// TraceRow is one request of a Trace.
type TraceRow struct {
	At time.Duration // since the trace's first request
	// ContextTokens and GeneratedTokens size the request in traces of language
	// model services; 0 where the file has no such column.
	ContextTokens   int
	GeneratedTokens int
}

// ReadTraceFile reads the trace in the named file; see ReadTrace.
func ReadTraceFile(path string) (Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("openloop: %w", err)
	}
	defer f.Close()
	t, err := ReadTrace(f)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return t, nil
}

// ReadTrace reads CSV with a header line. The column TIMESTAMP is required:
// instants such as "2023-11-16 18:17:03.9799600" or RFC 3339, not decreasing.
// Columns ContextTokens and GeneratedTokens are read when present, others are
// ignored. An error names the line.
func ReadTrace(r io.Reader) (Trace, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("openloop: the trace is empty, want CSV with a header line")
	}
	if err != nil {
		return nil, fmt.Errorf("openloop: trace: %w", err)
	}
	stamp, context, generated := -1, -1, -1
	for i, name := range header {
		switch strings.TrimPrefix(strings.TrimSpace(name), "\ufeff") {
		case "TIMESTAMP":
			stamp = i
		case "ContextTokens":
			context = i
		case "GeneratedTokens":
			generated = i
		}
	}
	if stamp < 0 {
		return nil, fmt.Errorf("openloop: the trace's header is %.200q, want a column TIMESTAMP", strings.Join(header, ","))
	}

	var out Trace
	var first time.Time
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("openloop: trace: %w", err)
		}
		line, _ := in.FieldPos(0)
		if len(out) == MaxTraceRows {
			return nil, fmt.Errorf("openloop: trace line %d: more than %d requests, the most that are read", line, MaxTraceRows)
		}
		at, err := parseInstant(record[stamp])
		if err != nil {
			return nil, fmt.Errorf("openloop: trace line %d: %w", line, err)
		}
		row := TraceRow{}
		if len(out) == 0 {
			first = at
		} else {
			row.At = at.Sub(first)
			if last := out[len(out)-1].At; row.At < last {
				return nil, fmt.Errorf("openloop: trace line %d: %q is %v before the line above it, want instants that do not decrease", line, record[stamp], last-row.At)
			}
			if row.At == math.MaxInt64 {
				return nil, fmt.Errorf("openloop: trace line %d: %q is more than 292 years after the first request", line, record[stamp])
			}
		}
		if row.ContextTokens, err = parseTokens(record, context); err != nil {
			return nil, fmt.Errorf("openloop: trace line %d: ContextTokens: %w", line, err)
		}
		if row.GeneratedTokens, err = parseTokens(record, generated); err != nil {
			return nil, fmt.Errorf("openloop: trace line %d: GeneratedTokens: %w", line, err)
		}
		out = append(out, row)
	}
	if len(out) == 0 {
		return nil, errors.New("openloop: the trace has a header but no requests")
	}
	return out, nil
}

func parseInstant(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	for _, layout := range []string{time.DateTime, time.RFC3339} { // both also read fractions of a second
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("TIMESTAMP is %.40q, want an instant such as %q", s, "2023-11-16 18:17:03.9799600")
}

func parseTokens(record []string, column int) (int, error) {
	if column < 0 {
		return 0, nil
	}
	s := strings.TrimSpace(record[column])
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%.40q is not a number of tokens, want a whole number from 0", s)
	}
	return n, nil
}

// Duration returns the instant of the last request.
func (t Trace) Duration() time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].At
}

// MeanRate returns the trace's requests per second, 0 for a trace that has no
// duration.
func (t Trace) MeanRate() float64 {
	if t.Duration() <= 0 {
		return 0
	}
	return float64(len(t)-1) / t.Duration().Seconds()
}

// Compress returns the trace played speed times as fast. To get a mean rate r,
// compress by r / MeanRate(). The shape of the load is kept, only the time in
// which it happens shrinks.
func (t Trace) Compress(speed float64) (Trace, error) {
	if !(speed > 0) || math.IsInf(speed, 1) || float64(t.Duration())/speed > math.MaxInt64/2 {
		return nil, fmt.Errorf("openloop: speed is %v, must be above 0 and leave the trace shorter than a century", speed)
	}
	out := make(Trace, len(t))
	for i, row := range t {
		row.At = time.Duration(float64(row.At) / speed)
		out[i] = row
	}
	return out, nil
}

// Arrivals returns the trace's instants. The i-th arrival belongs to row i.
func (t Trace) Arrivals() Arrivals { return &replay{rest: t} }

type replay struct{ rest Trace }

func (r *replay) Next() (time.Duration, bool) {
	if len(r.rest) == 0 {
		return 0, false
	}
	at := r.rest[0].At
	r.rest = r.rest[1:]
	return at, true
}
