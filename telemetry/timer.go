package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Timer is a histogram of durations, by labels, that a request pays little for: an observation is two atomic
// additions. Both histograms of a gate take 40 to 54 ns a request; Prometheus's took 118 to 197 ns, with native
// buckets 294 to 404 ns, and OpenTelemetry's take 503 ns (go test -bench Observe ./telemetry, on a machine that
// others used). It is a collector of Prometheus:
//
//	cells     │  │   │  │ │  │   │   │     divided at the bounds of both kinds of buckets
//	classic   └──────────┘ └──┘   ...      19 bounds, three to a decade
//	native    └──┘   └──┘  ...             eight to an octave (schema 3)
//
// so both kinds are sums of the same cells, and always agree. Its methods may be called at once from any
// goroutine.
type Timer struct {
	desc   *prometheus.Desc
	labels []string

	mu  sync.Mutex
	all map[string]*Times // by label values
}

// Times is what a Timer counts under some values of its labels.
type Times struct {
	pairs []*dto.LabelPair
	since time.Time
	sum   atomic.Int64 // ns, without whole centuries, or it would overflow: a thousand requests at a time take 292 years in 107 days
	wraps atomic.Uint64
	cells [numCells]atomic.Uint64
}

const (
	// schema is that of the native buckets: each is 2^(1/8) times as wide as the one before, so that a
	// quantile is known to 4.5 %.
	schema    = 3
	perOctave = 1 << schema
	// What takes at most 2^leastOctave s, a microsecond, counts as 0, and what takes more than 2^mostOctave s,
	// a day and a half, as that.
	leastOctave, mostOctave = -20, 17
	numNative               = (mostOctave - leastOctave) * perOctave
	numCells                = 1 + numNative + len(buckets) // the first is that of 0
	// slices of an octave lead to its cells: an octave has eight native buckets and up to three classic bounds,
	// so a slice has at most a few of them.
	slicesLog = 4
)

// cellEnds are the upper bounds of cells in ns, which belong to them, and cellAt the first cell that a value of a
// slice of an octave can be in. They never change.
var cellEnds, nativeOf, classicOf, cellAt = layCells()

func layCells() (ends [numCells]float64, native, classic [numCells]int, at [(mostOctave - leastOctave + 1) << slicesLog]uint16) {
	var seconds []float64
	for i := range numNative + 1 {
		seconds = append(seconds, math.Exp2(float64(leastOctave)+float64(i)/perOctave))
	}
	seconds = append(seconds, buckets[:]...)
	slices.Sort(seconds)
	for i, s := range seconds {
		ends[i] = s * float64(time.Second)
		if slices.Contains(buckets[:], s) {
			ends[i] = math.Round(ends[i]) // what takes as long as the bound is below it
		}
		native[i] = int(math.Ceil((math.Log2(s)-leastOctave)*perOctave - 1e-9)) // 0 is that of 0
		classic[i], _ = slices.BinarySearch(buckets[:], s)
	}
	cell := 0
	for i := range at {
		from := math.Exp2(float64(leastOctave+i>>slicesLog)) * (1 + float64(i&(1<<slicesLog-1))/(1<<slicesLog)) * float64(time.Second)
		for cell < numCells-1 && ends[cell] < from {
			cell++
		}
		at[i] = uint16(cell)
	}
	return ends, native, classic, at
}

// cellOf returns the cell of a duration.
func cellOf(d time.Duration) int {
	const exponent, bias = 52, 1023
	s := d.Seconds()
	bits := math.Float64bits(s)
	slot := int(bits>>(exponent-slicesLog)) - (bias+leastOctave)<<slicesLog
	switch {
	case slot < 0:
		return 0
	case slot >= len(cellAt):
		return numCells - 1
	}
	i := int(cellAt[slot])
	for i < numCells-1 && float64(d) > cellEnds[i] {
		i++
	}
	return i
}

// Observe counts a duration; one below 0 is 0.
func (t *Times) Observe(d time.Duration) {
	d = max(d, 0)
	t.cells[cellOf(d)].Add(1)
	if s := t.sum.Add(int64(d)); s >= century && t.sum.CompareAndSwap(s, s-century) {
		t.wraps.Add(1)
	}
}

// century is 2^62 ns, 146 years. Where two requests find that it is over at once, the next one takes it off.
const century = 1 << 62

// Timer returns the histogram of that OpenTelemetry name, from which Prometheus's follows, with names of labels.
// A second call with the same arguments returns the same, also that of another Telemetry in the same registry.
func (t *Telemetry) Timer(name, meaning string, labels ...string) (*Timer, error) {
	h := &Timer{desc: prometheus.NewDesc(strings.ReplaceAll(name, ".", "_")+"_seconds", meaning, labels, nil), labels: labels, all: map[string]*Times{}}
	failed := t.register.Register(h)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](failed); ok {
		if there, ok := already.ExistingCollector.(*Timer); ok {
			return there, nil // that of another gate in this registry
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("telemetry: histogram %s: %w", name, failed)
	}
	return h, nil
}

// With returns what the timer counts under values of its labels, in their order. There must be few of them.
func (t *Timer) With(values ...string) (*Times, error) {
	if len(values) != len(t.labels) {
		return nil, fmt.Errorf("telemetry: %d labels, expected %d: %s", len(values), len(t.labels), strings.Join(t.labels, ", "))
	}
	key := strings.Join(values, "\xff")
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.all[key]; known != nil {
		return known, nil
	}
	check, err := prometheus.NewConstMetric(t.desc, prometheus.UntypedValue, 0, values...)
	if err != nil {
		return nil, err
	}
	var said dto.Metric
	if err := check.Write(&said); err != nil {
		return nil, err
	}
	fresh := &Times{pairs: said.Label, since: time.Now()}
	t.all[key] = fresh
	return fresh, nil
}

// Forget drops what the timer counts under these values of its first labels, whatever the other
// labels say. Observations of a Times that was dropped go nowhere.
func (t *Timer) Forget(first ...string) {
	key := strings.Join(first, "\xff")
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.all, func(known string, _ *Times) bool { return known == key || strings.HasPrefix(known, key+"\xff") })
}

// Describe implements prometheus.Collector.
func (t *Timer) Describe(to chan<- *prometheus.Desc) { to <- t.desc }

// Collect implements prometheus.Collector.
func (t *Timer) Collect(to chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.all {
		to <- collected{t.desc, c}
	}
}

// collected is what a Times has counted, as a metric.
type collected struct {
	desc *prometheus.Desc
	*Times
}

// Desc implements prometheus.Metric.
func (c collected) Desc() *prometheus.Desc { return c.desc }

// Write implements prometheus.Metric.
func (c collected) Write(out *dto.Metric) error {
	var native [numNative + 1]uint64
	var classic [len(buckets) + 1]uint64
	h := &dto.Histogram{
		SampleSum: proto.Float64(time.Duration(c.sum.Load()).Seconds() + float64(c.wraps.Load())*century/1e9), CreatedTimestamp: timestamppb.New(c.since),
		Schema: proto.Int32(schema), ZeroThreshold: proto.Float64(math.Exp2(leastOctave)),
	}
	total := uint64(0)
	for i := range c.cells {
		n := c.cells[i].Load()
		native[nativeOf[i]] += n
		classic[classicOf[i]] += n
		total += n
	}
	h.SampleCount, h.ZeroCount = proto.Uint64(total), proto.Uint64(native[0])
	below := uint64(0)
	for i, bound := range buckets {
		below += classic[i]
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(bound), CumulativeCount: proto.Uint64(below)})
	}
	writeNative(h, native[1:])
	out.Label, out.Histogram = c.pairs, h
	return nil
}

// writeNative writes the counts of native buckets, from the first above 0: runs of buckets that have
// something, each count as its difference from the one before.
func writeNative(h *dto.Histogram, counts []uint64) {
	const first = leastOctave*perOctave + 1 // its index
	end, before := 0, int64(0)
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if last := len(h.PositiveSpan) - 1; last >= 0 && end == i {
			*h.PositiveSpan[last].Length++
		} else {
			offset := int32(i - end)
			if last < 0 {
				offset = int32(first + i)
			}
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: proto.Int32(offset), Length: proto.Uint32(1)})
		}
		h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
		end, before = i+1, int64(n)
	}
	if len(h.PositiveSpan) == 0 {
		h.PositiveSpan = []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}} // tells an empty one from none
	}
}
