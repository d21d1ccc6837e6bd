package spillgate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate"
)

// An objective without a unit is nanoseconds, and a mistake.
func TestAnObjectiveWithoutAUnit(t *testing.T) {
	for objective, want := range map[time.Duration]string{
		100: "the objective is 100ns, expected 10µs or more",
		0:   "Objective is 0s",
		-1:  "Objective is -1ns",
	} {
		if _, err := spillgate.New(objective); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%d): %v, want it to say %q", int64(objective), err, want)
		}
		if _, err := spillgate.NewWith(spillgate.Config{Config: spillgate.Admission{Objective: objective}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewWith(%d): %v, want it to say %q", int64(objective), err, want)
		}
	}
	gate, err := spillgate.New(spillgate.LeastObjective)
	if err != nil {
		t.Fatal(err)
	}
	gate.Close()
}

// A mistake in the objective hides no other.
func TestAllMistakesWithTheObjective(t *testing.T) {
	_, err := spillgate.NewWith(spillgate.Config{Config: spillgate.Admission{Objective: 100, QueueLimit: -1}})
	if err == nil || !strings.Contains(err.Error(), "100ns") || !strings.Contains(err.Error(), "QueueLimit is -1") {
		t.Errorf("%v, expected both mistakes", err)
	}
}

// MustNew takes what New takes, and panics with the mistake otherwise.
func TestMustNew(t *testing.T) {
	_ = spillgate.MustNew(time.Second).Close()
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "counts nanoseconds") {
			t.Errorf("the panic is %v, expected New's error", err)
		}
	}()
	spillgate.MustNew(100)
}
