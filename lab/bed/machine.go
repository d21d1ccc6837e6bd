package bed

import (
	"cmp"
	"fmt"
	"time"
)

// Record is what was noted of the machine during a run.
type Record struct {
	// SendLag is the 99th percentile of how late requests left, in open loops.
	SendLag time.Duration
	// Stolen is the largest share of a processor that the host took in a second.
	Stolen float64
	// Others is the share of a processor that other processes used of those on which
	// services compute, Clients what the clients used of theirs.
	Others, Clients float64
	// Crowded says that the machine has fewer processors than the world; "" if not.
	Crowded string
}

// What a run may be disturbed by before it is void.
const (
	// mostLag is the share of the objective that the send lag may have (rule 1 of
	// the harness).
	mostLag = 0.1
	// mostStolen is a stall that shows in the 99th percentile of some seconds.
	mostStolen = 0.15
	// mostOthers is missing in the goodput where the processor is the capacity.
	mostOthers = 0.04
	// mostClients is as much as a generator may use of its processor before it sends
	// late or reads late.
	mostClients = 0.9
)

// void says why the record makes figures void, "" if it does not.
func (r *Record) void(objective time.Duration) string {
	if why := cmp.Or(r.Crowded, r.SentLate(time.Duration(mostLag*float64(objective))), r.TakenByHost()); why != "" {
		return why
	}
	switch {
	case r.Others > mostOthers:
		return fmt.Sprintf("other processes used %.0f %% of a processor, more than %.0f %%", 100*r.Others, 100*mostOthers)
	case r.Clients > mostClients:
		return fmt.Sprintf("the clients used %.0f %% of their processor, more than %.0f %%", 100*r.Clients, 100*mostClients)
	}
	return ""
}

// Disturbed says why a run in which work sleeps does not count, "" if it does: requests left
// later than most, or the host took a processor away.
func (r *Record) Disturbed(most time.Duration) string {
	return cmp.Or(r.SentLate(most), r.TakenByHost())
}

// SentLate says that requests left later than most, of which 99 % may; "" if not.
func (r *Record) SentLate(most time.Duration) string {
	if r.SendLag <= most {
		return ""
	}
	return fmt.Sprintf("requests left late, p99 %v, more than %v", r.SendLag.Round(10*time.Microsecond), most)
}

// TakenByHost says that the host took more of a processor for a second than a p99 of some
// seconds bears; "" if not.
func (r *Record) TakenByHost() string {
	if r.Stolen <= mostStolen {
		return ""
	}
	return fmt.Sprintf("the host took %.0f %% of a processor for a second, more than %.0f %%", 100*r.Stolen, 100*mostStolen)
}
