package culprits

import (
	"slices"
	"strings"
	"testing"
)

// The closed load sends what the open one does, each statement with one key.
func TestClosedLoad(t *testing.T) {
	for _, s := range scenes() {
		for _, statement := range s.statements {
			if strings.Count(statement, "%d") != 1 || strings.Count(statement, "%") != 1 {
				t.Errorf("%s: %q, expected one %%d", s.name, statement)
			}
			if !strings.Contains(s.lua(), statement) {
				t.Errorf("%s: %q is not in its script", s.name, statement)
			}
		}
	}
	out := []byte("sysbench 1.0.20\nThreads started!\n\n[ 1s ] thds: 16 tps: 5123.01 qps: 10246.02 (r/w/o: 1/2/0) lat (ms,95%): 9.73\n" +
		"[ 2s ] thds: 16 tps: 0.00 qps: 0.00\n    transactions:  103    (51.39 per sec.)\n")
	if got := sysbenchReport(out); !slices.Equal(got, []float64{5123.01, 0}) {
		t.Errorf("%v, expected 5123.01 and 0", got)
	}
}
