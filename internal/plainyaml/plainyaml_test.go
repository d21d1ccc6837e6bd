package plainyaml

import (
	"strings"
	"testing"
	"time"
)

// Mistakes come in the order of the file, those of other files after them, and a
// check finds no fault with what could not be read.
func TestMistakesInTheirPlaces(t *testing.T) {
	d := New("f.yaml")
	root, ok := d.Parse([]byte("b: 7\nlist:\n- 1s\n- fast\nshort: 2s\nt: {x: 1, y: 2}\nc: trace.csv\n"))
	if !ok {
		t.Fatal(d.Err())
	}
	var times [2]time.Duration
	var short time.Duration
	var order []string
	d.Object(root, Keys{
		"list": func(n Node) {
			i := 0
			d.List(n, func(n Node) { d.Duration(n, &times[min(i, 1)]); i++ })
		},
		"short": func(n Node) { d.Duration(d.Alias(n, "short.steps[0].at"), &short) },
		"t":     func(n Node) { d.Table(n, func(key string, _ Node) { order = append(order, key) }) },
		"c":     func(n Node) { d.Other(n, "trace.csv", 12, `"x"`, "seconds") },
	})
	d.Found("list[1]", "0s", "more: not reported, for the value could not be read")
	d.Found("list[0].deep", "1s", "less")
	d.Found("short.steps[0].at", "2s", "0s")
	d.Found("c", "0 instants", "some: not reported, for the file has a mistake")
	d.Found("gone", "", "it")
	want := `f.yaml:1:1: b: unknown key, expected c, list, short, t
f.yaml:1:1: gone: missing, expected it
f.yaml:3:3: list[0].deep: 1s, expected less
f.yaml:4:3: list[1]: "fast", expected a duration such as 100ms, 2s or 1m30s
f.yaml:5:8: short.steps[0].at: 2s, expected 0s
trace.csv:12: "x", expected seconds`
	if got := d.Err().Error(); got != want {
		t.Errorf("mistakes\n%s\nwant\n%s", got, want)
	}
	if times != [2]time.Duration{time.Second, 0} || short != 2*time.Second || strings.Join(order, "") != "xy" {
		t.Errorf("read %v, %v, %v", times, short, order)
	}
}

// A number may have an exponent, and is no number in quotes.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]float64{"1e5": 1e5, "2E+3": 2000, "5e-1": 0.5, "1.5e2": 150, "7": 7, "0": 0, `"1e5"`: -1, "-1e5": -1, "1e999": -1, "e5": -1, "1-2": -1, ".inf": -1, "12 kB": -1} {
		d := New("f.yaml")
		root, ok := d.Parse([]byte("a: " + text + "\n"))
		if !ok {
			t.Fatal(d.Err())
		}
		got := -1.0
		d.Object(root, Keys{"a": func(n Node) { d.Number(n, &got) }})
		if got != want || (d.Err() != nil) != (want < 0) {
			t.Errorf("%s: %v, %v", text, got, d.Err())
		}
	}
}
