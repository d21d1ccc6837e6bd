package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every configuration of the proxy, or a part of one, that a page shows can be read. Those of worlds.md are world files, and those
// of deploy are another program's.
func TestConfigurationsInPages(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	pages, _ := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	seen := 0
	for _, page := range append(pages, filepath.Join("..", "README.md")) {
		if filepath.Base(page) == "worlds.md" {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			seen++
			whole := found[1]
			for _, required := range []string{"slo: 100ms", "listen: [127.0.0.1:8080]", "upstreams: [http://127.0.0.1:9000]"} {
				if key, _, _ := strings.Cut(required, " "); !strings.HasPrefix(whole, key) && !strings.Contains(whole, "\n"+key) {
					whole += required + "\n"
				}
			}
			if _, err := Decode(filepath.Base(page), []byte(whole)); err != nil {
				t.Errorf("%v\nin\n%s", err, found[1])
			}
		}
	}
	if seen == 0 {
		t.Error("no configuration found")
	}
}
