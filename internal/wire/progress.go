package wire

import "time"

const progressLen = 16

// Progress is an amount of service, as package progress measures it: without any
// wait for a turn. Up to MaxDuration each.
type Progress struct {
	// Service is the time along the critical path: own service of the process
	// that answers, and that of its calls divided by their parallelism. A server
	// that measures no waits and no calls says the time from the start of its
	// handler to the end, which is an upper bound.
	Service time.Duration
	// Work is what all processes spent together. It is never less than Service:
	// a server that does not measure it leaves it zero, and it is sent and read
	// as equal.
	Work time.Duration
}

// bounded returns p as it is allowed to travel.
func (p Progress) bounded() Progress {
	p.Service = min(max(p.Service, 0), MaxDuration)
	p.Work = min(max(p.Work, p.Service), MaxDuration)
	return p
}

// append appends p, which is bounded, to dst.
func (p Progress) append(dst []byte) []byte {
	return appendDuration(appendDuration(dst, p.Service), p.Work)
}

// progress reads from b, which has at least progressLen bytes.
func (f *fields) progress(b []byte) Progress {
	return Progress{Service: f.duration(b, 0), Work: f.duration(b[8:], 0)}.bounded()
}
