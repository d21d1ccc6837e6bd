package page

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestFiles(t *testing.T) {
	s, err := Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Show(demo.State{Seed: 42, Number: 1})
	for path, want := range map[string][2]string{
		"":           {"text/html; charset=utf-8", "Spillgate demo"},
		"page.css":   {"text/css; charset=utf-8", "prefers-color-scheme"},
		"page.js":    {"text/javascript; charset=utf-8", "EventSource"},
		"icon.svg":   {"image/svg+xml", "<svg"},
		"state.json": {"application/json", `"seed":42`},
	} {
		resp, body := get(t, s.URL()+path)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != want[0] || !strings.Contains(body, want[1]) {
			t.Errorf("/%s: %d, %s, want %s with %q", path, resp.StatusCode, resp.Header.Get("Content-Type"), want[0], want[1])
		}
		if resp.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("/%s has no content security policy", path)
		}
		// Nothing comes from elsewhere.
		if strings.Contains(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), "http") && path != "state.json" {
			t.Errorf("/%s names another host", path)
		}
	}
	if resp, _ := get(t, s.URL()+"nothing"); resp.StatusCode != 404 {
		t.Errorf("/nothing: %d, want 404", resp.StatusCode)
	}
}

// A browser gets the newest state, not every one, and the last one before the
// stream ends.
func TestEvents(t *testing.T) {
	s, err := Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Show(demo.State{Number: 1})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.URL() + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var numbers []int
	ended := false
	scan := bufio.NewScanner(resp.Body)
	for scan.Scan() {
		line := scan.Text()
		if line == "event: end" {
			ended = true
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || ended {
			continue
		}
		var state demo.State
		if err := json.Unmarshal([]byte(data), &state); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, state.Number)
		if state.Number == 1 {
			for n := 2; n <= 50; n++ {
				s.Show(demo.State{Number: n})
			}
			go s.Close()
		}
	}
	if len(numbers) < 2 || len(numbers) > 5 || numbers[len(numbers)-1] != 50 || !ended {
		t.Errorf("states %v, ended %v; want a few, the last one 50, and an end", numbers, ended)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s, err := Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range mostStreams {
		if !s.enter() {
			t.Fatal("refused too early")
		}
	}
	if resp, body := get(t, s.URL()+"events"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "32") {
		t.Errorf("%d %q, want a refusal that names the limit", resp.StatusCode, body)
	}
}

func TestAddressInUse(t *testing.T) {
	s, err := Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Serve(s.listener.Addr().String()); err == nil {
		t.Error("two servers on one address")
	}
}
