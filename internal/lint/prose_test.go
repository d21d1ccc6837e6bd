package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var root = filepath.Join("..", "..")

// pages returns the Markdown pages of the project, relative to its root.
func pages(t *testing.T) []string {
	names, err := textFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".md") || strings.Contains(name, "testdata/") })
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code    = regexp.MustCompile("(?s)```.*?\n```|`[^`\n]+`")
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// Every relative link of a page leads to a file, and its fragment to a heading there.
func TestLinks(t *testing.T) {
	seen := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			target, fragment, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			seen++
			path := filepath.Join(root, filepath.Dir(page), target)
			if target == "" {
				path = filepath.Join(root, page)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, found[1])
			} else if fragment != "" && !slices.Contains(anchors(t, path), fragment) {
				t.Errorf("%s: the link %s: no heading there is called so; there are %q", page, found[1], anchors(t, path))
			}
		}
	}
	if seen == 0 {
		t.Error("no link was found")
	}
}

// anchors returns what the headings of a page are called in links.
func anchors(t *testing.T, path string) (all []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range heading.FindAllStringSubmatch(regexp.MustCompile("(?s)```.*?\n```").ReplaceAllString(string(text), ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, found[1]))
	}
	return all
}

// Every exported name that a page mentions exists.
func TestNamesInPages(t *testing.T) {
	packages := map[string]map[string]bool{}
	for name, dir := range map[string]string{"spillgate": "", "grpcgate": "", "httpgate": "", "telemetry": "", "classify": "", "tracer": ""} {
		if dir = name; name == "spillgate" {
			dir = "."
		}
		packages[name] = exported(t, filepath.Join(root, dir))
	}
	name := regexp.MustCompile(`(?:^|[^./\w-])(spillgate|grpcgate|httpgate|telemetry|classify|tracer)\.([A-Z]\w*)`)
	seen := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			seen++
			if !packages[found[1]][found[2]] {
				t.Errorf("%s: %s.%s does not exist", page, found[1], found[2])
			}
		}
	}
	if seen == 0 {
		t.Error("no name was found")
	}
}

// exported returns the exported names at the top of a package.
func exported(t *testing.T, dir string) map[string]bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}
