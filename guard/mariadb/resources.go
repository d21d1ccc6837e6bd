package mariadb

import "github.com/spillgate/spillgate/internal/culprit"

// The resources of a server. Their order is part of every recorded sample: append only.
const (
	rowLock = iota
	metadataLock
	backupLock
	userLock
	flush
	threads
	storage
	processor
	versions
	internals
	connections
)

var resources = []culprit.Resource{
	rowLock:      {Name: "lock: row", Kind: culprit.Lock},
	metadataLock: {Name: "lock: table", Kind: culprit.Lock},
	backupLock:   {Name: "lock: backup", Kind: culprit.Lock},
	userLock:     {Name: "lock: user", Kind: culprit.Lock},
	flush:        {Name: "lock: flush", Kind: culprit.Lock},
	threads:      {Name: "thread pool", Kind: culprit.Queue},
	storage:      {Name: "storage", Kind: culprit.System},
	processor:    {Name: "processor", Kind: culprit.System},
	versions:     {Name: "row versions", Kind: culprit.Memory},
	internals:    {Name: "internals", Kind: culprit.System},
	connections:  {Name: "connections", Kind: culprit.Queue},
}

// resourceOf returns the resource of a kind of object in metadata_locks.
func resourceOf(kind string) int {
	switch kind {
	case "BACKUP", "GLOBAL", "COMMIT", "BACKUP LOCK":
		return backupLock
	case "USER LEVEL LOCK", "USER LOCK":
		return userLock
	}
	return metadataLock
}
