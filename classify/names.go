package classify

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// MaxNames is the most names that Names remembers.
	MaxNames = 1024
	// nameKeep is how long a name is remembered after its last request. It is what
	// a gate keeps the number of a workflow for.
	nameKeep = time.Minute
	// nameProbes is how many names are looked at to find one that was not heard for
	// that long. The next new name looks at the next ones.
	nameProbes = 8
)

// Names is a bounded set of workflows that no rule lists: the first that come, as
// long as they come. Whoever can choose its name can fill it, and has the share of
// as many workflows as it makes. Its methods may be called at once from any
// goroutine, and on a nil Names, which has no room.
type Names struct {
	max   int
	known atomic.Pointer[map[string]*name] // replaced, never changed

	mu   sync.Mutex // of what follows and of replacing known
	all  []*name
	hand int
}

type name struct {
	text  string
	heard atomic.Int64 // mono.Time
}

// NewNames returns an empty set of at most max names, or of MaxNames if that is
// less.
func NewNames(max int) *Names {
	n := &Names{max: min(max, MaxNames)}
	n.known.Store(&map[string]*name{})
	return n
}

// Keep reports whether text is in the set, putting it there if there is room.
func (n *Names) Keep(now mono.Time, text string) bool {
	if n == nil || n.max <= 0 {
		return false
	}
	if have := (*n.known.Load())[text]; have != nil {
		have.hear(now)
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known := *n.known.Load()
	if have := known[text]; have != nil {
		have.hear(now)
		return true
	}
	at := len(n.all)
	if at < n.max {
		n.all = append(n.all, nil)
	} else if at = n.silent(now); at < 0 {
		return false
	}
	next := maps.Clone(known)
	if old := n.all[at]; old != nil {
		delete(next, old.text)
	}
	// The header that it is part of is not kept alive.
	fresh := &name{text: strings.Clone(text)}
	fresh.heard.Store(int64(now))
	n.all[at], next[fresh.text] = fresh, fresh
	n.known.Store(&next)
	return true
}

// Len returns the number of names in the set.
func (n *Names) Len() int {
	if n == nil {
		return 0
	}
	return len(*n.known.Load())
}

// hear notes that a request of that name came. Once a second is enough, and spares
// the processors a fight over the word.
func (n *name) hear(now mono.Time) {
	if now.Sub(mono.Time(n.heard.Load())) >= time.Second {
		n.heard.Store(int64(now))
	}
}

// silent returns the place of a name that can be forgotten, -1 if none is found at
// once.
func (n *Names) silent(now mono.Time) int {
	for range min(nameProbes, len(n.all)) {
		n.hand = (n.hand + 1) % len(n.all)
		if now.Sub(mono.Time(n.all[n.hand].heard.Load())) >= nameKeep {
			return n.hand
		}
	}
	return -1
}
