// Package lint decides whether the module's source keeps the rules of the
// house: which package may import which, what a pure package may touch, how
// declarations are documented, and which words stay out of the project.
//
//	source tree ──parse──▶ packages ──┬── layer   the order of imports
//	                                  ├── import, pure, order, state, type
//	                                  │           what pure packages may do
//	                                  └── doc     package and declaration comments
//	            ──read───▶ text files ─── word    what no file may mention
//
// The rules' subject, the rows of the house and the exceptions to them, is one
// value, [Spillgate]; the rest of the package would check any other house. The
// package's own test runs it over the module, so a violation fails the build.
//
// Every file is parsed whatever its build constraints, so that a rule cannot be
// broken on one platform only. Pure packages are also type-checked, for this
// platform: the rules about maps and functions follow types and not spelling.
// [Platform] type-checks all packages and their tests for another platform.
//
// What this package does not do: it proves nothing about behaviour. A pure
// package could still keep state behind a pointer that aliases a table, or let
// the order of a map escape through a standard-library function that is not
// listed here. It says nothing about tests except that sim and live stay apart.
package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule names one kind of finding, as it is printed and as fixtures expect it.
type Rule string

// The rules.
const (
	// Layer: an import that the rows and edges of the house do not allow.
	Layer Rule = "layer"
	// Import: a pure package imports what brings a clock, a lock, I/O or chance.
	Import Rule = "import"
	// Pure: a pure package uses a goroutine, a channel or a forbidden function.
	Pure Rule = "pure"
	// Order: a pure package depends on the order in which a map is walked.
	Order Rule = "order"
	// State: a pure package has a variable, or work, at package level.
	State Rule = "state"
	// Type: a pure package could not be type-checked, so nothing is known, or any package
	// does not type-check on another platform.
	Type Rule = "type"
	// Doc: a comment that should be there is missing, or there are two.
	Doc Rule = "doc"
	// Word: a file mentions what the project does not speak of.
	Word Rule = "word"
)

// Finding is one violation. Line is 0 if the whole file or directory is meant.
type Finding struct {
	File string // relative to the root, with slashes
	Line int
	Rule Rule
	Text string // what is wrong, and what to do about it
}

// String formats f as a compiler would, so that editors can jump to it.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s: %s", f.File, f.Rule, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Rule, f.Text)
}

// Check returns what violates house in the source tree below root, the
// directory of go.mod, sorted by place. An error means that the tree could not
// be read or parsed, and then nothing is known about it.
func Check(root string, house House) ([]Finding, error) {
	m, err := load(root)
	if err != nil {
		return nil, err
	}
	c := &checker{house: house, module: m}
	c.layers()
	c.purity()
	c.docs()
	if err := c.words(); err != nil {
		return nil, err
	}
	slices.SortFunc(c.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(c.found), nil
}

// checker carries one run.
type checker struct {
	house  House
	module *module
	found  []Finding
}

func (c *checker) report(file string, line int, rule Rule, format string, args ...any) {
	c.found = append(c.found, Finding{file, line, rule, fmt.Sprintf(format, args...)})
}
