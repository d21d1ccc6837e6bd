package worldfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/world"
)

// memory opens files that are held in a map.
func memory(files map[string]string) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

// TestScripts reads the worlds under testdata: "file" puts a file beside the world,
// "world" reads one and prints its mistakes, or with show what it became.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		files := map[string]string{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				var name string
				d.ScanArgs(t, "name", &name)
				files["dir/"+name] = d.Input
				return ""
			case "world":
				w, err := parse("dir/w.yaml", []byte(d.Input), memory(files))
				if err != nil {
					return err.Error() + "\n"
				}
				if d.HasArg("show") {
					return show(w)
				}
				return "ok\n"
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// show prints what a world has that is not a zero value, a line for each field.
func show(w *world.World) string {
	var b strings.Builder
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch {
		case v.Kind() == reflect.Pointer && !v.IsNil():
			walk(path, v.Elem())
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case !v.IsZero():
			fmt.Fprintf(&b, "%s %v\n", strings.TrimPrefix(path, "."), v)
		}
	}
	walk("", reflect.ValueOf(w))
	return b.String()
}

func TestClocks(t *testing.T) {
	for _, c := range []struct{ first, second string }{
		{"0.5", "2"},
		{"1700000000.25", "1700000001.75"},
		{"2023-11-16 18:17:03.9799600", "2023-11-16 18:17:05.4799600"},
		{"2023-11-16T18:17:03", "2023-11-16T18:17:04.5"},
		{"2023-12-31T23:59:59Z", "2024-01-01T00:00:00.5Z"},
		{"2023-12-31 23:59:59+01:00", "2024-01-01 01:00:00.5+02:00"},
	} {
		read := clock(c.first)
		if read == nil {
			t.Errorf("%s is no instant", c.first)
			continue
		}
		if at, ok := read(c.second); !ok || at != 1500*time.Millisecond {
			t.Errorf("from %s to %s: %v, %v, want 1.5s", c.first, c.second, at, ok)
		}
	}
	for _, s := range []string{"", "now", "12:30", "nan", "inf", "2023-13-01 00:00:00"} {
		if clock(s) != nil {
			t.Errorf("%q is an instant", s)
		}
	}
}

func TestTheLimitsOfFiles(t *testing.T) {
	_, err := parse("w.yaml", make([]byte, MaxSize+1), nil)
	if err == nil || err.Error() != "w.yaml: more than 65536 bytes, expected at most 65536 bytes" {
		t.Errorf("a file that is too large: %v", err)
	}
	trace := func(text string) error {
		_, err := parse("w.yaml", []byte(small+"  load: {arrivals: t.csv}\n"), memory(map[string]string{"t.csv": text}))
		return err
	}
	var long strings.Builder
	for i := range world.MaxArrivals + 2 {
		fmt.Fprintln(&long, i)
	}
	for _, c := range []struct{ text, want string }{
		{strings.Repeat("x", maxLine+1), "t.csv:1: bufio.Scanner: token too long, expected lines of at most 65536 bytes"},
		{strings.Repeat("\n", MaxCSV+1), "t.csv: more than 67108864 bytes, expected at most 67108864 bytes"},
		{long.String(), "t.csv:1000002: more than 1000000 lines, expected at most 1000000"},
		{strings.Repeat("0\nx\n", 100), ""},
	} {
		err := trace(c.text)
		if err == nil || c.want != "" && err.Error() != c.want {
			t.Errorf("mistakes\n%v\nwant\n%s", err, c.want)
		}
		if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) > plainyaml.MaxMistakes {
			t.Errorf("no list of mistakes, or too long: %T", err)
		}
	}
}

// small is a world whose group lacks its load.
const small = `objective: 100ms
length: 10s
services: {name: api, workers: 4, steps: {wait: 10ms}}
clients:
- name: web
  ask: api
`

// FuzzWorld reads arbitrary worlds, with arbitrary text in the file that they may
// name.
func FuzzWorld(f *testing.F) {
	f.Add([]byte(small+"  load: 2x\n"), []byte(""))
	f.Add([]byte(small+"  load: {arrivals: f, speed: 2}\n"), []byte("at\n0\n0.5\n"))
	f.Add([]byte(small+"  load: [{rate: 1x}, {at: 1s, rate: 5x, for: 10ms, every: 1s}]\nfaults: {at: 1s, for: 1s, service: api, slower: 2}\n"), []byte(""))
	f.Add([]byte("services: {name: a, steps: [{wait: {histogram: f, spread: true}}, {compute: pareto 1.5 1ms, call: a}]}"), []byte("s,n\n0.1,3\n"))
	f.Add([]byte("services: [{name: a, methods: [{name: x, steps: {call: b.y}}]}, {name: b, methods: [{name: y, steps: {call: a.x}}]}]\nclients: {ask: {a: 1, b: 2}}"), []byte("2023-11-16 18:17:03.97,1,2\n"))
	f.Add([]byte("hosts: {name: h, message: none}\nclients: {deadline: never, load: {users: 3, think: 1s}}\nservices: {steps: {wait: {points: {1s: 1, x: y}}}}"), []byte("\xff"))
	f.Fuzz(func(t *testing.T, yaml, csv []byte) {
		if len(yaml) > 4096 || len(csv) > 4096 {
			return // time, which MaxSize bounds, and not the decoder would be tested
		}
		w, err := parse("w.yaml", yaml, memory(map[string]string{"f": string(csv)}))
		if err == nil {
			if more := w.Check(); len(more) > 0 {
				t.Fatalf("accepted in spite of %v", more)
			}
			d := w.WithDefaults()
			if more := d.Check(); len(more) > 0 {
				t.Fatalf("the defaults are wrong: %v", more)
			}
			return
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			t.Fatalf("%T is no list of mistakes", err)
		}
		if n := len(joined.Unwrap()); n == 0 || n > plainyaml.MaxMistakes {
			t.Fatalf("%d mistakes", n)
		}
		var m *plainyaml.Mistake
		for _, err := range joined.Unwrap() {
			if !errors.As(err, &m) {
				t.Fatalf("%T is no mistake", err)
			}
		}
	})
}
