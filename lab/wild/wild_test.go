package wild

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/sim/model"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The worst seed counts, against the best semaphore of the same seed.
func TestJudge(t *testing.T) {
	r := row{world: model.Config{Objective: 100 * time.Millisecond}, to: time.Second}
	good := func(n int) *model.Report {
		return &model.Report{BinLength: time.Second, Bins: []model.Count{{Offered: 100, Good: n, Late: 100 - n}}}
	}
	reports := []*model.Report{
		good(90), good(80), good(100), good(60), // ours, plain clients, two semaphores
		good(45), good(50), good(40), good(50),
	}
	contender := []int{0, 1, 2, 3, 0, 1, 2, 3}
	if v := judge(r, reports, contender, 0); v.goodput != 0.9 || v.late != 0.55 {
		t.Errorf("ours: %+v, want 0.9 of the best and 0.55 late", v)
	}
	if v := judge(r, reports, contender, 1); v.goodput != 0.8 {
		t.Errorf("plain clients: %+v, want 0.8 of the best", v)
	}
}

// What the control core must not lose again: callers without a deadline are served,
// and long polls are not taken for slow service.
func TestRowsThatHold(t *testing.T) {
	if testing.Short() {
		t.Skip("two simulated worlds of 13 s")
	}
	for _, r := range rows(false) {
		forever, polled := r.name == "callers wait for ever, 3x", r.held == 8
		if !forever && !polled {
			continue
		}
		w := r.world
		s := contenders.Setting{Objective: w.Objective, Cores: workers, Service: w.Server.Service.Mean}
		w.Seed, w.Policy = 1, contenders.Spillgate(s)
		m, err := model.New(w)
		if err != nil {
			t.Fatal(err)
		}
		report, err := m.Run()
		if err != nil {
			t.Fatal(err)
		}
		c := report.Between(r.from, r.to)
		seconds := (r.to - r.from).Seconds()
		if share := float64(c.Good) / seconds / w.Server.Capacity(); forever && share < 0.9 {
			t.Errorf("%s: goodput is %.2f of the capacity, want 0.9 at least", r.name, share)
		}
		if polled && c.AllRefused() > 0 {
			t.Errorf("%s: %d requests refused, want none", r.name, c.AllRefused())
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := run(ctx, experiment.Options{Quick: true}); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, expected no result and the context's error", r, err)
	}
}
