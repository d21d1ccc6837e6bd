package tuning

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path"
	"strconv"
	"strings"
	"time"
)

// number is a numeric constant of the source: one with a name, or a literal in an
// expression.
type number struct {
	name  string // package.name, or package.function: the expression around the literal
	file  string // with its line, below internal
	value string
	pos   token.Pos
	end   token.Pos
	// spec and at say which value of a declaration it is; lit is the literal else.
	spec   *ast.ValueSpec
	at     int
	lit    *ast.BasicLit
	object types.Object // of a named one
	// bounds says that it is part of the size of an array, directly or not.
	bounds bool
	tries  []try
}

// try is another value of a number.
type try struct {
	larger bool
	text   string // as an expression, in the place of the number's
	shown  string
}

// id names a try to the compiled copy.
func (n *number) id(t *try) string {
	if t.larger {
		return n.file + " " + n.name + " larger"
	}
	return n.file + " " + n.name + " smaller"
}

// numbers finds the numeric constants of a package: every declared one that is not part
// of an enumeration, and every literal in an expression other than 0, 1 and 2, which
// stand in formulas, sizes of arrays, shifts and masks, and tables of numbers.
func numbers(p *source) []*number {
	var found []*number
	for i, file := range p.files {
		find := finder{source: p, name: p.names[i]}
		ast.Walk(&find, file)
		found = append(found, find.found...)
	}
	seen := map[string]int{}
	for _, n := range found {
		if seen[n.file+n.name]++; seen[n.file+n.name] > 1 {
			n.name += fmt.Sprintf(" (%d)", seen[n.file+n.name])
		}
	}
	return found
}

// finder walks a file.
type finder struct {
	*source
	name     string
	function string
	around   []ast.Node
	found    []*number
}

// Visit looks at a node, and goes on below it where there may be constants.
func (f *finder) Visit(n ast.Node) ast.Visitor {
	if n == nil {
		f.around = f.around[:len(f.around)-1]
		return nil
	}
	switch n := n.(type) {
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			for _, s := range n.Specs {
				f.declared(s.(*ast.ValueSpec))
			}
			return nil
		}
	case *ast.FuncDecl:
		f.function = n.Name.Name
	case *ast.ArrayType:
		return nil
	case *ast.CompositeLit:
		if len(n.Elts) > 4 && len(f.around) < 4 { // a table of the package
			return nil
		}
	case *ast.BinaryExpr:
		switch n.Op {
		case token.SHL, token.SHR, token.AND, token.OR, token.XOR, token.REM:
			return nil
		}
	case *ast.BasicLit:
		f.literal(n)
		return nil
	}
	f.around = append(f.around, n)
	return f
}

// declared takes the values of a declaration of constants. Without a value they repeat
// the one before, and with iota they count: an enumeration.
func (f *finder) declared(s *ast.ValueSpec) {
	for i, name := range s.Names {
		if i >= len(s.Values) || name.Name == "_" {
			continue
		}
		object := f.info.Defs[name]
		value := object.(*types.Const).Val()
		if value.Kind() != constant.Int && value.Kind() != constant.Float || counts(s.Values[i]) {
			continue
		}
		n := f.at(s.Values[i])
		n.name, n.spec, n.at, n.object = path.Base(f.path)+"."+name.Name, s, i, object
		n.tries = tries(value, object.Type(), f.text(s.Values[i]))
		n.value = shown(value, object.Type())
		f.found = append(f.found, n)
	}
}

// counts reports whether iota is part of an expression.
func counts(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == "iota" {
			found = true
		}
		return true
	})
	return found
}

func (f *finder) literal(lit *ast.BasicLit) {
	if lit.Kind != token.INT && lit.Kind != token.FLOAT || strings.HasPrefix(lit.Value, "0x") {
		return
	}
	// A number of times a duration is a number.
	kind := types.Type(types.Typ[f.info.Types[lit].Type.Underlying().(*types.Basic).Kind()])
	value := f.info.Types[lit].Value
	if v, _ := constant.Float64Val(constant.ToFloat(value)); v == 0 || v == 1 || v == 2 {
		return
	}
	n := f.at(lit)
	expression := f.around[len(f.around)-1]
	for i := len(f.around) - 1; i >= 0; i-- {
		if _, ok := f.around[i].(ast.Expr); !ok {
			break
		}
		if e := f.around[i]; e.End()-e.Pos() < 60 {
			expression = e
		}
	}
	text := f.text(expression)
	if len(text) >= 60 {
		text = f.text(lit)
	}
	n.name, n.lit = fmt.Sprintf("%s.%s: %s", path.Base(f.path), f.function, text), lit
	n.tries, n.value = tries(value, kind, lit.Value), lit.Value
	f.found = append(f.found, n)
}

func (f *finder) at(e ast.Expr) *number {
	return &number{file: fmt.Sprintf("%s/%s:%d", path.Base(f.path), path.Base(f.name), f.fset.Position(e.Pos()).Line), pos: e.Pos(), end: e.End()}
}

// tries returns half and twice the value of a constant. Integers are rounded up, and
// at least 1. What is near 1 is a share, or a factor: there what is missing to 1, or what is
// above it, is halved and doubled.
func tries(value constant.Value, kind types.Type, text string) []try {
	basic, _ := kind.Underlying().(*types.Basic)
	_, named := kind.(*types.Named)
	v, _ := constant.Float64Val(constant.ToFloat(value))
	if v <= 0 {
		return nil
	}
	if basic.Info()&types.IsInteger != 0 {
		whole, two := constant.ToInt(value), constant.MakeInt64(2)
		half := constant.BinaryOp(constant.BinaryOp(whole, token.ADD, constant.MakeInt64(1)), token.QUO_ASSIGN, two)
		double := constant.BinaryOp(whole, token.MUL, two)
		all := []try{{false, half.ExactString(), shown(half, kind)}, {true, double.ExactString(), shown(double, kind)}}
		if named {
			all[0].text, all[1].text = "("+text+")/2", "("+text+")*2"
		}
		if v <= 1 { // half of it, rounded up, is the same
			return all[1:]
		}
		return all
	}
	less, more := v/2, 2*v
	switch {
	case v == 0.5:
		more = 0.75
	case v > 0.5 && v < 1:
		less, more = max(1-2*(1-v), v/2), 1-(1-v)/2
	case v > 1 && v < 2:
		less, more = 1+(v-1)/2, 1+(v-1)*2
	}
	write := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	return []try{{false, float(less), write(less)}, {true, float(more), write(more)}}
}

// float writes v as a constant that is not an integer.
func float(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// shown is a value as the table shows it.
func shown(v constant.Value, kind types.Type) string {
	if named, ok := kind.(*types.Named); ok && named.Obj().Name() == "Duration" {
		ns, _ := constant.Int64Val(constant.ToInt(v))
		return time.Duration(ns).String()
	}
	f, _ := constant.Float64Val(constant.ToFloat(v))
	return strconv.FormatFloat(f, 'g', 6, 64)
}
