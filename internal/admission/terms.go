package admission

import (
	"errors"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
)

// SetTerms replaces the terms of all workflows at the gate's rates: see
// rates.Adapter.SetTerms. With mistakes, and for a gate without Config.Rates, it
// returns an error and changes nothing.
func (g *Gate) SetTerms(now mono.Time, terms map[string]rates.Terms) error {
	if g.shaper == nil {
		return errors.New("admission: the gate has no Rates, so there are no terms to set: give it a Config.Rates")
	}
	return g.shaper.at(now).SetTerms(terms)
}
