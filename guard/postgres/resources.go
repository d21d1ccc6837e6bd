package postgres

import (
	"strings"

	"github.com/spillgate/spillgate/internal/culprit"
)

// The resources of a PostgreSQL server. Their order is part of every recorded
// sample: append only.
const (
	tableLock = iota
	rowLock
	advisoryLock
	otherLock
	wal
	storage
	buffers
	processor
	internals
	versions
	connections
)

var resources = []culprit.Resource{
	tableLock:    {Name: "lock: table", Kind: culprit.Lock},
	rowLock:      {Name: "lock: row", Kind: culprit.Lock},
	advisoryLock: {Name: "lock: advisory", Kind: culprit.Lock},
	otherLock:    {Name: "lock: other", Kind: culprit.Lock},
	wal:          {Name: "write-ahead log", Kind: culprit.System},
	storage:      {Name: "storage", Kind: culprit.System},
	buffers:      {Name: "buffers", Kind: culprit.System},
	processor:    {Name: "processor", Kind: culprit.System},
	internals:    {Name: "internals", Kind: culprit.System},
	versions:     {Name: "row versions", Kind: culprit.Memory},
	connections:  {Name: "connections", Kind: culprit.Queue},
}

// resourceOf returns the lock resource of a lock type, which is also the wait event
// of its waiters.
func resourceOf(locktype string) int {
	switch locktype {
	case "relation", "extend", "page", "frozenid":
		return tableLock
	case "transactionid", "tuple", "spectoken", "speculative token":
		return rowLock
	case "advisory":
		return advisoryLock
	}
	return otherLock
}

// sampled returns the resource that a session waits for by its wait event, if it is
// one whose begin no view tells.
func sampled(waitType, wait string) (resource int, ok bool) {
	switch waitType {
	case "LWLock", "IO", "BufferPin", "Buffer":
	default:
		return 0, false // Client, Activity, Timeout, IPC, Extension: not waited for others
	}
	switch {
	case strings.HasPrefix(wait, "WAL"), strings.HasPrefix(wait, "Wal"):
		return wal, true
	case waitType == "BufferPin", waitType == "Buffer", strings.HasPrefix(wait, "Buffer") && waitType == "LWLock":
		return buffers, true
	case waitType == "IO":
		return storage, true
	}
	return internals, true
}
