package backplane

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// A request that nobody subscribes to is sent on with a reply subject. Where no other node
// wants it either, NATS answers at once with an empty message, and the Asker is told:
//
//	here   spillgate.live.…, reply to spillgate.unheard.HERE.NUMBER ─▶ no subscription of NATS
//	here ◀─ reply: empty ───────────────────────────────────────────────┘
//
// A node that the message is diverted to asks the same way, and answers with the same.

// unheardTime is how long NATS may take to answer; it does so before it takes the next
// message. Those who asked earlier are forgotten after one to two of it.
const unheardTime = 5 * time.Second

// unheard is who wants to know whether nobody got a message, by number.
type unheard struct {
	mu          sync.Mutex
	number      uint64
	now, before map[uint64]engine.Asker
	turned      mono.Time
	most        int // in each map; with more, the earlier ones are forgotten at once
}

// add returns the number of a message of an asker.
func (u *unheard) add(a engine.Asker, now mono.Time) uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now == nil || now.Sub(u.turned) > unheardTime || len(u.now) >= u.most {
		u.before, u.now, u.turned = u.now, map[uint64]engine.Asker{}, now
	}
	u.number++
	u.now[u.number] = a
	return u.number
}

// take returns the asker of a number, nil if it is forgotten, and forgets it.
func (u *unheard) take(number uint64) engine.Asker {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.now[number]
	if a == nil {
		a = u.before[number]
	}
	delete(u.now, number)
	delete(u.before, number)
	return a
}

// unheardSubject is where this node hears that nobody got a message, before the number.
func (p *Plane) unheardSubject() string {
	return unheardSubjects + strconv.FormatUint(p.origin, 36) + "."
}

// asking returns the subject that NATS answers on if nobody gets a message of from, empty
// if from does not want to know.
func (p *Plane) asking(from engine.Source) string {
	a, asks := from.(engine.Asker)
	if !asks {
		return ""
	}
	return p.unheardSubject() + strconv.FormatUint(p.unheard.add(a, live.Now()), 36)
}

// hearUnheard tells askers.
func (p *Plane) hearUnheard() error {
	p.unheard.most = p.cfg.Pending
	_, err := p.nc.Subscribe(p.unheardSubject()+"*", func(m *nats.Msg) {
		number, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.unheardSubject()), 36, 64)
		if err != nil || len(m.Data) > 0 {
			return
		}
		if a := p.unheard.take(number); a != nil {
			a.Unheard()
		}
	})
	if err != nil {
		return fmt.Errorf("backplane: %w", err)
	}
	return nil
}

// question is the Source of a request that another node diverted to this one, where nobody
// subscribes to it.
type question struct{ remote }

// Unheard answers as NATS does.
func (q *question) Unheard() { _ = q.p.nc.Publish(q.reply, nil) }
