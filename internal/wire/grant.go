package wire

import "time"

// Grant is what a server tells one client about its credits. The newest grant
// wins: see Newer.
type Grant struct {
	// Epoch tells apart the lives of a server: grants of another epoch than the
	// current one are from before a restart or a reconnect.
	Epoch uint32
	// Seq counts the grants to one client within an epoch and wraps around.
	Seq uint32
	// Window is the most requests the client may have outstanding.
	Window uint32
	// Revive is how long a client whose window is zero and who hears nothing
	// more waits until it may send one request unasked. It keeps a client alive
	// whose grant was lost or who has no channel for grants without a reply.
	Revive time.Duration
	// Objective is the latency objective of the server, up to MaxDuration, zero if
	// it does not say. What a wait for a credit is worth follows from it, also where
	// the caller's deadline is far.
	Objective time.Duration
	// Part is how much of the window is for requests of the workflow of the one that is
	// answered, beside the Part of other workflows: requests that wait for credits go
	// in this proportion. From 0 to MaxRate, in steps of 1/1024; zero if the server does
	// not say.
	Part float64
}

// Newer reports whether g was made after h, by the same life of a server.
func (g Grant) Newer(h Grant) bool { return int32(g.Seq-h.Seq) > 0 }
