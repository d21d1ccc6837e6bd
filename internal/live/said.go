package live

import (
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/wire"
)

// Said remembers the tags that travelled to a server last, in the form in which its edge sends
// them: most requests say the same as the one before. It is ready as its zero value, and its
// methods may be called at once from any goroutine.
type Said struct{ last atomic.Pointer[said] }

type said struct {
	tags wire.Tags
	form any
}

// Form returns what form makes of t, which nobody may write to.
func (s *Said) Form(t *wire.Tags, form func(*wire.Tags) any) any {
	if last := s.last.Load(); last != nil && last.tags == *t {
		return last.form
	}
	made := &said{tags: *t, form: form(t)}
	s.last.Store(made)
	return made.form
}

// Heard remembers the tags that a connection brought last, and what they were read from. It is
// ready as its zero value, and its methods may be called at once from any goroutine.
type Heard struct{ last atomic.Pointer[heard] }

type heard struct {
	text string
	tags wire.Tags
	err  error
}

// Tags returns what wire.ParseTags makes of text.
func (h *Heard) Tags(text string) (wire.Tags, error) {
	if last := h.last.Load(); last != nil && last.text == text {
		return last.tags, last.err
	}
	made := &heard{text: text}
	made.tags, made.err = wire.ParseTags([]byte(text))
	h.last.Store(made)
	return made.tags, made.err
}
