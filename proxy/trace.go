package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
)

// traceparent is the field by which a server's own calls are told to belong to a
// request that it works on (W3C Trace Context), as net/http spells it.
const traceparent = "Traceparent"

const (
	// maxTraced is the most requests that are found by their trace at once. One more
	// is served all the same; calls made for it are not known to be its own, so it
	// keeps its slot to the end.
	maxTraced = 65_536
	// maxOfTrace is the same for requests of one trace: a trace that comes back to
	// this service many times, or a stranger who sends one id with everything.
	maxOfTrace = 32
)

// traceID is the name of a trace. The zero traceID is none.
type traceID [16]byte

// parseTrace reads a traceparent: version, trace, parent and flags in lower-case
// hexadecimal digits. Later versions may say more behind the flags.
func parseTrace(s string) (id traceID, ok bool) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(s) < length || len(s) > 256 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return id, false
	}
	if s[:2] == "ff" || len(s) > length && (s[:2] == "00" || s[length] != '-') {
		return id, false
	}
	for _, part := range [...]string{s[:2], s[3:35], s[36:52], s[53:55]} {
		for i := range len(part) {
			if c := part[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return id, false
			}
		}
	}
	if s[36:52] == "0000000000000000" {
		return id, false
	}
	_, _ = hex.Decode(id[:], []byte(s[3:35])) // digits, all of them
	return id, id != traceID{}
}

// traceOf returns the trace that a header names. It reports false if it names
// none, and malformed if it tries.
func traceOf(h http.Header) (id traceID, ok, malformed bool) {
	switch v := h[traceparent]; len(v) {
	case 0:
		return id, false, false
	case 1:
		id, ok = parseTrace(v[0])
		return id, ok, !ok
	}
	return id, false, true
}

// newTrace begins a trace, of which nobody asked for a sample, and writes it into
// h.
func newTrace(h http.Header) traceID {
	var id traceID
	var parent [8]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1)
	binary.BigEndian.PutUint64(parent[:], rand.Uint64()|1)
	h[traceparent] = []string{"00-" + hex.EncodeToString(id[:]) + "-" + hex.EncodeToString(parent[:]) + "-00"}
	delete(h, "Tracestate") // of a trace that goes on no more
	return id
}

// traces finds the requests that are under way by their trace. It may be used from
// any goroutine.
type traces struct {
	mu  sync.Mutex
	all map[traceID][]*visit
	n   int

	malformed atomic.Int64 // traceparents that break the format
	crowded   atomic.Int64 // requests beyond maxTraced or maxOfTrace
}

// add makes v to be found, and reports false if there are too many.
func (t *traces) add(v *visit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := t.all[v.trace]
	if t.n >= maxTraced || len(same) >= maxOfTrace {
		t.crowded.Add(1)
		return false
	}
	if t.all == nil {
		t.all = map[traceID][]*visit{}
	}
	t.all[v.trace] = append(same, v)
	t.n++
	return true
}

// remove undoes add.
func (t *traces) remove(v *visit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := t.all[v.trace]
	for i := range same {
		if same[i] != v {
			continue
		}
		copy(same[i:], same[i+1:])
		same[len(same)-1] = nil
		if same = same[:len(same)-1]; len(same) == 0 {
			delete(t.all, v.trace)
		} else {
			t.all[v.trace] = same
		}
		t.n--
		return
	}
}

// begin begins a call of a request of that trace, nil if there is none under way.
// Of several it is the oldest that the server is working on. Should that be the
// wrong one, the number of those that are worked on is still right.
func (t *traces) begin(id traceID) *outing {
	var some [maxOfTrace]*visit
	t.mu.Lock()
	n := copy(some[:], t.all[id])
	t.mu.Unlock()
	for _, idle := range [...]bool{true, false} {
		for _, v := range some[:n] {
			if o := v.leave(idle); o != nil {
				return o
			}
		}
	}
	return nil
}

// count returns how many requests are found by their trace.
func (t *traces) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}
