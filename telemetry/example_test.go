package telemetry_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/telemetry"
)

// A Go service serves the metrics of its gate beside its own.
func Example() {
	metrics, err := telemetry.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer metrics.Shutdown(context.Background())
	instruments, err := metrics.NewGate("orders", nil) // or a *slog.Logger for overload notices
	if err != nil {
		fmt.Println(err)
		return
	}
	gate, err := spillgate.NewWith(spillgate.Config{
		Config:  spillgate.Admission{Objective: 100 * time.Millisecond},
		Observe: instruments.Observe,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	stop, err := instruments.Watch(gate)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "spillgate_objective_seconds") {
			fmt.Print(line)
		}
	}
	// Output:
	// spillgate_objective_seconds{gate="orders"} 0.1
}
