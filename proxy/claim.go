package proxy

import (
	"context"
	"net/http"
)

// purpose is what a request is for that is sent to an upstream which is out.
type purpose uint8

const (
	nothingElse purpose = iota
	aProbe
	aGlance
)

// claimed is what a request has claimed to be for an upstream, where it was chosen. It is of the request's goroutine, and
// goes with the request: others may be sent to the upstream before it is.
type claimed struct {
	by   *upstream
	what purpose
}

type claimKey struct{}

// mayClaim returns r, or with room for a claim if one of the upstreams is out.
func mayClaim(all []*upstream, r *http.Request) *http.Request {
	if len(all) == 1 {
		return r // it is chosen anyway
	}
	for _, u := range all {
		if u.health.isOut.Load() {
			return r.WithContext(context.WithValue(r.Context(), claimKey{}, new(claimed)))
		}
	}
	return r
}

// claimOf returns where r may claim something, nil if it may not.
func claimOf(r *http.Request) *claimed {
	c, _ := r.Context().Value(claimKey{}).(*claimed)
	return c
}

// at returns what was claimed for u, and ends it. c may be nil.
func (c *claimed) at(u *upstream) purpose {
	if c == nil || c.by != u {
		return nothingElse
	}
	what := c.what
	*c = claimed{}
	return what
}
