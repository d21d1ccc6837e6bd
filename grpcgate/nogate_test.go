package grpcgate

import (
	"fmt"
	"strings"
	"testing"
)

// A gate that was not made is said where it is used first.
func TestNoGate(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "spillgate.New") {
			t.Errorf("a nil gate panics with %q, expected how to make one", said)
		}
	}()
	ServerOptions(nil)
}
