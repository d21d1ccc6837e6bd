package httpgate

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
)

// A gate in front of itself would take two slots for each request.
func TestInstallTwice(t *testing.T) {
	gate := newGate(t, admission.Config{Objective: time.Second}, nil)
	s := &http.Server{Handler: http.NotFoundHandler()}
	Install(gate, s)
	Install(newGate(t, admission.Config{Objective: time.Second}, nil), s) // another gate, for what another part of the process serves
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "call Install once") {
			t.Errorf("the second Install panics with %q, expected what is wrong", said)
		}
	}()
	s = &http.Server{Handler: Handler(gate, nil)}
	Install(gate, s)
}
