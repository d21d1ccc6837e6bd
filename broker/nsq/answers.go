package nsq

import (
	"sync"

	"github.com/spillgate/spillgate/broker/engine"
)

// answers are those of a connection's commands, which have no number and must go in
// the order of the commands, whenever their messages go.
type answers struct {
	most int
	out  *engine.Outbox

	lock  sync.Mutex
	ring  []pending // its length is a power of two
	first uint16    // the identifier of the answer that goes next
	n     int
}

// pending is the answer of one command.
type pending struct {
	left int // messages that wait
	kind byte
	text string
}

func (a *answers) at(id uint16) *pending { return &a.ring[int(id)&(len(a.ring)-1)] }

// begin makes room for the answer of a command with n messages, which settle ends.
func (a *answers) begin(n int) (id uint16, err error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.n >= a.most {
		return 0, fatal("E_PUB_FAILED", "%d commands have no answer yet, as many as may be", a.n)
	}
	if a.n == len(a.ring) {
		ring := make([]pending, max(16, 2*len(a.ring)))
		for i := range a.n {
			at := a.first + uint16(i)
			ring[int(at)&(len(ring)-1)] = *a.at(at)
		}
		a.ring = ring
	}
	id = a.first + uint16(a.n)
	a.n++
	*a.at(id) = pending{left: n, kind: frameResponse, text: "OK"}
	return id, nil
}

// settle ends the wait of n messages of a command, and sends all answers that are
// due.
func (a *answers) settle(b *engine.Batch, id uint16, n int) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.at(id).left -= n
	a.send(b)
}

// fail has a command answered with an error.
func (a *answers) fail(id uint16, err error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	p := a.at(id)
	p.kind, p.text = frameError, err.Error()
}

// send sends the answers in front that wait for nothing. The lock is held.
func (a *answers) send(b *engine.Batch) {
	for a.n > 0 && a.at(a.first).left == 0 {
		p := a.at(a.first)
		if buf, ok := a.out.Lock(frameSize+len(p.text), true); ok {
			a.out.Unlock(b, appendFrame(buf, p.kind, p.text))
		}
		p.text = ""
		a.first++
		a.n--
	}
}

// answer answers a command that publishes nothing.
func (a *answers) answer(b *engine.Batch, kind byte, text string) {
	a.lock.Lock()
	waits := a.n > 0
	a.lock.Unlock()
	if !waits {
		if buf, ok := a.out.Lock(frameSize+len(text), true); ok {
			a.out.Unlock(b, appendFrame(buf, kind, text))
		}
		return
	}
	id, err := a.begin(1)
	if err != nil {
		return // as many wait as may, and the next PUB ends the connection
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	p := a.at(id)
	p.kind, p.text, p.left = kind, text, 0
	a.send(b)
}
