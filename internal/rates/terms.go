package rates

// SetTerms replaces the terms of all workflows, as if they had been in the Config
// from the start. Those that are not named in it any more have the zero Terms; those
// that nobody has heard of have theirs when they come. What was learned stays, and
// so do those who wait. Rates follow at the next OnWake: a limit that is below a new
// guarantee is lifted then, one above what the new terms leave comes down when
// something is short. With mistakes SetTerms returns all of them, and changes
// nothing.
func (a *Adapter) SetTerms(terms map[string]Terms) error {
	next := a.cfg
	next.Terms = terms
	next, err := next.withDefaults() // the rest was checked before
	if err != nil {
		return err
	}
	a.cfg.Terms = next.Terms
	for _, f := range a.flows {
		if f == nil {
			continue
		}
		if f.terms = next.Terms[f.name]; f.terms.Weight == 0 {
			f.terms.Weight = 1
		}
		f.local = max(f.local, f.terms.Guarantee)
	}
	return nil
}
