package topics

import (
	"context"
	"os"
	"testing"

	"github.com/spillgate/spillgate/lab/experiment"
)

func TestTry(t *testing.T) {
	for _, e := range []experiment.Experiment{penalty(), concentration(), maxmin(), correlation(), noise(), convergence()} {
		r, err := e.Run(context.Background(), experiment.Options{Seed: 1, Quick: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, tb := range append(r.Table, r.BarTable()) {
			os.Stdout.WriteString(tb.Text(0))
		}
	}
}
