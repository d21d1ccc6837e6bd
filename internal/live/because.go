package live

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// RefusalID names one refusal of one gate; 0 names none. Its text is 16 hexadecimal digits.
type RefusalID uint64

// String returns the text of the ID.
func (id RefusalID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// MarshalText implements encoding.TextMarshaler.
func (id RefusalID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText accepts what ParseRefusalID does.
func (id *RefusalID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseRefusalID(string(text))
	return err
}

// ParseRefusalID returns the ID with this text.
func ParseRefusalID(text string) (RefusalID, error) {
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 || id == 0 {
		return 0, fmt.Errorf("the ID of a refusal is %.40q, expected 16 hexadecimal digits, as refused answers have them", text)
	}
	return RefusalID(id), nil
}

// MostExplained is how many refusals a gate can explain, the newest ones. They take 140 KiB,
// once the gate has refused a request.
const MostExplained = 512

// Explanation says why a gate refused one request.
type Explanation struct {
	ID RefusalID
	At time.Time
	// Would says that the gate only monitored, and the request ran.
	Would bool
	// Workflow, Class, Priority and Attempt are those of the request, as far as the edge
	// believed them.
	Workflow string
	Class    work.Class
	Priority work.Priority
	Attempt  int
	admission.Because
}

// explained is an Explanation as a ring has it.
type explained struct {
	at mono.Time
	Explanation
}

// explanations are a gate's newest refusals, in a ring. They are used with the gate's lock.
type explanations struct {
	ring []explained // nil before the first
	next uint32      // the number of the next, from 1 on
}

// explain notes that t was, or would have been, refused at now, and returns the refusal's
// ID; 0 where another policy decides. It is called with the lock held.
func (g *Gate) explain(now mono.Time, t *Ticket, would bool) RefusalID {
	core := g.node.Gate()
	if core == nil {
		return 0
	}
	x := &g.explanations
	if x.ring == nil {
		x.ring = make([]explained, MostExplained)
	}
	why := core.Because(now, t.core)
	if would {
		why.Expected = core.Expect(now, t.core) // it does not wait
	}
	x.next = max(x.next+1, 1)
	id := RefusalID(g.id&^(1<<32-1) | uint64(x.next))
	x.ring[x.next%MostExplained] = explained{now, Explanation{
		ID: id, Would: would, Workflow: t.core.Workflow, Class: t.core.Class, Priority: t.core.Priority, Attempt: t.core.Attempt,
		Because: why,
	}}
	return id
}

// Explain returns why the gate refused a request, and false if it did not or has forgotten:
// it keeps the newest MostExplained.
func (g *Gate) Explain(id RefusalID) (Explanation, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.explanations.ring == nil || id == 0 {
		return Explanation{}, false
	}
	e := &g.explanations.ring[uint32(id)%MostExplained]
	if e.ID != id {
		return Explanation{}, false
	}
	return e.dated(), true
}

// Refused returns why the gate refused the newest requests, at most n of them, the newest
// first.
func (g *Gate) Refused(n int) []Explanation {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &g.explanations
	if x.ring == nil {
		return nil
	}
	var all []Explanation
	for i := range uint32(min(max(n, 0), MostExplained)) {
		e := &x.ring[(x.next-i)%MostExplained]
		if e.ID == 0 {
			break
		}
		all = append(all, e.dated())
	}
	return all
}

// dated returns the explanation with the date of its instant.
func (e *explained) dated() Explanation {
	out := e.Explanation
	out.At = time.Now().Add(-Now().Sub(e.at))
	return out
}
