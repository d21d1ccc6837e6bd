package tuning

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is whose source is looked at.
const module = "github.com/spillgate/spillgate"

// source is a package, parsed and checked.
type source struct {
	fset  *token.FileSet
	path  string
	files []*ast.File
	names []string // of the files
	texts [][]byte
	types *types.Package
	info  *types.Info
}

// tree is the packages of the core and what they import of the module, those
// imported first.
type tree struct {
	dir      string // of the module
	fset     *token.FileSet
	packages []*source
	known    map[string]*types.Package
	others   types.Importer
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
}

// read parses and checks packages of the module, given below it. It needs the go command
// and the source tree, and says so where one is missing.
func read(ctx context.Context, packages []string) (*tree, error) {
	dir, err := command(ctx, "", "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	if err != nil {
		return nil, fmt.Errorf("the constants are found in the source: run this in the source tree of %s, with the go command: %w", module, err)
	}
	name, where, _ := strings.Cut(strings.TrimSpace(string(dir)), " ")
	if name != module || where == "" {
		return nil, fmt.Errorf("the module of this directory is %q, expected the source tree of %s", name, module)
	}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	out, err := command(ctx, where, args...)
	if err != nil {
		return nil, err
	}
	t := &tree{dir: where, fset: token.NewFileSet(), known: map[string]*types.Package{}}
	exports := map[string]string{}
	t.others = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var l listed
		if err := decoder.Decode(&l); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if exports[l.ImportPath] = l.Export; strings.HasPrefix(l.ImportPath, module) {
			if err := t.add(&l); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (t *tree) add(l *listed) error {
	s := &source{fset: t.fset, path: l.ImportPath}
	for _, name := range l.GoFiles {
		name = filepath.Join(l.Dir, name)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(t.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.files, s.names, s.texts = append(s.files, file), append(s.names, name), append(s.texts, text)
	}
	t.packages = append(t.packages, s)
	var err error
	s.types, s.info, err = t.check(s, t.known)
	t.known[s.path] = s.types
	return err
}

// importing finds packages among those known, else among those that are compiled.
type importing struct {
	*tree
	known map[string]*types.Package
}

func (i importing) Import(path string) (*types.Package, error) {
	if p := i.known[path]; p != nil {
		return p, nil
	}
	return i.others.Import(path)
}

// check checks the types of a package as it stands now.
func (t *tree) check(s *source, known map[string]*types.Package) (*types.Package, *types.Info, error) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	cfg := types.Config{Importer: importing{t, known}}
	p, err := cfg.Check(s.path, t.fset, s.files, info)
	return p, info, err
}

// text is a part of the source.
func (s *source) text(n ast.Node) string {
	for i, f := range s.files {
		if f.FileStart <= n.Pos() && n.End() <= f.FileEnd {
			return string(s.texts[i][n.Pos()-f.FileStart : n.End()-f.FileStart])
		}
	}
	return ""
}

// command runs the go command and returns what it prints.
func command(ctx context.Context, dir string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	out, err := c.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
