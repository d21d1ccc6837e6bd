package fastrpc

import (
	"fmt"
	"strings"
	"testing"
)

// A method without a handler is said when it is registered, and not at its first call.
func TestNoHandler(t *testing.T) {
	s, err := NewServer(ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, `"get" has no handler`) {
			t.Errorf("the panic says %q, expected the method", said)
		}
	}()
	s.Handle("get", nil)
}
