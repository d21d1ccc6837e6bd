package tuning

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"math"
	"strings"
	"testing"
)

// sample has every kind of number.
const sample = `package sample

const (
	share  = 0.95
	factor = 1.2
	part   = 1.0 / 16
	many   = 8
	one    = 1
	size   = 4 * many // of an array, so many is as well
	scale  = part * 2
)

type kind uint8

const (
	first kind = iota
	second
)

var table = [...]float64{0.1, 0.2, 0.3, 0.4, 0.5}

type cells [size]int

func f(x float64, n int) float64 {
	n = n<<3 + n%7
	if n > many {
		return x*scale + 2*table[1]
	}
	return x*factor - share*0.3 - x*float64(one)
}
`

// planned is the plan of one package without imports.
func planned(t *testing.T, text string) *plan {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "sample/sample.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &source{fset: fset, path: "example/sample", files: []*ast.File{file}, names: []string{"sample/sample.go"}, texts: [][]byte{[]byte(text)}}
	tree := &tree{fset: fset, packages: []*source{s}, known: map[string]*types.Package{}}
	if s.types, s.info, err = tree.check(s, tree.known); err != nil {
		t.Fatal(err)
	}
	return planOf(tree, []*source{s})
}

func TestNumbersOfASource(t *testing.T) {
	var found []string
	for _, n := range planned(t, sample).numbers {
		text := fmt.Sprintf("%s = %s:", n.name, n.value)
		for i := range n.tries {
			text += " " + n.tries[i].shown
		}
		if n.bounds {
			text += ", of an array"
		}
		found = append(found, text)
	}
	want := []string{
		"sample.share = 0.95: 0.9 0.975", "sample.factor = 1.2: 1.1 1.4", "sample.part = 0.0625: 0.03125 0.125",
		"sample.many = 8: 4 16, of an array", "sample.one = 1: 2", "sample.size = 32: 16 64, of an array", "sample.scale = 0.125: 0.0625 0.25",
		"sample.f: x*factor - share*0.3 - x*float64(one) = 0.3: 0.15 0.6",
	}
	if got, want := strings.Join(found, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
}

// A moved constant moves what is derived from it, and nothing else.
func TestMoveReachesWhatIsDerived(t *testing.T) {
	p := planned(t, sample)
	moved := map[string]string{}
	for _, n := range p.numbers {
		for i := range n.tries {
			id := n.id(&n.tries[i])
			if p.invalid[id] != "" {
				t.Errorf("%s: %s", id, p.invalid[id])
			}
			for _, s := range p.sites {
				if v := s.values[id]; v != nil {
					moved[n.name+" "+n.tries[i].shown] += " " + s.source.text(s.expr) + "=" + v.String()
				}
			}
		}
	}
	for move, want := range map[string]string{
		"sample.part 0.03125": " scale=0.0625", "sample.scale 0.25": " scale=0.25", "sample.many 16": " many=16",
		"sample.share 0.9": " share*0.3=0.27", "sample.one 2": " float64(one)=2",
	} {
		if moved[move] != want {
			t.Errorf("%s moves%s, want%s", move, moved[move], want)
		}
	}
}

// The copy reads what is moved from variables of the type of their context, and is a
// program.
func TestCopyIsAProgram(t *testing.T) {
	p := planned(t, sample)
	replaced := map[string][]byte{}
	if err := p.rewrite(p.core[0], replaced); err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for name, text := range replaced {
		text = []byte(strings.Replace(string(text), `import tunedOS "os"`, `var tunedOS struct{ Getenv func(string) string }`, 1))
		f, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		files = append(files, f)
	}
	if _, err := (&types.Config{}).Check("sample", fset, files, nil); err != nil {
		t.Error(err)
	}
	if text := string(replaced["sample/sample.go"]); strings.Contains(text, "x*factor") || !strings.Contains(text, "factor = 1.2") {
		t.Errorf("the constant is not replaced where it is used, or is where it is declared:\n%s", text)
	}
}

func TestTriesKeepIntegersAndShares(t *testing.T) {
	for _, c := range []struct {
		value string
		kind  types.BasicKind
		want  string
	}{
		{"1", types.UntypedInt, "2"}, {"3", types.Int, "2 6"}, {"64", types.Uint64, "32 128"}, {"3", types.Float64, "1.5 6"},
		{"0.5", types.UntypedFloat, "0.25 0.75"}, {"0.4", types.UntypedFloat, "0.2 0.8"}, {"0.75", types.UntypedFloat, "0.5 0.875"},
		{"1.5", types.UntypedFloat, "1.25 2"}, {"0", types.Int, ""},
	} {
		var shown []string
		for _, t := range tries(constant.MakeFromLiteral(c.value, map[bool]token.Token{true: token.FLOAT, false: token.INT}[strings.Contains(c.value, ".")], 0), types.Typ[c.kind], c.value) {
			shown = append(shown, t.shown)
		}
		if got := strings.Join(shown, " "); got != c.want {
			t.Errorf("%s is moved to %q, want %q", c.value, got, c.want)
		}
	}
}

// The worst world counts, but one in which chance makes as much of it comes after one in
// which it does not.
func TestCompareTellsLossesFromChance(t *testing.T) {
	row := func(digest uint64, worth ...float64) (all []Outcome) {
		for _, w := range worth {
			all = append(all, Outcome{w, digest})
		}
		return all
	}
	wide := row(1, 50, 150, 50, 150)   // by chance half of it more or less
	steady := row(1, 99, 101, 99, 101) // a hundredth
	names := named(1)
	for _, c := range []struct {
		what  string
		moved [][]Outcome
		want  loss
	}{
		{"nothing", [][]Outcome{wide, steady}, loss{}},
		{"chance", [][]Outcome{row(2, 40, 120, 40, 120), steady}, loss{world: names[0], most: 0.2, mean: 0.1, differs: true}},
		{"one that counts", [][]Outcome{row(2, 40, 120, 40, 120), row(2, 90, 90, 90, 90)}, loss{world: names[1], most: 0.1, mean: 0.15, differs: true, real: true}},
		{"a gain", [][]Outcome{wide, row(2, 110, 110, 110, 110)}, loss{world: names[1], most: -0.1, mean: -0.05, differs: true}},
	} {
		got := compare([][]Outcome{wide, steady}, c.moved, 1)
		if got.world != c.want.world || got.real != c.want.real || got.differs != c.want.differs || math.Abs(got.mean-c.want.mean) > 1e-9 || math.Abs(got.most-c.want.most) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", c.what, *got, c.want)
		}
	}
}
