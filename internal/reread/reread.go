// Package reread loads certificates, authorities and passwords again when their files
// change.
//
//	files ──changed?──▶ load ──▶ take
//	                     └─ error ──▶ log; what was taken before stays
//
// Invariants: a change is recognized by the content of the files, not by their times. If
// files do not match, for example because only one of a pair has been replaced yet, the
// loaded ones stay.
//
// What this package does not do: it starts nothing. Watch runs on the goroutine of its
// caller.
package reread

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"sync"
	"time"
)

// poll is how often Watch looks at files. Each look reads them.
const poll = 10 * time.Second

// File looks at the files of one thing. Its methods may be called from any goroutine.
type File struct {
	what  string
	whose []any    // of the log
	files []string // some may be empty
	load  func() (taken []any, err error)

	mu   sync.Mutex
	seen [sha256.Size]byte // of the files when they were read
	// failed is why they were not taken then; empty: they were. It is tried again until they are: what was wrong may not
	// have been the files.
	failed string
}

// New describes something that was made of files a moment ago. load makes it again and
// takes it, and returns what the log says about it; what, such as "certificates",
// names it there, with whose.
func New(what string, files []string, load func() (taken []any, err error), whose ...any) *File {
	f := &File{what: what, whose: whose, files: files, load: load}
	f.seen = f.sum()
	return f
}

// sum is that of all that the files hold. One that cannot be read counts as empty.
func (f *File) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, name := range f.files {
		if name == "" {
			continue
		}
		text, _ := os.ReadFile(name)
		one := sha256.Sum256(text)
		h.Write(one[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Look reads the files again if they changed, or were not taken when they did. The log is told of a failure once.
func (f *File) Look(log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.sum()
	if sum == f.seen && f.failed == "" {
		return
	}
	log = log.With(f.whose...)
	taken, err := f.load()
	if err != nil {
		if sum != f.seen || err.Error() != f.failed {
			log.Error(f.what+" not taken; the old ones stay", "error", err)
		}
		f.seen, f.failed = sum, err.Error()
		return
	}
	f.seen, f.failed = sum, ""
	log.Info(f.what+" read again", taken...)
}

// Watch calls look every poll until ctx ends.
func Watch(ctx context.Context, look func()) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			look()
		}
	}
}
