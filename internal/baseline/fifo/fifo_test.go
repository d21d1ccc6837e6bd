package fifo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/baseline/internal/script"
)

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script.Script{}
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			if td.Cmd == "new" {
				var cfg Config
				td.MaybeScanArgs(t, "slots", &cfg.Slots)
				td.MaybeScanArgs(t, "queue", &cfg.QueueLimit)
				cfg.Blind = td.HasArg("blind")
				d, err := New(cfg)
				if err != nil {
					return err.Error()
				}
				*s = script.Script{Door: d, State: func() string {
					return fmt.Sprintf("running=%d waiting=%d", d.Running(), d.Waiting())
				}}
				return ""
			}
			return s.Run(td.Input)
		})
	})
}

func TestConfigMistakes(t *testing.T) {
	for want, cfg := range map[string]Config{"Slots is 0": {}, "QueueLimit is -1": {Slots: 1, QueueLimit: -1}} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want it to say %q", cfg, err, want)
		}
	}
}
