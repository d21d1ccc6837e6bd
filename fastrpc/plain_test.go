package fastrpc

import (
	"testing"

	"github.com/spillgate/spillgate/internal/credit"
)

// A server that has said in its preface that it has no credits, beside one that has, is not asked for them, however much it answers.
func TestServersWithoutCreditsAreNotAsked(t *testing.T) {
	_, address := serve(t, ServerConfig{}, echoes)
	c := dial(t, ClientConfig{}, address)
	l := c.routes.Load().links[0]
	for range 3 * plainForGood {
		l.heard(false, false)
	}
	permit, err := c.wallet.Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Return(0)
	if permit.Asks() {
		t.Error("the next call asks for credits, and what runs is limited until it is answered")
	}
}

// A server is told nothing in place of how many calls wait.
func TestUnheardIsNoDemand(t *testing.T) {
	_, address := serve(t, ServerConfig{}, echoes)
	c := dial(t, ClientConfig{}, address)
	l := c.routes.Load().links[0]
	l.wants(3)
	l.wants(credit.Unheard)
	if n := l.demand.Load(); n != 3 {
		t.Errorf("the server hears of %d calls that wait, expected 3", n)
	}
}
