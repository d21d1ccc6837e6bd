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
func (s *Said) Form(t *wire.Tags, form func(wire.Tags) any) any {
	if last := s.last.Load(); last != nil && last.tags == *t {
		return last.form
	}
	made := form(*t)
	if t.Budget == 0 { // else no two are the same
		s.last.Store(&said{*t, made})
	}
	return made
}

// Heard remembers the tags that a connection brought last, and what they were read from, which is a
// message of at most wire.MaxLen. It is ready as its zero value, and its methods may be called at once
// from any goroutine.
type Heard struct{ last atomic.Pointer[heard] }

type heard struct {
	text string
	tags wire.Tags
}

// Tags returns what parse makes of text. A nil h remembers nothing.
func (h *Heard) Tags(text string, parse func(string) (wire.Tags, error)) (wire.Tags, error) {
	if h == nil {
		return parse(text)
	}
	if last := h.last.Load(); last != nil && last.text == text {
		return last.tags, nil
	}
	tags, err := parse(text)
	if err == nil && tags.Budget == 0 { // else no two are the same
		h.last.Store(&heard{text, tags})
	}
	return tags, err
}
