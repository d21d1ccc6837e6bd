package live

import "github.com/spillgate/spillgate/internal/rates"

// SetTerms replaces the weights and guarantees of all workflows at the gate's rates,
// while it runs: see rates.Adapter.SetTerms. Nobody who is inside or waits notices,
// and nothing that was learned is lost. SetShare is its counterpart for the slots.
// With mistakes, of which it returns all, and without Config.Rates it changes
// nothing.
func (g *Gate) SetTerms(terms map[string]rates.Terms) error {
	g.mu.Lock()
	now := g.now()
	err := g.node.SetTerms(now, terms)
	g.finish(now)
	return err
}
