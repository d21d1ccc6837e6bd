package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// usual declares what the code in pages takes for granted, in packages that it imports by these names.
const usual = `package pages

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/fastrpc"
	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/telemetry"
	"github.com/spillgate/spillgate/tracer"
)

var (
	ctx       context.Context
	gate      *spillgate.Gate
	server    *http.Server
	mux       *http.ServeMux
	w         http.ResponseWriter
	r         *http.Request
	resp      *http.Response
	listener  net.Listener
	opts      []grpc.DialOption
	options   []grpc.ServerOption
	addresses []string
	target, json         string
	kind                 tracer.Kind
	n         int
	resize    func(context.Context) error
	registry  *prometheus.Registry
	meter     metric.Meter
	logger    *slog.Logger
	rules     *classify.Rules
	tr        *tracer.Tracer
	_         time.Duration
	_         fastrpc.ServerConfig
	_         = errors.New
	_         = log.Print
	_         = grpcgate.Serve
	_         = httpgate.Install
	_         = telemetry.New
)
`

var (
	goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")
	goSpan  = regexp.MustCompile("`([^`\n]*\\b(?:spillgate|grpcgate|httpgate|fastrpc|telemetry|classify|tracer|gate)\\.[A-Za-z]+\\([^`\n]*)`")
)

// The code that pages show compiles, as part of a function that has the usual variables.
func TestGoInPages(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "usual.go", usual, 0)
	if err != nil {
		t.Fatal(err)
	}
	files := []*ast.File{file}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/contributing/") {
			continue // of what is inside
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("`<br>`"), []byte("     ;")) // one piece of code
		blocks := goBlock.FindAllSubmatchIndex(text, -1)
		for _, at := range append(blocks, goSpan.FindAllSubmatchIndex(goBlock.ReplaceAllFunc(text, blank), -1)...) {
			snippet, line := string(text[at[2]:at[3]]), 1+bytes.Count(text[:at[2]], []byte("\n"))
			if strings.HasPrefix(snippet, "package ") || strings.Contains(snippet, "(…)") {
				continue // a whole file, or less than a piece of code
			}
			file, err := parseSnippet(fset, page, line, snippet)
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			files = append(files, file)
		}
	}
	if len(files) < 25 {
		t.Errorf("only %d pieces of code", len(files)-1)
	}
	exports, err := exportsOf(file.Imports)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", exports), Error: func(err error) {
		e := err.(types.Error)
		switch {
		case strings.HasPrefix(e.Msg, "declared and not used"), strings.HasSuffix(e.Msg, "imported and not used"), strings.HasPrefix(e.Msg, "no new variables"), strings.HasSuffix(e.Msg, "is not used"):
		default:
			t.Errorf("%v", err)
		}
	}}
	_, _ = config.Check("pages", fset, files, nil)
}

// blank keeps the lines and the length of a text, and nothing else.
func blank(text []byte) []byte {
	text = bytes.Clone(text)
	for i, c := range text {
		if c != '\n' {
			text[i] = ' '
		}
	}
	return text
}

// parseSnippet returns a file in which a piece of a page's code is a function.
func parseSnippet(fset *token.FileSet, page string, line int, snippet string) (*ast.File, error) {
	imports := usual[strings.Index(usual, "import"):strings.Index(usual, "var")]
	snippet = strings.ReplaceAll(snippet, "{ … }", "{ panic(0) }")
	text := fmt.Sprintf("package pages\n%s\nfunc _() (err error) {\n//line %s:%d\n%s\nreturn nil\n}\n", imports, page, line, snippet)
	return parser.ParseFile(fset, "", text, 0) // its name would have a part in that of the page
}

// exportsOf returns what finds the compiled packages that are imported.
func exportsOf(imports []*ast.ImportSpec) (func(path string) (io.ReadCloser, error), error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, i := range imports {
		args = append(args, strings.Trim(i.Path.Value, `"`))
	}
	list := exec.Command("go", args...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[path] = export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(found[path]) }, nil
}

// Code that is wrong is found.
func TestGoInPagesFindsMistakes(t *testing.T) {
	fset := token.NewFileSet()
	if _, err := parseSnippet(fset, "page.md", 7, "gate := ("); err == nil || !strings.Contains(err.Error(), "page.md:") {
		t.Errorf("a mistake in a page: %v", err)
	}
	if at := goSpan.FindStringSubmatch("| `httpgate.Retries(n)` |"); !slices.Equal(at, []string{"`httpgate.Retries(n)`", "httpgate.Retries(n)"}) {
		t.Errorf("found %q", at)
	}
}
