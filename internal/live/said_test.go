package live

import (
	"errors"
	"testing"

	"github.com/spillgate/spillgate/internal/wire"
)

// TestSaid: the same tags are encoded once, others anew, and those with a budget each time.
func TestSaid(t *testing.T) {
	var s Said
	made := 0
	form := func(t wire.Tags) any { made++; return string(t.Append(nil)) }
	for i, step := range []struct {
		tags wire.Tags
		made int
	}{
		{wire.Tags{Credits: true}, 1}, {wire.Tags{Credits: true}, 1}, {wire.Tags{Credits: true, Demand: 1}, 2},
		{wire.Tags{Credits: true}, 3}, {wire.Tags{Budget: 9}, 4}, {wire.Tags{Budget: 9}, 5}, {wire.Tags{Credits: true}, 5},
	} {
		if got := s.Form(&step.tags, form); got != string(step.tags.Append(nil)) || made != step.made {
			t.Errorf("step %d: %q after %d encodings, want those of %+v after %d", i, got, made, step.tags, step.made)
		}
	}
}

// TestHeard: the same text is read once, and what cannot be read each time.
func TestHeard(t *testing.T) {
	read := 0
	parse := func(text string) (wire.Tags, error) {
		read++
		if text == "bad" {
			return wire.Tags{}, errors.New("bad")
		}
		return wire.Tags{Workflow: text}, nil
	}
	var h Heard
	for i, step := range []struct {
		h    *Heard
		text string
		read int
	}{{&h, "a", 1}, {&h, "a", 1}, {&h, "bad", 2}, {&h, "bad", 3}, {&h, "a", 3}, {&h, "b", 4}, {nil, "b", 5}} {
		tags, err := step.h.Tags(step.text, parse)
		if bad := step.text == "bad"; read != step.read || (err != nil) != bad || !bad && tags.Workflow != step.text {
			t.Errorf("step %d: %+v, %v after %d readings, want %q after %d", i, tags, err, read, step.text, step.read)
		}
	}
}
