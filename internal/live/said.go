package live

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
)

// What a request says of the line at its sender is told coarsely, because the next one then says the same, and is
// neither encoded nor compressed nor read anew: with 64 calls in flight and fewer credits, to tell it exactly took a
// client 0.9 µs of 38 µs a call.
const (
	// waitSteps is how many steps of waiting are told apart in an objective. A wait is told as shorter than it was by
	// less than 1 % of the objective, which is far below what makes an answer late by chance.
	waitSteps = 128
	// demandBits is how many leading bits of a demand are told: as less than it is by at most a sixteenth, half of
	// what a server must change a grant by before it tells (credit.Pool.Tells). Up to 31 it is exact.
	demandBits = 5
	// budgetBits is the same for the time that is left, less what it takes to send a request: with the same timeout for each, they
	// then mostly say the same. A server ends a request sooner by at most 0.4 % of its time.
	budgetBits = 9
)

// coarseWait is a wait as a server with an objective is told of it, exact where that is not known.
func coarseWait(d, objective time.Duration) time.Duration {
	if step := objective / waitSteps; d > 0 && step > 0 {
		d -= d % step
	}
	return d
}

// coarseDemand is a demand, of 0 or more, as a server is told of it.
func coarseDemand(n int) int { return int(leading(uint64(n), demandBits)) }

// CoarseBudget is the time that a request has left as a server is told of it: wire.Tags.Budget of a request with a deadline. That
// of one that is out of time is negative.
func CoarseBudget(left time.Duration) time.Duration {
	if left <= 0 {
		return -1
	}
	return time.Duration(leading(uint64(left), budgetBits))
}

// leading returns n with its leading bits alone.
func leading(n uint64, most int) uint64 {
	if over := bits.Len64(n) - most; over > 0 {
		n = n >> over << over
	}
	return n
}

// Said remembers the tags that travelled to a server lately, in the form in which its edge sends
// them: most requests say the same as one before. It is ready as its zero value, and its
// methods may be called at once from any goroutine.
type Said struct {
	last  atomic.Pointer[said]
	lines atomic.Pointer[lines] // nil until a line or a budget is told of
}

// lines are the tags that tell of a line at the sender, or of a budget, by what they tell.
type lines [16]atomic.Pointer[said]

// place returns where t is remembered.
func (s *Said) place(t *wire.Tags) *atomic.Pointer[said] {
	if t.Demand == 0 && t.Waited == 0 && t.Budget == 0 {
		return &s.last
	}
	all := s.lines.Load()
	if all == nil {
		s.lines.CompareAndSwap(nil, new(lines))
		all = s.lines.Load()
	}
	const golden = 0x9E3779B97F4A7C15 // neighbours get different places
	return &all[(uint64(t.Demand)+uint64(t.Waited)+uint64(t.Budget))*golden>>60]
}

type said struct {
	tags wire.Tags
	form any
}

// Form returns what form makes of t, which nobody may write to.
func (s *Said) Form(t *wire.Tags, form func(wire.Tags) any) any {
	place := s.place(t)
	if last := place.Load(); last != nil && last.tags == *t {
		return last.form
	}
	made := form(*t)
	place.Store(&said{*t, made})
	return made
}

// Heard remembers the tags that a connection brought last, and what they were read from, which is a
// message of at most wire.MaxLen. It is ready as its zero value, and its methods may be called at once
// from any goroutine.
type Heard struct {
	last   atomic.Pointer[heard]
	budget atomic.Uint32 // a hash of the last text with a budget
}

// texts is the seed of the hashes of texts: nobody can choose two with the same.
var texts = maphash.MakeSeed()

type heard struct {
	text string
	tags wire.Tags
}

// Tags returns what parse makes of text. A nil h remembers nothing.
func (h *Heard) Tags(text string, parse func(string) (wire.Tags, error)) (wire.Tags, error) {
	if h == nil {
		return parse(text)
	}
	if last := h.last.Load(); last != nil && last.text == text {
		return last.tags, nil
	}
	tags, err := parse(text)
	// Those that tell of a line change all the time, and with them to remember one takes as long as to read it. So do budgets, where
	// they are what others left: one counts when it comes twice in a row.
	if err != nil || tags.Demand != 0 || tags.Waited != 0 {
		return tags, err
	}
	if tags.Budget != 0 {
		if hash := uint32(maphash.String(texts, text)); h.budget.Swap(hash) != hash {
			return tags, nil
		}
	}
	h.last.Store(&heard{text, tags})
	return tags, nil
}
