package http1

import (
	"net"
	"net/http"
	"reflect"
	"testing"
)

// same has an answer read by this package and by http.Transport, and reports where they differ.
func same(t testing.TB, name, method string, reset bool, pieces ...[]byte) {
	t.Helper()
	var got [2]seen
	var errs [2]error
	for i, side := range [...]func(net.Conn) (http.RoundTripper, func()){ours, theirs} {
		copied := make([][]byte, 0, len(pieces))
		for _, p := range pieces {
			if len(p) > 0 {
				copied = append(copied, p)
			}
		}
		rt, end := side(play(reset, copied...))
		got[i], errs[i] = ask(t, method, rt)
		end()
	}
	if !reflect.DeepEqual(got[0], got[1]) {
		t.Errorf("%s, %s:\nhere           %+v, %v\nhttp.Transport %+v, %v", name, method, got[0], errs[0], got[1], errs[1])
	}
}

// Every answer of the table is what http.Transport takes it for: whole, in two pieces cut at any byte, byte by byte,
// cut short at any byte with the end or a reset after it.
func TestAnswersAsHTTPTransport(t *testing.T) {
	for _, a := range table(t) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			raw := []byte(a.raw)
			for _, method := range []string{"GET", "HEAD", "POST"} {
				same(t, "whole", method, false, raw)
				same(t, "then reset", method, true, raw)
			}
			step := max(1, len(raw)/300)
			for at := 0; at < len(raw); at += step {
				same(t, "in two", "GET", false, raw[:at], raw[at:])
				same(t, "cut short", "GET", false, raw[:at])
				same(t, "broken off", "GET", true, raw[:at])
			}
			if len(raw) <= 2000 {
				var bytes [][]byte
				for i := range raw {
					bytes = append(bytes, raw[i:i+1])
				}
				same(t, "byte by byte", "GET", false, bytes...)
			}
		})
	}
}

// FuzzAnswers compares what is read of any bytes with what http.Transport reads.
func FuzzAnswers(f *testing.F) {
	for _, a := range table(f) {
		if len(a.raw) <= 4000 {
			f.Add([]byte(a.raw), uint8(0), uint16(len(a.raw)/2))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, method uint8, cut uint16) {
		at := min(int(cut), len(raw))
		methods := [...]string{"GET", "HEAD", "POST"}
		same(t, "fuzzed", methods[int(method)%len(methods)], method&4 != 0, raw[:at], raw[at:])
	})
}
