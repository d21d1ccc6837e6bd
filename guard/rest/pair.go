package rest

// Pair is two clients of one server: one looks, and the other acts, which must not wait behind a look.
type Pair struct{ Looks, Acts *Client }

// Both returns a pair that has not connected yet.
func Both(t *Target) Pair { return Pair{New(t), New(t)} }

// Close ends the connections of both.
func (p Pair) Close() {
	p.Looks.Close()
	p.Acts.Close()
}
