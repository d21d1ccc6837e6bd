package mariadb

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// lately is for how long statements of a kind that has begun again and again are expected to go on to: where all
// wait for one, none begins, and those that wait are statements such as begin all the time. It is as long as
// a track.Cost takes to believe what it sees, and longer than a culprit is to last.
const lately = 2 * time.Second

// kinds are those of statements that began lately.
type kinds map[uint64]beginnings

// beginnings are the last two times that statements of a kind were seen to begin; before is 0 if that was once.
type beginnings struct{ at, before mono.Time }

// look forgets what was long ago, at a look at an instant.
func (k kinds) look(at mono.Time) {
	for kind, b := range k {
		if at.Sub(b.at) > lately {
			delete(k, kind)
		}
	}
}

// began enters a statement that was not there at the look before.
func (k kinds) began(kind uint64, at mono.Time) { k[kind] = beginnings{at, k[kind].at} }

// usual reports whether a statement of a kind has begun at the look at an instant, or two have lately.
func (k kinds) usual(kind uint64, at mono.Time) bool {
	b, there := k[kind]
	return there && (b.at == at || b.before != 0 && b.at.Sub(b.before) <= lately)
}
