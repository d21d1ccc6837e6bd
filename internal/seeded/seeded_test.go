package seeded

import (
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Two checks of one property draw the same cases.
func TestTheSameCases(t *testing.T) {
	if seed := flag.Lookup("rapid.seed").Value.String(); seed == "0" {
		t.Skip("the command line asks for new cases")
	}
	draw := func() (all []int64) {
		rapid.Check(t, func(t *rapid.T) { all = append(all, rapid.Int64().Draw(t, "n")) })
		return all
	}
	if a, b := draw(), draw(); !slices.Equal(a, b) {
		t.Errorf("drew %v and then %v", a[:3], b[:3])
	}
}

// Every package that checks properties is seeded.
func TestEveryPackage(t *testing.T) {
	const module = "github.com/spillgate/spillgate/"
	draws, seeded := map[string]bool{}, map[string]bool{"../../internal/seeded": true}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return nil // a test's own data
		}
		for _, spec := range file.Imports {
			switch strings.Trim(spec.Path.Value, `"`) {
			case "pgregory.net/rapid":
				draws[filepath.Dir(path)] = true
			case module + "internal/seeded":
				seeded[filepath.Dir(path)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(draws) < 2 {
		t.Fatalf("found %v that draw: looked in the wrong place", draws)
	}
	for dir := range draws {
		if !seeded[dir] {
			t.Errorf("%s checks properties with pgregory.net/rapid: import %sinternal/seeded for its effect in one of its test files", dir, module)
		}
	}
}
