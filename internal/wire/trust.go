package wire

// Untrusted returns what a server believes of tags whose sender it does not trust: what
// concerns this hop alone and can only shorten the sender's own request or fill its own
// window, and a token, which proves itself. Rank, progress, process and claim put a request
// before those of others, so they are gone.
func (t Tags) Untrusted() Tags {
	return Tags{
		Budget: t.Budget, Attempt: t.Attempt, Waited: t.Waited, Token: t.Token,
		Credits: t.Credits, Demand: t.Demand, Asks: t.Asks, Client: t.Client,
	}
}
