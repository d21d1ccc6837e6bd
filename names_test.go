package spillgate_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// What the comments of the re-exported types list is there: go doc shows no fields and methods of an alias, so these
// lists are all that it says.
func TestListedNames(t *testing.T) {
	types := map[string]reflect.Type{
		"Gate": reflect.TypeFor[*spillgate.Gate](), "Config": reflect.TypeFor[spillgate.Config](), "Admission": reflect.TypeFor[spillgate.Admission](),
		"Schedule": reflect.TypeFor[spillgate.Schedule](), "Wallet": reflect.TypeFor[spillgate.Wallet](), "Refusal": reflect.TypeFor[spillgate.Refusal](),
		"Reason": reflect.TypeFor[spillgate.Reason](), "Tags": reflect.TypeFor[spillgate.Tags](), "Stats": reflect.TypeFor[spillgate.Stats](),
		"Culprit": reflect.TypeFor[spillgate.Culprit](), "Slots": reflect.TypeFor[spillgate.Slots](), "Rates": reflect.TypeFor[spillgate.Rates](),
		"Terms": reflect.TypeFor[spillgate.Terms](),
	}
	file, err := parser.ParseFile(token.NewFileSet(), "spillgate.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`(?m)^\t(\w+(?:, \w+)*)[( ]`)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		listed := entry.FindAllStringSubmatch(spec.Doc.Text(), -1)
		of := types[spec.Name.Name]
		if of == nil {
			if len(listed) > 0 {
				t.Errorf("%s has a list, and this test does not know it", spec.Name.Name)
			}
			return true
		}
		if len(listed) < 2 {
			t.Errorf("%s lists %d names, expected some", spec.Name.Name, len(listed))
		}
		for _, line := range listed {
			for name := range strings.SplitSeq(line[1], ", ") {
				if !has(of, name) {
					t.Errorf("%s has no %s", spec.Name.Name, name)
				}
			}
		}
		return true
	})
}

// has reports whether a type has an exported method or field called name.
func has(of reflect.Type, name string) bool {
	if _, ok := of.MethodByName(name); ok {
		return true
	}
	if of.Kind() != reflect.Struct {
		return false
	}
	field, ok := of.FieldByName(name)
	return ok && field.IsExported()
}

// A program can name every reason without a package of its own for it.
func TestReasonsHaveNames(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "spillgate.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{} // what each name stands for
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			if value, ok := spec.Values[0].(*ast.SelectorExpr); ok {
				named[strings.TrimPrefix(spec.Names[0].Name, "Reason")] = value.Sel.Name
			}
		}
		return true
	})
	for r := work.None + 1; int(r) < work.NumReasons; r++ {
		var name strings.Builder
		for part := range strings.SplitSeq(r.String(), "_") {
			name.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
		if got := named[name.String()]; got != name.String() {
			t.Errorf("spillgate.Reason%s is work.%s, expected work.%s", name.String(), got, name.String())
		}
	}
}

// A program can write every setting that the pages name, without a package of its own for it.
func TestSettingsHaveNames(t *testing.T) {
	gate, err := spillgate.NewWith(spillgate.Config{Config: spillgate.Admission{
		Objective: 100 * time.Millisecond,
		Slots:     spillgate.Slots{Max: 200},
		Schedule:  spillgate.Schedule{Order: spillgate.OrderLSTF},
		Rates:     &spillgate.Rates{Policy: spillgate.MaxMinFair, Terms: map[string]spillgate.Terms{"checkout": {Weight: 3, Guarantee: 50}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Close(); err != nil {
		t.Error(err)
	}
	orders := []fmt.Stringer{spillgate.OrderFIFO, spillgate.OrderEDF, spillgate.OrderLSTF, spillgate.OrderSJF, spillgate.OrderSRTF, spillgate.OrderLASF}
	policies := []fmt.Stringer{spillgate.BottleneckFair, spillgate.MaxMinFair, spillgate.DominantFair}
	for i := range orders {
		if got := schedule.Order(i); got != orders[i] {
			t.Errorf("order %d is %v, and its name here stands for %v", i, got, orders[i])
		}
	}
	for i := range policies {
		if got := rates.Policy(i); got != policies[i] {
			t.Errorf("policy %d is %v, and its name here stands for %v", i, got, policies[i])
		}
	}
	if o, p := schedule.Order(len(orders)), rates.Policy(len(policies)); o.String() != "unknown" || p.String() != "unknown" {
		t.Errorf("order %v or policy %v has no name here", o, p)
	}
}
