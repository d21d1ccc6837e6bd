package model_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/admission"
	"github.com/spillgate/spillgate/baseline"
	"github.com/spillgate/spillgate/credit"
	"github.com/spillgate/spillgate/sim/model"
	"github.com/spillgate/spillgate/work"
)

func TestExplore(t *testing.T) {
	if os.Getenv("EXPLORE") == "" {
		t.Skip()
	}
	for _, load := range []float64{0.5, 0.9, 1, 1.2, 1.5, 2, 4, 10} {
		srv := model.Server{Cores: 10, Service: model.Service{Mean: 10 * time.Microsecond}}
		pol := model.Gated("spillgate", admission.Config{Objective: 200 * time.Microsecond}, credit.WalletConfig{})
		var gate baseline.Gate
		mk := pol.Door
		pol.Door = func(s uint64, l int) (baseline.Door, error) {
			d, err := mk(s, l)
			gate = d.(baseline.Gate)
			return d, err
		}
		w, err := model.New(model.Config{Seed: 1, Policy: pol, Objective: 200 * time.Microsecond, Server: srv,
			Groups:  []model.Group{{Name: "c", Clients: 1000, Load: model.Constant(load * srv.Capacity())}},
			Network: model.Network{Delay: 5 * time.Microsecond}, Warmup: 50 * time.Millisecond, Length: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, err := w.Run()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%.1fx good %.3f late %d p50 %v p99 %v busy %.3f msg %.3f grants %d demands %d fair %.2f tot %d iss %d slots %d svc %v exc %v | %.1f Mev/s\n", load, r.Goodput()/srv.Capacity(), r.Total.Late, r.Total.Response.Quantile(.5), r.Total.Response.Quantile(.99),
			r.Busy, r.Messages, r.Grants, r.Demands, r.Fairness(), gate.Pool().Total(), gate.Pool().Issued(), gate.Slots().Limit(), gate.Slots().Service(), gate.Slots().Excess(), float64(r.Events)/time.Since(start).Seconds()/1e6)
		for i, n := range r.Total.Refused {
			if n > 0 {
				fmt.Print("   ", work.Reason(i), " ", float64(n)/float64(r.Total.Offered))
			}
		}
		fmt.Println()
	}
}
