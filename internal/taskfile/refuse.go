package taskfile

import (
	"errors"
	"fmt"
)

// ErrRefused is what every refusal of a file is, to errors.Is.
var ErrRefused = errors.New("taskfile: file refused")

// Refusal says why a file is not used. Nothing in the file was changed.
type Refusal struct {
	// Word is the reason, from the table in tracer/FORMAT.md.
	Word string
	// Path is the file's.
	Path string
	// Detail names the value, and what was expected.
	Detail string
}

func (r *Refusal) Error() string {
	where := ""
	if r.Path != "" {
		where = " " + r.Path
	}
	return fmt.Sprintf("taskfile:%s refused (%s): %s", where, r.Word, r.Detail)
}

// Is reports whether target is ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

func refuse(word, format string, args ...any) error {
	return &Refusal{Word: word, Detail: fmt.Sprintf(format, args...)}
}

// located adds the path to a refusal.
func located(err error, path string) error {
	var r *Refusal
	if errors.As(err, &r) && r.Path == "" {
		r.Path = path
	}
	return err
}
