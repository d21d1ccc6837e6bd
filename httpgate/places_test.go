package httpgate

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestPlaces: what each request takes fits, with the 8 bytes that the runtime adds, into an allocation of 768 bytes at the
// server, and of 640 at the client. The next sizes are 896 and 704, so a byte more would cost 128, and whatever a request
// allocates brings the next collection of garbage nearer.
func TestPlaces(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("pointers are shorter here")
	}
	if n := unsafe.Sizeof(writer{}); n > 760 {
		t.Errorf("a request at the server takes %d bytes, expected at most 760", n)
	}
	if n := unsafe.Sizeof(exchange{}); n > 632 {
		t.Errorf("a request at the client takes %d bytes, expected at most 632", n)
	}
}
