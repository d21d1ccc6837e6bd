package openloop

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestReadTrace(t *testing.T) {
	got, err := ReadTraceFile("testdata/tiny.csv")
	if err != nil {
		t.Fatal(err)
	}
	want := Trace{
		{0, 100, 7},
		{250 * time.Millisecond, 200, 8},
		{250 * time.Millisecond, 0, 0},
		{2*time.Second + 100*time.Nanosecond, 4000, 512},
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d = %+v, want %+v", i, got[i], want[i])
		}
	}
	if r := got.MeanRate(); math.Abs(r-1.5) > 1e-6 {
		t.Errorf("mean rate %v, want 1.5", r)
	}
	fast, err := got.Compress(100 / got.MeanRate())
	if err != nil {
		t.Fatal(err)
	}
	if r := fast.MeanRate(); math.Abs(r-100) > 1e-3 {
		t.Errorf("compressed mean rate %v, want 100", r)
	}
	if at := collect(t, fast.Arrivals()); len(at) != 4 || at[0] != 0 || at[3] != fast.Duration() {
		t.Errorf("arrivals %v", at)
	}
}

func TestReadTraceRejects(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":           {"", "empty"},
		"no rows":           {"TIMESTAMP\n", "no requests"},
		"no column":         {"time,x\n1,2\n", `want a column TIMESTAMP`},
		"no instant":        {"TIMESTAMP\nsoon\n", `line 2: TIMESTAMP is "soon"`},
		"backwards":         {"TIMESTAMP\n2023-11-16 10:00:01\n2023-11-16 10:00:00\n", "line 3: \"2023-11-16 10:00:00\" is 1s before"},
		"too far":           {"TIMESTAMP\n0001-01-01 00:00:00\n9999-01-01 00:00:00\n", "292 years"},
		"ragged":            {"TIMESTAMP,ContextTokens\n2023-11-16 10:00:01\n", "wrong number of fields"},
		"negative tokens":   {"TIMESTAMP,ContextTokens\n2023-11-16 10:00:01,-4\n", `ContextTokens: "-4"`},
		"tokens of letters": {"TIMESTAMP,GeneratedTokens\n2023-11-16 10:00:01,many\n", `GeneratedTokens: "many"`},
	} {
		if _, err := ReadTrace(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want it to say %q", name, err, c.want)
		}
	}
	if _, err := ReadTraceFile("testdata/none.csv"); err == nil {
		t.Error("a file that does not exist was read")
	}
	for _, speed := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300} {
		if _, err := (Trace{{}, {At: time.Hour}}).Compress(speed); err == nil {
			t.Errorf("speed %v was accepted", speed)
		}
	}
}

// Whatever the bytes, reading gives an error or a usable trace.
func FuzzReadTrace(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n")
	f.Add("\ufeffTIMESTAMP\n2023-11-16T18:17:03Z\n2023-11-16T18:17:04+01:00\n")
	f.Add("TIMESTAMP\n\"")
	f.Fuzz(func(t *testing.T, in string) {
		trace, err := ReadTrace(strings.NewReader(in))
		if (err == nil) != (len(trace) > 0) {
			t.Fatalf("%d rows, error %v", len(trace), err)
		}
		var last time.Duration
		for i, row := range trace {
			if row.At < last || row.ContextTokens < 0 || row.GeneratedTokens < 0 {
				t.Fatalf("row %d = %+v after %v", i, row, last)
			}
			last = row.At
		}
	})
}
