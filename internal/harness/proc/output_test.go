package proc

import (
	"strings"
	"testing"
)

// The ready line is found however the output is cut into pieces.
func TestReadyLineInPieces(t *testing.T) {
	const text = "log\nnot listening on a\nlistening on 127.0.0.1:9 now\nlistening on 127.0.0.1:10\n"
	for size := 1; size <= len(text); size++ {
		o := newOutput("listening on ", nil)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := o.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		select {
		case addr := <-o.ready:
			if addr != "127.0.0.1:9" {
				t.Errorf("pieces of %d: address %q", size, addr)
			}
		default:
			t.Errorf("pieces of %d: not found", size)
		}
		if o.tail() != text {
			t.Errorf("pieces of %d: tail %q", size, o.tail())
		}
	}
}

// Any amount of output, with or without line ends, is kept within limits.
func TestOutputIsBounded(t *testing.T) {
	o := newOutput("listening on ", nil)
	for range 100 {
		_, _ = o.Write([]byte(strings.Repeat("x", 10_000)))
	}
	if len(o.tail()) != tailBytes || len(o.line) > lineBytes {
		t.Errorf("%d bytes of output and %d of line kept, want %d and at most %d", len(o.tail()), len(o.line), tailBytes, lineBytes)
	}
	_, _ = o.Write([]byte("\nlistening on\nlistening on here\n"))
	if addr := <-o.ready; addr != "here" {
		t.Errorf("address %q after a long line", addr)
	}
	if len(o.quote()) > quoted+50 {
		t.Errorf("an error would quote %d bytes", len(o.quote()))
	}
}
