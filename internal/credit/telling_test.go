package credit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// believer is what a client of TestTelling believes.
type believer struct {
	c     *Client
	knows int // its window; -1: nothing
	quiet int // replies since a grant
}

// reply ends a request of b, and reports whether its reply carried a grant.
func (b *believer) reply(t *testing.T, p *Pool, now mono.Time, asked bool) (told bool) {
	t.Helper()
	g := p.OnReply(now, b.c)
	if told = p.Tells(b.c, asked, false); told {
		b.knows, b.quiet = int(g.Window), 0
	} else {
		b.quiet++
	}
	switch w := b.c.Window(); {
	case asked && !told:
		t.Errorf("a reply to a request that asks carries no grant")
	case b.knows > w || b.knows < 0:
		t.Errorf("the client believes in %d credits after a reply, it has %d", b.knows, w)
	case w-b.knows > b.knows/tellGrowth:
		t.Errorf("the client believes in %d credits and has %d, more than an eighth more", b.knows, w)
	case b.c.Demand() > 0 && b.knows < w:
		t.Errorf("requests wait at a client that believes in %d credits and has %d", b.knows, w)
	case b.quiet >= tellEvery:
		t.Errorf("%d replies without a grant", b.quiet)
	}
	return told
}

// TestTelling: whatever happens at a pool, what its clients were told is what they have, but for a
// growth that nobody waits for. Grants without a reply arrive or are lost.
func TestTelling(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p, err := NewPool(Config{TargetDelay: 8 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(time.Second)
		var all []*believer
		for range 1 + rng.IntN(12) {
			all = append(all, &believer{c: p.Register(now), knows: -1})
		}
		for range 2000 {
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(200*time.Microsecond)))
			b := all[rng.IntN(len(all))]
			switch {
			case b.c.Pending() > 0 && rng.IntN(2) == 0:
				b.reply(t, p, now, rng.IntN(20) == 0)
			default:
				p.OnRequest(now, b.c, rng.IntN(4)*rng.IntN(20))
			}
			p.OnWake(now, time.Duration(rng.Float64()*float64(12*time.Millisecond)))
			for c, g, ok := p.NextGrant(); ok; c, g, ok = p.NextGrant() {
				for _, a := range all {
					if a.c == c && rng.IntN(2) == 0 {
						a.knows = int(g.Window)
					}
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestSteadyClientsHearLittle: a client in flight at a server without overload is told a grant with
// one reply in tellEvery, or few more.
func TestSteadyClientsHearLittle(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: 40 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	b := &believer{c: p.Register(now), knows: -1}
	const flight, replies = 64, 20_000
	for range flight {
		p.OnRequest(now, b.c, 0)
	}
	if !b.reply(t, p, now, false) {
		t.Error("the first reply carries no grant")
	}
	told := 0
	for range replies {
		p.OnRequest(now, b.c, 0)
		now = now.Add(50 * time.Microsecond)
		p.OnWake(now, 0)
		if b.reply(t, p, now, false) {
			told++
		}
	}
	if least, most := replies/tellEvery, replies/tellEvery*2; told < least || told > most {
		t.Errorf("%d of %d replies carried a grant, want %d to %d", told, replies, least, most)
	}
}
