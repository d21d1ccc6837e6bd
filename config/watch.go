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
// told, unless forced: a forced look rereads the files it names as well. While the file has a
// mistake, it is read again every poll, because what it names, such as a certificate, may come later
// than the file; only a mistake that was not told before is told.
//
// Watch returns when ctx ends. apply is called on its goroutine.
func Watch(ctx context.Context, path string, from *File, poll time.Duration, force <-chan os.Signal, apply func(*File, error)) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var stat os.FileInfo
	sum, failed := from.sum, "" // the error that was told last; empty: none
	look := func(again bool) {
		f, err := Load(path)
		was := failed
		if failed = ""; err != nil {
			failed = err.Error()
		}
		if !again || failed != was {
			apply(f, err)
		}
	}
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
			if err == nil && failed != "" {
				look(true)
			}
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
		look(false)
	}
}

// same reports whether nothing says that the file changed.
func same(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
