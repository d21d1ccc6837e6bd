package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// impureImports brings a clock, a lock, I/O or chance into a package. An entry
// also covers what lies below it, except for math/rand, whose second version
// can be used with a seed.
var impureImports = []string{
	"C", "context", "crypto/rand", "expvar", "flag", "hash/maphash", "log", "math/rand", "net", "os", "plugin",
	"runtime", "sync", "syscall", "testing", "unsafe",
}

// impureFuncs are functions and variables of otherwise harmless packages.
var impureFuncs = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "LoadLocation", "Local"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"iter": {"Pull", "Pull2"},
}

// seeded is what a pure package may use of math/rand/v2: all that takes its
// chance from a source it was given.
var seeded = []string{"Rand", "New", "PCG", "NewPCG", "ChaCha8", "NewChaCha8", "Source", "Zipf", "NewZipf"}

// purity checks the packages of pure rows, tests left out.
func (c *checker) purity() {
	load := newTypeLoader(c.module)
	for _, key := range c.module.keys {
		d := c.module.dirs[key]
		row, _ := c.house.place(d.path)
		if row == nil || !row.Pure {
			continue
		}
		for _, f := range d.files {
			if !f.test {
				c.impure(f)
			}
		}
		checked := load.check(d)
		for _, err := range checked.errs {
			at := c.module.fset.Position(err.Pos)
			file := path.Join(d.path, filepath.Base(at.Filename))
			c.report(file, at.Line, Type, "cannot be type-checked, so its purity is unknown: %s", err.Msg)
		}
		for _, f := range checked.files {
			c.uses(f, checked.info)
			c.ordered(f, checked.info)
		}
		c.state(checked)
	}
}

// impure checks what the syntax alone tells, on every platform's files.
func (c *checker) impure(f *file) {
	for _, spec := range f.ast.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		for _, bad := range impureImports {
			if imported == bad || bad != "math/rand" && strings.HasPrefix(imported, bad+"/") {
				c.report(f.path, c.module.line(spec.Pos()), Import, "a pure package does not import %s", imported)
			}
		}
	}
	ast.Inspect(f.ast, func(node ast.Node) bool {
		var what string
		switch node := node.(type) {
		case *ast.GoStmt:
			what = "starts no goroutine"
		case *ast.ChanType:
			what = "has no channel"
		case *ast.SelectStmt:
			what = "has no select"
		case *ast.FuncDecl:
			if node.Recv == nil && node.Name.Name == "init" {
				c.report(f.path, c.module.line(node.Pos()), State, "a pure package does no work in init")
			}
		}
		if what != "" {
			c.report(f.path, c.module.line(node.Pos()), Pure, "a pure package %s", what)
		}
		return true
	})
}

// uses checks which objects of other packages a file refers to. It follows
// types, so an alias or a dot import hides nothing.
func (c *checker) uses(f *file, info *types.Info) {
	ast.Inspect(f.ast, func(node ast.Node) bool {
		id, ok := node.(*ast.Ident)
		if !ok {
			return true
		}
		switch object := info.Uses[id].(type) {
		case *types.Builtin:
			if name := object.Name(); name == "print" || name == "println" {
				c.report(f.path, c.module.line(id.Pos()), Pure, "a pure package does not use %s", name)
			}
		case *types.Func, *types.Var, *types.TypeName:
			pkg := object.Pkg()
			if pkg == nil || object.Parent() != pkg.Scope() {
				return true // a method, a field or something local
			}
			name := object.Name()
			if slices.Contains(impureFuncs[pkg.Path()], name) {
				c.report(f.path, c.module.line(id.Pos()), Pure, "a pure package does not use %s.%s", pkg.Name(), name)
			}
			if pkg.Path() == "math/rand/v2" && !slices.Contains(seeded, name) {
				c.report(f.path, c.module.line(id.Pos()), Pure, "a pure package takes chance from a seeded *rand.Rand, not from rand.%s", name)
			}
		}
		return true
	})
}

// orderMark excuses a line that walks a map: //lint:ordered and a reason.
const orderMark = "//lint:ordered"

// ordered finds walks over maps: range statements, and the iterators of package
// maps unless they go straight into a function of package slices that sorts.
func (c *checker) ordered(f *file, info *types.Info) {
	excused := map[int]bool{}
	for _, group := range f.ast.Comments {
		for _, comment := range group.List {
			if reason, ok := strings.CutPrefix(comment.Text, orderMark); ok {
				line := c.module.line(comment.Pos())
				excused[line] = true
				if strings.TrimSpace(reason) == "" {
					c.report(f.path, line, Order, "%s needs a reason: why can the order not matter?", orderMark)
				}
			}
		}
	}
	complain := func(pos token.Pos, what string) {
		if line := c.module.line(pos); !excused[line] {
			c.report(f.path, line, Order, "%s, whose order is random; sort first, or end the line with %s and the reason", what, orderMark)
		}
	}
	sorted := map[ast.Node]bool{}
	ast.Inspect(f.ast, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.RangeStmt:
			if t := info.TypeOf(node.X); t != nil && hasMap(t) {
				complain(node.Pos(), "ranges over a map")
			}
		case *ast.CallExpr:
			name, ok := callee(node, info)
			if !ok {
				return true
			}
			switch name {
			case "slices.Sorted", "slices.SortedFunc", "slices.SortedStableFunc":
				sorted[ast.Unparen(node.Args[0])] = true
			case "maps.All", "maps.Keys", "maps.Values":
				if !sorted[node] {
					complain(node.Pos(), "iterates over a map with "+name)
				}
			}
		}
		return true
	})
}

// hasMap reports whether values of type t, or of a type in its type set, are
// maps.
func hasMap(t types.Type) bool {
	if param, ok := types.Unalias(t).(*types.TypeParam); ok {
		constraint := param.Underlying().(*types.Interface)
		for i := range constraint.NumEmbeddeds() {
			if hasMap(constraint.EmbeddedType(i)) {
				return true
			}
		}
		return false
	}
	switch t := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Union:
		for i := range t.Len() {
			if hasMap(t.Term(i).Type()) {
				return true
			}
		}
	case *types.Interface:
		for i := range t.NumEmbeddeds() {
			if hasMap(t.EmbeddedType(i)) {
				return true
			}
		}
	}
	return false
}

// callee returns "package.Function" for a call of a function of a package.
func callee(call *ast.CallExpr, info *types.Info) (name string, ok bool) {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) { // explicit type arguments
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	var id *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return "", false
	}
	object, ok := info.Uses[id].(*types.Func)
	if !ok || object.Pkg() == nil || object.Signature().Recv() != nil {
		return "", false
	}
	return object.Pkg().Path() + "." + object.Name(), true
}
