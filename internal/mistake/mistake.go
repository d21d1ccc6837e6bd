// Package mistake describes a mistake in a configuration, in one form for every program:
// the field, the value found and what was expected.
//
// What this package does not do: it knows no file. internal/plainyaml adds the line and
// column of the field.
package mistake

import "fmt"

// Mistake is one thing wrong with a configuration.
type Mistake struct {
	// Field names the field as configuration files do: upstreams[1].url.
	Field string
	// Value is what was found, empty if nothing was; Want what was expected.
	Value, Want string
}

// Error says what was found and what was expected.
func (m *Mistake) Error() string {
	if m.Value == "" {
		return fmt.Sprintf("%s: missing, expected %s", m.Field, m.Want)
	}
	return fmt.Sprintf("%s: %s, expected %s", m.Field, m.Value, m.Want)
}
