package brief

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// Write writes what fits, in one piece or not, and says why not.
func TestWrite(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) (n int, failed error) {
		if err := raw.Write(func(fd uintptr) bool { n, failed = Write(int(fd), b); return true }); err != nil {
			t.Fatal(err)
		}
		return n, failed
	}
	for _, size := range []int{1, 1000, 100_000} {
		sent := make([]byte, size)
		sent[size-1] = 1
		got := make([]byte, size)
		for at, read := 0, 0; read < size; {
			if at < size {
				n, err := write(sent[at:])
				if err != nil && !errors.Is(err, syscall.EAGAIN) {
					t.Fatal(err)
				}
				at += max(n, 0)
			}
			n, err := r.Read(got[read:])
			if err != nil {
				t.Fatal(err)
			}
			read += n
		}
		if got[size-1] != 1 {
			t.Errorf("%d bytes came as others", size)
		}
	}
	r.Close()
	if _, err := write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write that nobody reads: %v", err)
	}
}
