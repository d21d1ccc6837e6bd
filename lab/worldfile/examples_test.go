package worldfile

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/plainyaml"
)

const page = "../../docs/worlds.md"

// Every example can be played, and says in its first comment what it asks.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/worlds/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
		example, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if comment, _, _ := strings.Cut(string(example), "\n\n"); !strings.HasPrefix(comment, "# ") || !strings.Contains(comment, "?") {
			t.Errorf("%s does not begin with its question", file)
		}
		if !strings.Contains(string(text), filepath.Base(file)) {
			t.Errorf("%s does not name %s", page, filepath.Base(file))
		}
	}
}

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Every world that the page shows can be read.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 4 {
		t.Fatalf("only %d blocks of YAML", len(blocks))
	}
	files := memory(map[string]string{"trace.csv": "0\n1\n", "histogram.csv": "0.01,1\n"})
	for _, b := range blocks {
		if _, err := parse("worlds.md", []byte(b[1]), files); err != nil {
			t.Errorf("%v\nin\n%s", err, b[1])
		}
	}
}

// The page names every key.
func TestPageNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	// The decoder names its keys when it meets one it does not know.
	_, err = parse("x", []byte("?: 1\nhosts: {?: 1}\nservices: {?: 1, methods: {?: 1, steps: {?: 1, wait: {?: 1}}}}\nclients: {?: 1, retry: {?: 1}, load: {?: 1, steps: {?: 1}}}\nnetwork: {?: 1}\nfaults: {?: 1}\n"), nil)
	keys := 0
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		m := err.(*plainyaml.Mistake)
		if m.Value != "unknown key" {
			continue
		}
		for key := range strings.SplitSeq(m.Want, ", ") {
			keys++
			if !strings.Contains(string(text), "`"+key+"`") && !strings.Contains(string(text), key+":") {
				t.Errorf("%s does not name %s (%s)", page, key, m.Field)
			}
		}
	}
	if keys < 60 {
		t.Errorf("only %d keys were looked for", keys)
	}
}
