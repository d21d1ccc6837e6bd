package mapped

import (
	"errors"
	"net/url"
	"os"
	"time"
)

// ErrThere is that a task file that was missing can be read by now: whoever asks the server instead is better opened again.
var ErrThere = errors.New("the task file can be read now; the server is not asked any more")

// Absent is a task file that a source was told of and could not read. The zero Absent is of a source that was told of none.
type Absent struct {
	path string
	why  error
}

// Existing becomes the engine of a file that the server has made: one of this process's making could be of another user. If
// it cannot, or path is "", it returns no file and what is missing.
func Existing(path string, objective time.Duration) (*File, Absent) {
	if path == "" {
		return nil, Absent{}
	}
	_, err := os.Stat(path)
	if err == nil {
		var f *File
		if f, err = Attach(path, objective); err == nil {
			return f, Absent{}
		}
	}
	return nil, Absent{path, err}
}

// Note says why the file is not read, "" if there is none to read.
func (a *Absent) Note() string {
	if a.path == "" {
		return ""
	}
	return "the task file is not read, and the server is asked instead: " + a.why.Error()
}

// Alive returns ErrThere once the file can be read: a server makes it as it starts.
func (a *Absent) Alive() error {
	f, still := Existing(a.path, time.Second)
	if f == nil {
		if still.path != "" {
			a.why = still.why
		}
		return nil
	}
	f.Close()
	return ErrThere
}

// Told takes the parameter tasks, the path of a task file, out of a URL. Path is "" if there is none; a URL that cannot be read
// is returned as it is.
func Told(text string) (without, path string) {
	u, err := url.Parse(text)
	if err != nil || !u.Query().Has("tasks") {
		return text, ""
	}
	q := u.Query()
	path = q.Get("tasks")
	q.Del("tasks")
	u.RawQuery = q.Encode()
	return u.String(), path
}
