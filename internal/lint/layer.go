package lint

import (
	"slices"
	"strconv"
	"strings"
)

// layers checks every import against the rows and the named edges. Files of
// tests may import anything, except across [House.Apart].
func (c *checker) layers() {
	for _, key := range c.module.keys {
		d := c.module.dirs[key]
		row, _ := c.house.place(d.path)
		if row == nil {
			c.report(d.path, 0, Layer, "this directory has no place in the house; give it one in internal/lint/house.go")
			continue
		}
		for _, f := range d.files {
			for _, spec := range f.ast.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					continue // the parser has refused it already
				}
				if why := c.refuses(d.path, imported, f.test); why != "" {
					c.report(f.path, c.module.line(spec.Pos()), Layer, "%s", why)
				}
			}
		}
	}
}

// refuses says why a file in dir must not import the given path, or "".
func (c *checker) refuses(dir, imported string, test bool) string {
	row, entry := c.house.place(dir)
	to, local := c.module.local(imported)
	if !local {
		if foreign(imported) && !row.ThirdParty && !test {
			return "the " + row.Name + " import no third-party library, and " + imported + " is one"
		}
		return ""
	}
	for _, pair := range c.house.Apart {
		if covers(pair[0], dir) && covers(pair[1], to) || covers(pair[1], dir) && covers(pair[0], to) {
			return dir + " and " + to + " must not see each other, in tests neither"
		}
	}
	if test {
		return ""
	}
	toRow, toEntry := c.house.place(to)
	switch {
	case toRow == nil:
		return dir + " imports " + to + ", which has no place in the house"
	case entry == toEntry && strings.HasSuffix(entry, "/..."):
		return ""
	case slices.Contains(row.Imports, toRow.Name):
		return ""
	case c.house.edge(dir, to):
		return ""
	case row == toRow:
		return dir + " imports " + to + " of its own row (" + row.Name + ") and no edge names this"
	}
	return dir + " (" + row.Name + ") imports " + to + " (" + toRow.Name + "), which its row may not"
}

// foreign reports whether an import path outside the module is not one of the
// standard library, whose first elements have no dot.
func foreign(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(first, ".")
}
