package live

import (
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
)

// Observers that come later are told of culprits too, after the one of the configuration.
func TestObserveCulprits(t *testing.T) {
	var told []string
	teller := func(name string) func(CulpritNotice) {
		return func(n CulpritNotice) { told = append(told, name+" "+n.Kind) }
	}
	cfg := GateConfig{Config: admission.Config{Objective: time.Second}}
	for range 2 {
		cfg.Culprit.Notify = teller("first")
		g, err := NewGate(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		g.ObserveCulprits(teller("second"))
		g.ObserveCulprits(teller("third"))
		if cfg.Culprit.Mode == culprit.Off {
			break // nothing is told, and nothing breaks
		}
		g.finder.notify(CulpritNotice{Kind: "report"})
		cfg.Culprit.Mode = culprit.Off
	}
	if want := []string{"first report", "second report", "third report"}; !slices.Equal(told, want) {
		t.Errorf("told %q, expected %q", told, want)
	}
}
