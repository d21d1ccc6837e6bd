package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// selfEvident are methods that their interface documents.
var selfEvident = []string{"Error", "Unwrap", "String", "Len", "Less", "Swap"}

// docs checks that every directory has exactly one package comment, and that
// exported declarations and the fields of configurations carry a comment.
// Generated files and tests are left out; a directory of nothing but tests
// still needs its package comment.
func (c *checker) docs() {
	for _, key := range c.module.keys {
		d := c.module.dirs[key]
		files := slices.DeleteFunc(slices.Clone(d.files), func(f *file) bool { return f.test })
		if len(files) == 0 {
			files = d.files
		}
		c.packageComment(d, files)
		for _, f := range files {
			if f.generated || f.test {
				continue
			}
			for _, decl := range f.ast.Decls {
				c.declared(f, decl)
			}
		}
	}
}

func (c *checker) packageComment(d *dir, files []*file) {
	var first *file
	for _, f := range files {
		if f.ast.Doc == nil || f.generated {
			continue
		}
		if first != nil {
			c.report(f.path, c.module.line(f.ast.Doc.Pos()), Doc, "a second package comment; the first is in %s", first.path)
			continue
		}
		first = f
		name := f.ast.Name.Name
		if text := f.ast.Doc.Text(); name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
			c.report(f.path, c.module.line(f.ast.Doc.Pos()), Doc, "the package comment should begin with \"Package %s \"", name)
		}
	}
	if first == nil {
		c.report(d.path, 0, Doc, "no package comment: what it decides, the picture, the invariants, what it does not do")
	}
}

// declared checks one declaration at package level.
func (c *checker) declared(f *file, decl ast.Decl) {
	missing := func(pos token.Pos, kind, name string) {
		c.report(f.path, c.module.line(pos), Doc, "exported %s %s has no comment", kind, name)
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		name := decl.Name.Name
		if !ast.IsExported(name) || decl.Doc != nil {
			return
		}
		if decl.Recv == nil {
			missing(decl.Pos(), "function", name)
		} else if receiver := receiverName(decl); ast.IsExported(receiver) && !slices.Contains(selfEvident, name) {
			missing(decl.Pos(), "method", receiver+"."+name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if !ast.IsExported(spec.Name.Name) {
					continue
				}
				if spec.Doc == nil && spec.Comment == nil && (decl.Lparen.IsValid() || decl.Doc == nil) {
					missing(spec.Pos(), "type", spec.Name.Name)
				}
				c.configFields(f, spec)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() && spec.Doc == nil && spec.Comment == nil && decl.Doc == nil {
						missing(name.Pos(), decl.Tok.String(), name.Name)
					}
				}
			}
		}
	}
}

// configFields checks that each exported field of an exported ...Config says
// what it is. Fields on neighbouring lines may share the comment above the
// first if it names them.
func (c *checker) configFields(f *file, spec *ast.TypeSpec) {
	body, ok := spec.Type.(*ast.StructType)
	if !ok || !strings.HasSuffix(spec.Name.Name, "Config") {
		return
	}
	shared, end := "", 0
	for _, field := range body.Fields.List {
		if field.Doc != nil {
			shared = field.Doc.Text()
		} else if c.module.line(field.Pos()) > end+1 {
			shared = ""
		}
		end = c.module.line(field.End())
		for _, name := range field.Names {
			if name.IsExported() && field.Doc == nil && field.Comment == nil && !mentions(shared, name.Name) {
				c.report(f.path, c.module.line(name.Pos()), Doc, "field %s.%s has no comment: unit, default, what larger and smaller do", spec.Name.Name, name.Name)
			}
		}
	}
}

// mentions reports whether a text contains a word.
func mentions(text, word string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.Contains(words, word)
}

// receiverName returns the name of a method's receiver type.
func receiverName(decl *ast.FuncDecl) string {
	expr := decl.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
