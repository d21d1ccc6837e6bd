package semaphore

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
				td.MaybeScanArgs(t, "limit", &cfg.Limit)
				td.MaybeScanArgs(t, "queue", &cfg.Queue)
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

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{Limit: 0, Queue: -2})
	if err == nil || !strings.Contains(err.Error(), "Limit is 0") || !strings.Contains(err.Error(), "Queue is -2") {
		t.Errorf("error %v does not name both mistakes", err)
	}
}
