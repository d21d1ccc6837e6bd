package config

import (
	"context"
	"crypto/sha256"
	"os"
	"time"
)

// Watch tells apply of every change of the file at path since it was loaded as
// from, until ctx ends: the new File, or every mistake in it. It looks at the
// file's time and size every poll, which works on every file system and through
// the symbolic links that container platforms swap, and reads it when they
// differ or when force receives. A file whose contents are as they were is not
// told, unless forced: a forced look rereads the files it names as well.
//
// Watch returns when ctx ends. apply is called on its goroutine.
func Watch(ctx context.Context, path string, from *File, poll time.Duration, force <-chan os.Signal, apply func(*File, error)) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var stat os.FileInfo
	sum := from.sum
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-force:
			forced = true
		case <-ticker.C:
		}
		now, err := os.Stat(path)
		if !forced && (err != nil || same(stat, now)) {
			continue // a file that is gone for a moment is being replaced
		}
		data, err := read(path)
		if err == nil {
			stat = now
			next := sha256.Sum256(data)
			if next == sum && !forced {
				continue
			}
			sum = next
		} else if !forced {
			continue
		}
		apply(Load(path))
	}
}

// same reports whether nothing says that the file changed.
func same(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
