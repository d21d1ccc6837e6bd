package grpcgate

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestPlaces: what each call takes fits into an allocation of 480 bytes at the server, and of 352 at the client. The next
// sizes are 512 and 384.
func TestPlaces(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("pointers are shorter here")
	}
	if n := unsafe.Sizeof(incoming{}); n > 480 {
		t.Errorf("a call at the server takes %d bytes, expected at most 480", n)
	}
	if n := unsafe.Sizeof(outgoing{}); n > 352 {
		t.Errorf("a call at the client takes %d bytes, expected at most 352", n)
	}
}
