package lint

import (
	"go/ast"
	"go/token"
	"go/types"
)

// state checks the variables at package level. Allowed are
//
//   - the blank identifier, as in a check that a type has an interface;
//   - an error made by errors.New or fmt.Errorf;
//   - an unexported array, slice or map literal: a table.
//
// What is allowed must not be written to inside its package either: assigned,
// stepped, addressed, cleared, deleted from or copied into, whole or in part.
// A write through an alias or in a callee is not seen.
func (c *checker) state(p *checkedPackage) {
	tables := map[types.Object]bool{}
	for _, f := range p.files {
		for _, decl := range f.ast.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if name.Name == "_" {
						continue
					}
					tables[p.info.Defs[name]] = true
					if len(spec.Values) != len(spec.Names) || !constantEnough(name, spec.Values[i], p.info) {
						c.report(f.path, c.module.line(name.Pos()), State,
							"%s is a variable of the package; allowed are errors and unexported array, slice and map literals", name.Name)
					}
				}
			}
		}
	}
	for _, f := range p.files {
		ast.Inspect(f.ast, func(node ast.Node) bool {
			for _, target := range written(node, p.info) {
				if id := rootIdent(target); id != nil && tables[p.info.Uses[id]] {
					c.report(f.path, c.module.line(id.Pos()), State, "%s belongs to the package and is written to here", id.Name)
				}
			}
			return true
		})
	}
}

// constantEnough reports whether a package variable with this value is an error
// or a table.
func constantEnough(name *ast.Ident, value ast.Expr, info *types.Info) bool {
	switch value := ast.Unparen(value).(type) {
	case *ast.CallExpr:
		called, _ := callee(value, info)
		return called == "errors.New" || called == "fmt.Errorf"
	case *ast.CompositeLit:
		t := info.TypeOf(value)
		if t == nil || name.IsExported() {
			return false
		}
		switch t.Underlying().(type) {
		case *types.Array, *types.Slice, *types.Map:
			return true
		}
	}
	return false
}

// written returns the expressions that a node writes to.
func written(node ast.Node, info *types.Info) []ast.Expr {
	switch node := node.(type) {
	case *ast.AssignStmt:
		if node.Tok != token.DEFINE {
			return node.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{node.X}
	case *ast.RangeStmt:
		if node.Tok == token.ASSIGN {
			return []ast.Expr{node.Key, node.Value}
		}
	case *ast.UnaryExpr:
		if node.Op == token.AND {
			return []ast.Expr{node.X}
		}
	case *ast.CallExpr:
		id, ok := ast.Unparen(node.Fun).(*ast.Ident)
		if !ok || len(node.Args) == 0 {
			return nil
		}
		if builtin, ok := info.Uses[id].(*types.Builtin); ok {
			switch builtin.Name() {
			case "clear", "copy", "delete":
				return node.Args[:1]
			}
		}
	}
	return nil
}

// rootIdent returns the variable that an expression such as x.f[i] is part of.
func rootIdent(expr ast.Expr) *ast.Ident {
	for {
		switch e := expr.(type) {
		case *ast.Ident:
			return e
		case *ast.ParenExpr:
			expr = e.X
		case *ast.SelectorExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.SliceExpr:
			expr = e.X
		case *ast.StarExpr:
			expr = e.X
		default:
			return nil
		}
	}
}
