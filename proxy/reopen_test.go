package proxy

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that was moved away is written anew once it was opened again, without a configuration.
func TestReopen(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	path := filepath.Join(t.TempDir(), "access")
	cfg := to("http://" + addr)
	cfg.Access.Path = path
	p := start(t, cfg)
	has := func(path, text string) func() bool {
		return func() bool {
			b, _ := os.ReadFile(path)
			return strings.Contains(string(b), text)
		}
	}
	get(t, client(t, 1, nil), p.url+"/one")
	eventually(t, "the first line", has(path, "/one"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	p.Reopen()
	get(t, client(t, 1, nil), p.url+"/two")
	eventually(t, "the second line", func() bool { return has(path, "/two")() || has(path+".1", "/two")() })
	if has(path+".1", "/two")() {
		t.Error("it is in the file that was moved away")
	}
	p.stop()
	_ = p.wait(t)
	p.Reopen() // does nothing
}
