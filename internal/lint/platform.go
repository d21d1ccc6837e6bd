package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Platform returns what does not type-check in the source tree below root, the directory of go.mod,
// as it is built without cgo for an operating system and an architecture, tests included. Of other
// modules and of the standard library it reads declarations alone. It compiles nothing, which takes
// a part of the time (5 s of a processor) and shows the same mistakes, but for those of assembly, of
// which the module has none.
//
// An error means that the go command could not list the packages, or that a file could not be
// parsed.
func Platform(root, goos, goarch string) ([]Finding, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	packages, err := list(root, goos, goarch)
	if err != nil {
		return nil, err
	}
	p := &platform{
		root: root, name: goos + "/" + goarch, sizes: types.SizesFor("gc", goarch),
		fset: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe},
	}
	for _, l := range packages {
		if err := p.check(l); err != nil {
			return nil, err
		}
	}
	return p.found, nil
}

// listed is what the go command says of a package. One with its tests is a package of its own, whose
// ImportPath says so, and ImportMap sends the imports of its external tests there.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
}

// list returns all packages that the module needs, each behind what it imports.
func list(root, goos, goarch string) (all []listed, err error) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s/%s: %w\n%s", goos, goarch, err, said.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var l listed
		if err := d.Decode(&l); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// platform is one run of Platform.
type platform struct {
	root, name string
	sizes      types.Sizes
	fset       *token.FileSet
	done       map[string]*types.Package
	found      []Finding
}

// check type-checks a package whose imports are done.
func (p *platform) check(l listed) error {
	if l.ImportPath == "unsafe" || strings.HasSuffix(l.ImportPath, ".test") { // the programs of tests are generated
		return nil
	}
	var files []*ast.File
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	ours := l.Module != nil && l.Module.Main
	config := types.Config{
		IgnoreFuncBodies: !ours, Sizes: p.sizes,
		Importer: importing(func(path string) (*types.Package, error) {
			if other, ok := l.ImportMap[path]; ok {
				path = other
			}
			if pkg := p.done[path]; pkg != nil {
				return pkg, nil
			}
			return nil, fmt.Errorf("%s is not listed", path)
		}),
		Error: func(err error) { p.report(err) },
	}
	p.done[l.ImportPath], _ = config.Check(l.ImportPath, p.fset, files, nil) // its error is the first of those reported
	return nil
}

func (p *platform) report(err error) {
	f := Finding{File: "go.mod", Rule: Type, Text: fmt.Sprintf("for %s: %v", p.name, err)}
	if e, ok := err.(types.Error); ok {
		at := p.fset.Position(e.Pos)
		f.File, f.Line, f.Text = at.Filename, at.Line, fmt.Sprintf("for %s: %s", p.name, e.Msg)
		if short, err := filepath.Rel(p.root, at.Filename); err == nil && filepath.IsLocal(short) {
			f.File = filepath.ToSlash(short)
		}
	}
	if !slices.Contains(p.found, f) { // a package is checked once more with its tests
		p.found = append(p.found, f)
	}
}

// importing is a function as an importer.
type importing func(path string) (*types.Package, error)

func (i importing) Import(path string) (*types.Package, error) { return i(path) }
