package audit

import (
	"io"
	"os"
	"slices"
)

// Mode is that of the files of audit logs: what they say of requests is for their owner.
const Mode os.FileMode = 0o600

// Append opens the file of a log to append to, and makes it with that mode if it is not there. A last line that a crash
// or a full disk has cut off gets its end, so that the next is a line of its own.
func Append(path string, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	if cutOff(path) {
		if _, err := f.WriteString("\n"); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

// cutOff reports whether a file has a last line without an end.
func cutOff(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Lines writes whole lines to a log. A line that a failed write has cut off gets its end before the next one. It is not
// safe for concurrent use.
type Lines struct {
	to   io.Writer
	torn bool // the last line may lack its end
}

// NewLines returns Lines that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{to: w} }

// Append writes lines, each with its end. An error is that of the writer; the lines are lost then, at least in part.
func (l *Lines) Append(lines []byte) error {
	if l.torn {
		lines = slices.Concat([]byte("\n"), lines)
	}
	n, err := l.to.Write(lines)
	l.torn = err != nil && (l.torn || n > 0)
	return err
}
