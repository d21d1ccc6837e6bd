package catalogue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a program logs at level info or above is on the page of its operators: word for word, or from its beginning
// to an ellipsis.
func TestMessagesAreOnPages(t *testing.T) {
	for page, dirs := range map[string][]string{
		"docs/operating.md": {"proxy", "internal/reread", "cmd/spillgate/serve.go"},
		"docs/guard.md":     {"guard"},
		"docs/broker.md":    {"broker"},
	} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, span := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(string(text), -1) {
			said = append(said, span[1])
		}
		found := messages(t, dirs)
		if len(found) < 5 {
			t.Errorf("%s: only %d messages found in %v", page, len(found), dirs)
		}
		for message, at := range found {
			if !slices.ContainsFunc(said, func(s string) bool {
				begin, cut := strings.CutSuffix(s, "…")
				return s == message || cut && strings.HasPrefix(message, begin)
			}) {
				t.Errorf("%s logs %q, which %s does not explain", at, message, page)
			}
		}
	}
}

// messages returns what the Go files in dirs log at level info or above, where the text is one piece, and where.
func messages(t *testing.T, dirs []string) map[string]string {
	t.Helper()
	found := map[string]string{}
	fset := token.NewFileSet()
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !slices.Contains([]string{"Info", "Warn", "Error"}, method.Sel.Name) {
					return true
				}
				to := ""
				switch x := method.X.(type) {
				case *ast.Ident:
					to = x.Name
				case *ast.SelectorExpr:
					to = x.Sel.Name
				}
				if literal, ok := call.Args[0].(*ast.BasicLit); ok && strings.HasSuffix(to, "log") {
					if message, err := strconv.Unquote(literal.Value); err == nil {
						found[message] = fset.Position(call.Pos()).String()
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
