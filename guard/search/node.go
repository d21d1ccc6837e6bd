package search

import (
	"strings"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
)

// describe describes a task of a node whose plugin, tracer/opensearch or tracer/elasticsearch, writes a task file, by the name of its kind,
// "read/search docs bool range(n) x1000", which is an action, indices and the shape of the request.
func describe(kind uint64, name string) track.Session {
	action, rest, _ := strings.Cut(name, " ")
	indices, _, _ := strings.Cut(rest, " ")
	action = "indices:data/" + action
	what := statement.Statement{Fingerprint: kind, Text: name, Class: sortOf(action).class}
	route := ""
	if !strings.ContainsAny(indices, "?*") { // the name has no numbers of indices, and the path has
		route = routeOf(action, indices)
	}
	return track.Session{Database: indices, Statement: what, State: action, Route: route, Nameless: name == ""}
}
