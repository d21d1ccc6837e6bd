package share

// AppendVerdicts appends what is known of up to n keys, those learned last first,
// for display. A negative n is all of them.
func (c *Classifier) AppendVerdicts(to []Verdict, n int) []Verdict {
	for slot := c.newest; slot >= 0 && n != 0; slot = c.slots[slot].older {
		to = append(to, c.Explain(c.slots[slot].key))
		n--
	}
	return to
}
