package chains

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/share"
)

// Setting describes the servers of a bed. Zero fields take the default named in
// their comment.
type Setting struct {
	// Servers is how many there are, and how many a chain visits. Default 4, as in
	// the paper; at most 8.
	Servers int `json:"servers"`
	// Workers is how many requests a server works on at once. Default 1, at most
	// 1,000.
	Workers int `json:"workers"`
	// Mean is the mean service time at each server; times are exponential. Default
	// 10 ms, from 100 µs to a minute. Smaller shows more requests a second, and more
	// of what the machine adds to each.
	Mean time.Duration `json:"mean_ns"`
	// Seed decides the service times.
	Seed uint64 `json:"seed"`
}

func (s Setting) withDefaults() (Setting, error) {
	if s.Servers == 0 {
		s.Servers = 4
	}
	if s.Workers == 0 {
		s.Workers = 1
	}
	if s.Mean == 0 {
		s.Mean = 10 * time.Millisecond
	}
	var errs []error
	if s.Servers < 1 || s.Servers > 8 {
		errs = append(errs, fmt.Errorf("chains: Servers is %d, expected 1 to 8, or 0 for the default", s.Servers))
	}
	if s.Workers < 1 || s.Workers > 1000 {
		errs = append(errs, fmt.Errorf("chains: Workers is %d, expected 1 to 1000, or 0 for the default", s.Workers))
	}
	if s.Mean < 100*time.Microsecond || s.Mean > time.Minute {
		errs = append(errs, fmt.Errorf("chains: Mean is %v, expected 100µs to 1m, or 0 for the default", s.Mean))
	}
	return s, errors.Join(errs...)
}

// Capacity is what one server can do, in requests per second.
func (s Setting) Capacity() float64 { return float64(s.Workers) / s.Mean.Seconds() }

// Model is the same load in theory. It takes a server's workers for one that is as
// fast as all of them, which is exact for one worker.
func (s Setting) Model(chains, singles float64) share.Load {
	return share.Load{
		Interactive: chains, Default: singles / float64(s.Servers),
		Service: s.Capacity(), Hops: s.Servers,
	}
}
