// Package wire is what travels between a client and a server beside the request
// itself: remaining budget, workflow, class and demand on the way there; credits,
// progress and the reason of a refusal on the way back.
package wire
