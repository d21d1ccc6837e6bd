package engine

import (
	"errors"
	"net"
	"testing"
	"time"
)

// A client that reads nothing for the time of a stall is known for that.
func TestStall(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	o := NewOutbox(here, 1<<20, 10*time.Millisecond)
	o.Send([]byte("nobody reads this"))
	for end := time.Now().Add(time.Minute); o.Err() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is open after a minute")
		}
	}
	if err := o.Err(); !errors.Is(err, ErrStalled) {
		t.Errorf("it was closed because of %v, want %v", err, ErrStalled)
	}
}
