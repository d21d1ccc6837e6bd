package lint

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// typeLoader type-checks directories of the module: its own packages from
// source, the standard library from the compiler's export data.
type typeLoader struct {
	module  *module
	std     types.Importer
	done    map[string]*checkedPackage
	running map[string]bool
}

// checkedPackage is the part of a directory that is built on this platform,
// without tests. With errs, info is incomplete.
type checkedPackage struct {
	pkg   *types.Package
	info  *types.Info
	files []*file
	errs  []types.Error
}

func newTypeLoader(m *module) *typeLoader {
	return &typeLoader{
		module:  m,
		std:     importer.ForCompiler(m.fset, "gc", exportData(m)),
		done:    map[string]*checkedPackage{},
		running: map[string]bool{},
	}
}

// exportData returns what opens what the compiler says of a package of the standard library. It asks the go command, which
// knows its root also where the test was built without paths, and once for all of those that the module imports, and what
// they need: each question takes a tenth of a second.
func exportData(m *module) func(importPath string) (io.ReadCloser, error) {
	exports := sync.OnceValues(func() (map[string]string, error) {
		args := []string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
		for _, d := range m.dirs {
			for _, f := range d.files {
				for _, i := range f.ast.Imports {
					p := strings.Trim(i.Path.Value, "\"")
					if _, ours := m.local(p); !ours && !foreign(p) && p != "C" && !slices.Contains(args, p) {
						args = append(args, p)
					}
				}
			}
		}
		out, err := exec.Command("go", args...).Output()
		if err != nil {
			return nil, fmt.Errorf("go list -export: %w", err)
		}
		all := map[string]string{}
		for line := range strings.Lines(string(out)) {
			path, export, _ := strings.Cut(strings.TrimSpace(line), " ")
			all[path] = export
		}
		return all, nil
	})
	return func(importPath string) (io.ReadCloser, error) {
		all, err := exports()
		if err != nil {
			return nil, err
		}
		if all[importPath] == "" {
			return nil, fmt.Errorf("the standard library has no package %s", importPath)
		}
		return os.Open(all[importPath])
	}
}

// check type-checks d and, first, the packages of the module that it imports.
func (l *typeLoader) check(d *dir) *checkedPackage {
	if p := l.done[d.path]; p != nil {
		return p
	}
	l.running[d.path] = true
	defer delete(l.running, d.path)

	p := &checkedPackage{info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}}
	var parsed []*ast.File
	for _, f := range d.files {
		full := filepath.Join(l.module.root, filepath.FromSlash(f.path))
		if built, err := build.Default.MatchFile(filepath.Dir(full), filepath.Base(full)); f.test || !built || err != nil {
			continue
		}
		p.files = append(p.files, f)
		parsed = append(parsed, f.ast)
	}
	config := types.Config{
		Importer: l,
		Error: func(err error) {
			if e, ok := err.(types.Error); ok && !e.Soft {
				p.errs = append(p.errs, e)
			}
		},
	}
	// The error is the first of those that went to config.Error.
	p.pkg, _ = config.Check(path.Join(l.module.path, d.path), l.module.fset, parsed, p.info)
	l.done[d.path] = p
	return p
}

// Import implements types.Importer.
func (l *typeLoader) Import(importPath string) (*types.Package, error) {
	dir, ok := l.module.local(importPath)
	if !ok && foreign(importPath) {
		return nil, fmt.Errorf("not in the standard library")
	}
	if !ok {
		return l.std.Import(importPath)
	}
	d := l.module.dirs[dir]
	switch {
	case d == nil:
		return nil, fmt.Errorf("no Go files in %s", dir)
	case l.running[dir]:
		return nil, fmt.Errorf("import cycle through %s", dir)
	}
	return l.check(d).pkg, nil
}
