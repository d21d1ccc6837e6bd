package tuning

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Moved names the environment variable that tells the compiled copy which constant is
// moved, and which way.
const Moved = "SPILLGATE_TUNING"

// site is a constant expression where it is used: the largest one, so that it has the
// type of its context.
type site struct {
	source *source
	expr   ast.Expr
	// values are what it comes to when a number is moved, by the id of the try.
	values map[string]constant.Value
}

// plan is what the player plays.
type plan struct {
	tree    *tree
	core    []*source
	numbers []*number
	sites   []*site
	invalid map[string]string // tries that do not compile, and why
}

// prepare finds the numbers of the core, and what each moves.
func prepare(ctx context.Context, core []string) (*plan, error) {
	t, err := read(ctx, core)
	if err != nil {
		return nil, err
	}
	var own []*source
	for _, s := range t.packages {
		if slices.Contains(core, strings.TrimPrefix(s.path, module+"/")) {
			own = append(own, s)
		}
	}
	return planOf(t, own), nil
}

func planOf(t *tree, core []*source) *plan {
	p := &plan{tree: t, core: core, invalid: map[string]string{}}
	for _, s := range core {
		p.numbers = append(p.numbers, numbers(s)...)
		p.sites = append(p.sites, sites(s)...)
	}
	for _, n := range p.numbers {
		n.bounds = p.bounds(n)
		for i := range n.tries {
			p.move(n, &n.tries[i])
		}
	}
	return p
}

// sites finds the constant expressions of a package that are computed with, outside of
// declarations of constants and of sizes of arrays.
func sites(s *source) (found []*site) {
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				return n.Tok != token.CONST
			case *ast.ArrayType:
				return false
			case ast.Expr:
				tv := s.info.Types[n]
				if tv.Value == nil {
					return true
				}
				basic, ok := tv.Type.Underlying().(*types.Basic)
				if !ok || basic.Info()&types.IsNumeric == 0 || basic.Info()&types.IsUntyped != 0 {
					return true
				}
				found = append(found, &site{s, n, map[string]constant.Value{}})
				return false
			}
			return true
		})
	}
	return found
}

// bounds reports whether a number is part of the size of an array. Only then does the
// type of something depend on it.
func (p *plan) bounds(n *number) bool {
	part := map[types.Object]bool{n.object: n.object != nil}
	for again := true; again; {
		again = false
		for _, s := range p.core {
			for _, f := range s.files {
				ast.Inspect(f, func(node ast.Node) bool {
					if spec, ok := node.(*ast.ValueSpec); ok {
						for i, v := range spec.Values {
							if o, ok := s.info.Defs[spec.Names[min(i, len(spec.Names)-1)]].(*types.Const); ok && !part[o] && uses(s, v, part) {
								part[o], again = true, true
							}
						}
					}
					return true
				})
			}
		}
	}
	for _, s := range p.core {
		for _, f := range s.files {
			found := false
			ast.Inspect(f, func(node ast.Node) bool {
				if a, ok := node.(*ast.ArrayType); ok && a.Len != nil && uses(s, a.Len, part) {
					found = true
				}
				return !found
			})
			if found {
				return true
			}
		}
	}
	return false
}

func uses(s *source, e ast.Expr, part map[types.Object]bool) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && part[s.info.Uses[id]] && s.info.Uses[id] != nil {
			found = true
		}
		return !found
	})
	return found
}

// move finds what every site comes to with a try in the place of its number: it is put
// there, the types are checked again, and it is taken out.
func (p *plan) move(n *number, t *try) {
	undo, err := n.put(t)
	if err != nil {
		p.invalid[n.id(t)] = err.Error()
		return
	}
	defer undo()
	known := map[string]*types.Package{}
	for path, of := range p.tree.known {
		known[path] = of
	}
	infos := map[*source]*types.Info{}
	own := false
	for _, s := range p.tree.packages {
		here := s.files[0].FileStart <= n.pos && n.pos < s.files[len(s.files)-1].FileEnd
		own = own || here
		if !here && !(own && n.object != nil && n.object.Exported()) {
			continue
		}
		of, info, err := p.tree.check(s, known)
		if err != nil {
			p.invalid[n.id(t)] = err.Error()
			return
		}
		known[s.path], infos[s] = of, info
	}
	for _, site := range p.sites {
		info := infos[site.source]
		if info == nil {
			continue
		}
		was, is := site.source.info.Types[site.expr].Value, info.Types[site.expr].Value
		if is != nil && !constant.Compare(was, token.EQL, is) {
			site.values[n.id(t)] = is
		}
	}
}

// put puts a try in the place of a number in the syntax tree, and returns how it is taken
// out.
func (n *number) put(t *try) (undo func(), err error) {
	e, err := parser.ParseExpr(t.text)
	if err != nil {
		return nil, err
	}
	if n.lit != nil {
		was := *n.lit
		lit, ok := e.(*ast.BasicLit)
		if !ok {
			return nil, fmt.Errorf("%s is no literal", t.text)
		}
		n.lit.Kind, n.lit.Value = lit.Kind, lit.Value
		return func() { *n.lit = was }, nil
	}
	was := n.spec.Values[n.at]
	n.spec.Values[n.at] = e
	return func() { n.spec.Values[n.at] = was }, nil
}

// edit is a replacement in a file.
type edit struct {
	from, to int
	text     string
}

func apply(text []byte, edits []edit) []byte {
	sort.Slice(edits, func(i, j int) bool { return edits[i].from > edits[j].from })
	out := string(text)
	for _, e := range edits {
		out = out[:e.from] + e.text + out[e.to:]
	}
	return []byte(out)
}

// build compiles the player with a copy of the core in which the environment moves the
// numbers, into dir.
func (p *plan) build(ctx context.Context, dir string) (string, error) {
	replaced := map[string][]byte{}
	for _, s := range p.core {
		if err := p.rewrite(s, replaced); err != nil {
			return "", err
		}
	}
	return p.compile(ctx, dir, "moving", replaced)
}

// buildOne compiles the player with a copy of the core that differs in one number.
func (p *plan) buildOne(ctx context.Context, dir string, n *number, t *try) (string, error) {
	for _, s := range p.core {
		for i, f := range s.files {
			if f.FileStart <= n.pos && n.pos < f.FileEnd {
				text := apply(s.texts[i], []edit{{int(n.pos - f.FileStart), int(n.end - f.FileStart), t.text}})
				return p.compile(ctx, dir, "one", map[string][]byte{s.names[i]: text})
			}
		}
	}
	return "", fmt.Errorf("%s is in no file", n.name)
}

// rewrite puts variables in the place of the sites of a package that something moves.
func (p *plan) rewrite(s *source, replaced map[string][]byte) error {
	imports := map[string]string{}
	qualify := func(of *types.Package) string {
		if of == s.types {
			return ""
		}
		if imports[of.Path()] == "" {
			imports[of.Path()] = fmt.Sprintf("tuned%d", len(imports))
		}
		return imports[of.Path()]
	}
	var variables strings.Builder
	edits := make([][]edit, len(s.files))
	kept := make([]map[string]bool, len(s.files))
	for k, site := range p.sites {
		if site.source != s || len(site.values) == 0 {
			continue
		}
		tv, name := s.info.Types[site.expr], fmt.Sprintf("tunedSite%d", k)
		kind := types.TypeString(tv.Type, qualify)
		fmt.Fprintf(&variables, "var %s = tunedPick[%s](%s, map[string]%s{\n", name, kind, literal(tv.Value, tv.Type), kind)
		for _, id := range sorted(site.values) {
			fmt.Fprintf(&variables, "%s: %s,\n", strconv.Quote(id), literal(site.values[id], tv.Type))
		}
		fmt.Fprintln(&variables, "})")
		for i, f := range s.files {
			if f.FileStart <= site.expr.Pos() && site.expr.Pos() < f.FileEnd {
				edits[i] = append(edits[i], edit{int(site.expr.Pos() - f.FileStart), int(site.expr.End() - f.FileStart), name})
				if kept[i] == nil {
					kept[i] = map[string]bool{}
				}
				keep(s, site.expr, kept[i])
			}
		}
	}
	for i := range s.files {
		if len(edits[i]) == 0 {
			continue
		}
		text := apply(s.texts[i], edits[i])
		for _, use := range sorted(kept[i]) { // or an import might be left without a use
			text = append(text, "\n"+use...)
		}
		replaced[s.names[i]] = text
	}
	if variables.Len() == 0 {
		return nil
	}
	var head strings.Builder
	fmt.Fprintf(&head, "package %s\n\nimport tunedOS \"os\"\n", s.types.Name())
	for _, of := range sorted(imports) {
		fmt.Fprintf(&head, "import %s %q\n", imports[of], of)
	}
	fmt.Fprintf(&head, `
var tunedMoved = tunedOS.Getenv(%q)

func tunedPick[T any](value T, moved map[string]T) T {
	if v, ok := moved[tunedMoved]; ok {
		return v
	}
	return value
}

`, Moved)
	text, err := format.Source([]byte(head.String() + variables.String()))
	replaced[filepath.Join(filepath.Dir(s.names[0]), "tuned_variables.go")] = text
	return err
}

// literal writes a value as one of a type.
func literal(v constant.Value, kind types.Type) string {
	if kind.Underlying().(*types.Basic).Info()&types.IsInteger != 0 {
		return constant.ToInt(v).ExactString()
	}
	f, _ := constant.Float64Val(constant.ToFloat(v))
	return float(f)
}

// keep notes how the names of other packages in an expression may be used once more.
func keep(s *source, e ast.Expr, uses map[string]bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			use := "const _ = "
			if s.info.Types[sel].IsType() {
				use = "var _ "
			}
			uses[use+s.text(sel)] = true
			return false
		}
		return true
	})
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// compile builds the player with files in the place of others.
func (p *plan) compile(ctx context.Context, dir, name string, replaced map[string][]byte) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, file := range sorted(replaced) {
		copied := filepath.Join(dir, fmt.Sprintf("%s%d_%s", name, i, path.Base(file)))
		if err := os.WriteFile(copied, replaced[file], 0o600); err != nil {
			return "", err
		}
		overlay.Replace[file] = copied
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list, binary := filepath.Join(dir, name+".json"), filepath.Join(dir, name)
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return "", err
	}
	_, err = command(ctx, p.tree.dir, "build", "-p", "2", "-overlay", list, "-o", binary, "./lab/tuning/player")
	return binary, err
}
