package catalogue

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is what sort of instrument a metric is.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Instrument is one metric as the source makes it.
type Instrument struct {
	// Name is its OpenTelemetry name.
	Name string
	Kind Kind
	// Unit is "s" or empty.
	Unit string
	// Meaning is its description.
	Meaning string
	// At is the place in the source.
	At string
}

// Prometheus returns the name under which a Prometheus endpoint shows the instrument.
func (i Instrument) Prometheus() string {
	name := strings.ReplaceAll(i.Name, ".", "_")
	if i.Unit == "s" {
		name += "_seconds"
	}
	if i.Kind == Counter {
		name += "_total"
	}
	return name
}

// method matches the methods of an OpenTelemetry meter that make instruments, and telemetry.Timer.
var method = regexp.MustCompile(`^(?:Int64|Float64)(?:Observable)?(Counter|Gauge|UpDownCounter|Histogram)$|^Timer$`)

// scan returns the instruments that the packages in dirs, below root, make, or every place
// that it cannot read. It follows constants, functions that make an instrument out of
// their parameters, and loops over tables.
func scan(root string, dirs ...string) (all []Instrument, err error) {
	var errs []error
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("catalogue: no source in %s (%v)", dir, err)
		}
		s := scanner{fset: token.NewFileSet(), texts: map[string]string{}}
		var parsed []*ast.File
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			parsed = append(parsed, file)
			s.constants(file)
		}
		for _, file := range parsed {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
					s.function(f)
				}
			}
		}
		all, errs = append(all, s.found...), append(errs, s.errs...)
	}
	slices.SortFunc(all, func(a, b Instrument) int { return strings.Compare(a.Name, b.Name) })
	all = slices.CompactFunc(all, func(a, b Instrument) bool { return a.Name == b.Name && a.Kind == b.Kind && a.Unit == b.Unit })
	for i := range all {
		at, err := filepath.Rel(root, all[i].At)
		if err == nil {
			all[i].At = filepath.ToSlash(at)
		}
	}
	return all, errors.Join(errs...)
}

// scanner reads one package.
type scanner struct {
	fset  *token.FileSet
	texts map[string]string // of constants
	found []Instrument
	errs  []error
}

func (s *scanner) constants(file *ast.File) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, value := range v.Values {
				if text, ok := s.text(value, nil); ok {
					s.texts[v.Names[i].Name] = text
				}
			}
		}
	}
}

// helper is a function inside of a function that makes an instrument.
type helper struct {
	params []string
	call   *ast.CallExpr
}

// function finds the instruments of one function.
func (s *scanner) function(f *ast.FuncDecl) {
	helpers := map[string]helper{}
	inside := map[*ast.CallExpr]bool{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
			return true
		}
		name, isName := assign.Lhs[0].(*ast.Ident)
		lit, isLit := assign.Rhs[0].(*ast.FuncLit)
		if !isName || !isLit {
			return true
		}
		h := helper{}
		for _, field := range lit.Type.Params.List {
			for _, p := range field.Names {
				h.params = append(h.params, p.Name)
			}
		}
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && instrumentOf(call) != "" && h.call == nil {
				if _, known := s.text(call.Args[0], nil); !known {
					h.call, inside[call] = call, true
				}
			}
			return true
		})
		if h.call != nil {
			helpers[name.Name] = h
		}
		return true
	})
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if loop, ok := n.(*ast.RangeStmt); ok {
			s.table(loop, inside)
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || inside[call] {
			return true
		}
		if name, ok := call.Fun.(*ast.Ident); ok && helpers[name.Name].call != nil {
			h := helpers[name.Name]
			env := map[string]string{}
			for i, arg := range call.Args {
				if text, ok := s.text(arg, nil); ok && i < len(h.params) {
					env[h.params[i]] = text
				}
			}
			s.add(call, h.call, env)
		} else if instrumentOf(call) != "" {
			s.add(call, call, nil)
		}
		return true
	})
}

// table finds the instruments that a loop makes of the rows of a table in its head:
//
//	for _, c := range [...]struct{ name, meaning string }{{"a", "b"}} {
//		meter.Int64Counter(c.name, metric.WithDescription(c.meaning))
func (s *scanner) table(loop *ast.RangeStmt, inside map[*ast.CallExpr]bool) {
	row, ok := loop.Value.(*ast.Ident)
	rows, isTable := loop.X.(*ast.CompositeLit)
	if !ok || !isTable {
		return
	}
	array, ok := rows.Type.(*ast.ArrayType)
	if !ok {
		return
	}
	fields, ok := array.Elt.(*ast.StructType)
	if !ok {
		return
	}
	var names []string
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			names = append(names, row.Name+"."+name.Name)
		}
	}
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || instrumentOf(call) == "" {
			return true
		}
		inside[call] = true
		for _, e := range rows.Elts {
			values, ok := e.(*ast.CompositeLit)
			if !ok {
				continue
			}
			env := map[string]string{}
			for i, v := range values.Elts {
				if text, ok := s.text(v, nil); ok && i < len(names) {
					env[names[i]] = text
				}
			}
			s.add(call, call, env)
		}
		return true
	})
}

// instrumentOf returns the kind of instrument that a call makes, empty if none.
func instrumentOf(call *ast.CallExpr) Kind {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	switch found := method.FindStringSubmatch(sel.Sel.Name); {
	case found == nil:
		return ""
	case found[1] == "Counter":
		return Counter
	case found[1] == "Histogram", found[0] == "Timer":
		return Histogram
	}
	return Gauge
}

// add takes the instrument that call makes, at the place of from, with env for the
// parameters.
func (s *scanner) add(from, call *ast.CallExpr, env map[string]string) {
	name, ok := s.text(call.Args[0], env)
	if !ok {
		s.errs = append(s.errs, fmt.Errorf("%s: the name of an instrument is no constant", s.fset.Position(from.Pos())))
		return
	}
	i := Instrument{Name: name, Kind: instrumentOf(call), At: s.fset.Position(from.Pos()).Filename}
	if sel := call.Fun.(*ast.SelectorExpr); sel.Sel.Name == "Timer" && len(call.Args) > 1 {
		i.Unit = "s"
		i.Meaning, _ = s.text(call.Args[1], env)
	}
	for _, arg := range call.Args[1:] {
		option, ok := arg.(*ast.CallExpr)
		if !ok || len(option.Args) != 1 {
			continue
		}
		sel, ok := option.Fun.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		text, _ := s.text(option.Args[0], env)
		switch sel.Sel.Name {
		case "WithUnit":
			i.Unit = text
		case "WithDescription":
			i.Meaning = text
		}
	}
	s.found = append(s.found, i)
}

// text returns the value of an expression of strings.
func (s *scanner) text(e ast.Expr, env map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.Ident:
		if text, ok := env[e.Name]; ok {
			return text, true
		}
		text, ok := s.texts[e.Name]
		return text, ok
	case *ast.SelectorExpr: // a field of a row of a table
		if of, ok := e.X.(*ast.Ident); ok {
			text, ok := env[of.Name+"."+e.Sel.Name]
			return text, ok
		}
	case *ast.BinaryExpr:
		left, ok1 := s.text(e.X, env)
		right, ok2 := s.text(e.Y, env)
		return left + right, ok1 && ok2 && e.Op == token.ADD
	}
	return "", false
}
