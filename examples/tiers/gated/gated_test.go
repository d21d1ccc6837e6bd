package gated

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mostLines is how many lines a service changes to have all that package gated has: the bar of
// the project for services that are added by somebody who has read the README.
const mostLines = 12

// added returns the lines of after that are not in before, in order, without empty ones.
func added(before, after []string) (lines []string) {
	// The longest common subsequence: what is not in it was written.
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i := 0
	for j, line := range after {
		for i < len(before) && before[i] != line && common[i+1][j] == common[i][j] {
			i++
		}
		if i < len(before) && before[i] == line {
			i++
		} else if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// A service is changed in a dozen lines, imports included.
func TestFewLinesChange(t *testing.T) {
	for _, name := range []string{"edge.go", "store.go"} {
		before, err := os.ReadFile("../plain/" + name)
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(after), "package gated", "package plain", 1)
		lines := added(strings.Split(string(before), "\n"), strings.Split(text, "\n"))
		if len(lines) == 0 || len(lines) > mostLines {
			t.Errorf("%s: %d lines change, expected 1 to %d:\n%s", name, len(lines), mostLines, strings.Join(lines, "\n"))
		}
		t.Logf("%s: %d lines", name, len(lines))
	}
}

func TestLinesThatAreAdded(t *testing.T) {
	got := added(strings.Split("a b c d", " "), strings.Split("x a c y d z", " "))
	if strings.Join(got, "") != "xyz" {
		t.Errorf("added %q, expected x, y and z", got)
	}
}

// The services work, and an order comes through both gates.
func TestTiers(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	store, metrics, front := listen(), listen(), listen()
	go Store(store, metrics)
	edge, err := Edge("", store.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go edge.Serve(front)
	t.Cleanup(func() { edge.Close() })
	client := &http.Client{Timeout: time.Minute}
	get := func(url string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case err != nil:
				t.Fatal(err)
			case resp.StatusCode == http.StatusServiceUnavailable: // a machine that was busy for an objective
				time.Sleep(100 * time.Millisecond)
			case resp.StatusCode != http.StatusOK:
				t.Fatalf("%s: %s, %s", url, resp.Status, b)
			default:
				return string(b)
			}
		}
	}
	url := "http://" + front.Addr().String()
	if got := get(url + "/orders?id=7"); got != "order 7" {
		t.Errorf("the order is %q", got)
	}
	get(url + "/healthz")
	get(url + "/metrics") // is exempt as well
	shown := get("http://" + metrics.Addr().String())
	for _, gate := range []string{"edge", "store"} {
		if line := regexp.MustCompile(`spillgate_requests_total\{.*decision="admit",gate="` + gate + `".*\} [1-9]`); !line.MatchString(shown) {
			t.Errorf("the gate %s did not admit the order:\n%s", gate, shown)
		}
	}
}
