package telemetry

import (
	"strings"
	"testing"

	"github.com/spillgate/spillgate/live"
	"github.com/spillgate/spillgate/wire"
)

func TestUntaggedCalls(t *testing.T) {
	telemetry := newTelemetry(t)
	var u live.Untagged
	stop, err := WatchUntagged(telemetry.Meter(), &u)
	if err != nil {
		t.Fatal(err)
	}
	u.Served(&wire.Tags{Workflow: "w"})
	for range 3 {
		u.Called(t.Context(), "/shop.Shop/Buy")
	}
	if got, want := scrape(t, telemetry), `spillgate_untagged_total{method="/shop.Shop/Buy"} 3`; !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(scrape(t, telemetry), "spillgate_untagged_total{") {
		t.Error("reported after stop")
	}
}
