package search

import (
	"strings"

	"github.com/spillgate/spillgate/internal/culprit"
)

// The resources of a cluster. Their order is part of every recorded sample: append only.
const (
	searchPool = iota
	writePool
	getPool
	processor
	heap
)

var resources = []culprit.Resource{
	searchPool: {Name: "search threads", Kind: culprit.Queue},
	writePool:  {Name: "write threads", Kind: culprit.Queue},
	getPool:    {Name: "get threads", Kind: culprit.Queue},
	processor:  {Name: "processor", Kind: culprit.System},
	heap:       {Name: "heap", Kind: culprit.System},
}

// poolNames are the servers' names of the pools, by resource.
var poolNames = [...]string{searchPool: "search", writePool: "write", getPool: "get"}

// isSearch reports whether a task is a search, or a part of one.
func isSearch(action string) bool { return strings.HasPrefix(action, "indices:data/read/search") }

// poolOf returns the pool whose threads run a part of a task; false for an action that only
// starts parts and gathers their answers.
func poolOf(action string) (pool int, ok bool) {
	switch {
	case strings.HasPrefix(action, "indices:data/read/search["):
		return searchPool, true
	case strings.HasPrefix(action, "indices:data/write/") && strings.HasSuffix(action, "]"):
		return writePool, true
	case strings.HasPrefix(action, "indices:data/read/get["), strings.HasPrefix(action, "indices:data/read/mget["):
		return getPool, true
	}
	return 0, false
}
