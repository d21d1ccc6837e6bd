package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// module is a parsed source tree.
type module struct {
	root string
	path string // the module path of go.mod
	fset *token.FileSet
	dirs map[string]*dir
	keys []string // of dirs, in the order of the walk, which is sorted
}

// dir is one directory with Go files.
type dir struct {
	path  string // relative to the root, with slashes; "." for the root
	files []*file
}

// file is one parsed Go file.
type file struct {
	path      string // relative to the root, with slashes
	ast       *ast.File
	test      bool // its name ends in _test.go
	generated bool // it carries the standard "DO NOT EDIT" line
}

// load parses every Go file of the module below root. It leaves out what the go
// command leaves out: testdata, hidden directories, modules of their own.
func load(root string) (*module, error) {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	m := &module{root: root, fset: token.NewFileSet(), dirs: map[string]*dir{}}
	for line := range strings.Lines(string(gomod)) {
		if rest, ok := strings.CutPrefix(line, "module "); ok {
			m.path = strings.Trim(strings.TrimSpace(rest), `"`)
		}
	}
	if m.path == "" {
		return nil, fmt.Errorf("lint: no module line in %s", filepath.Join(root, "go.mod"))
	}
	return m, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name == root {
				return nil
			}
			if base == "testdata" || base == "vendor" || base == "node_modules" || base[0] == '.' || base[0] == '_' {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || base[0] == '.' || base[0] == '_' {
			return nil
		}
		return m.add(name)
	})
}

// add parses one file into its directory.
func (m *module) add(name string) error {
	rel, err := filepath.Rel(m.root, name)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	parsed, err := parser.ParseFile(m.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	key := path.Dir(rel)
	d := m.dirs[key]
	if d == nil {
		d = &dir{path: key}
		m.dirs[key] = d
		m.keys = append(m.keys, key)
	}
	d.files = append(d.files, &file{
		path:      rel,
		ast:       parsed,
		test:      strings.HasSuffix(rel, "_test.go"),
		generated: ast.IsGenerated(parsed),
	})
	return nil
}

// local returns the directory that an import path of this module names.
func (m *module) local(importPath string) (dir string, ok bool) {
	if importPath == m.path {
		return ".", true
	}
	return strings.CutPrefix(importPath, m.path+"/")
}

// line returns the line of pos in its file.
func (m *module) line(pos token.Pos) int { return m.fset.Position(pos).Line }
