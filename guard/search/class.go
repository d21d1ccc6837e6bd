package search

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/culprit"
)

// sort is what an action is taken for.
type sort struct {
	class      statement.Class
	bar        culprit.Bar
	background bool // has no latency objective
}

// sorts are by prefix of an action; the first that fits counts.
var sorts = []struct {
	prefix string
	sort
}{
	{"indices:data/read/xpack/ccr", sort{statement.Replication, culprit.Replication, true}},
	{"indices:data/read/plugins/replication", sort{statement.Replication, culprit.Replication, true}},
	{"indices:data/write/plugins/replication", sort{statement.Replication, culprit.Replication, true}},
	{"indices:data/write/bulk_shard_operations", sort{statement.Replication, culprit.Replication, true}},
	{"indices:data/write/reindex", sort{statement.Write, culprit.NotBarred, true}},
	{"indices:data/write/update/byquery", sort{statement.Write, culprit.NotBarred, true}},
	{"indices:data/write/delete/byquery", sort{statement.Write, culprit.NotBarred, true}},
	{"indices:data/write", sort{statement.Write, culprit.NotBarred, false}},
	{"indices:data/read", sort{statement.Select, culprit.NotBarred, false}},
	{"indices:admin/forcemerge", sort{statement.Vacuum, culprit.Maintenance, true}},
	{"indices:admin", sort{statement.Schema, culprit.Schema, true}},
	{"cluster:admin/snapshot", sort{statement.Backup, culprit.Backup, true}},
}

// sortOf returns the sort of an action. An unknown one is left alone.
func sortOf(action string) sort {
	for _, s := range sorts {
		if strings.HasPrefix(action, s.prefix) {
			return s.sort
		}
	}
	return sort{statement.Other, culprit.Maintenance, true}
}

// routeOf names the requests that a proxy in front of the cluster is to keep out with a task, "" if it cannot tell
// them from others: bulk requests, because these cannot be cancelled. Other requests of one path differ by their
// bodies, which a proxy does not read.
func routeOf(action, indices string) string {
	if action != "indices:data/write/bulk" {
		return ""
	}
	path := "/_bulk"
	if indices != "" && !strings.ContainsAny(indices, ", ") {
		path = "/" + indices + path
	}
	return httpgate.Kind(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
}
