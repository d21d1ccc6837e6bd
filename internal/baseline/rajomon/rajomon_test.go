package rajomon

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/internal/script"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script.Script{}
		var door *Door
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			switch td.Cmd {
			case "door":
				cfg := Config{Additive: td.HasArg("additive"), Threshold: 5 * time.Millisecond, Step: 1}
				td.MaybeScanArgs(t, "slots", &cfg.Slots)
				d, err := New(cfg)
				if err != nil {
					return err.Error()
				}
				door = d
				*s = script.Script{Door: d, State: func() string {
					return fmt.Sprintf("price=%d own=%.2f running=%d waiting=%d", d.Price(""), d.own, d.Running(), d.Waiting())
				}}
				return ""
			case "heard":
				var service string
				var price int
				td.ScanArgs(t, "service", &service)
				td.ScanArgs(t, "price", &price)
				door.OnAnswer(0, "", service, baseline.Feedback{Level: price})
				return s.State() + "\n"
			case "sender":
				c := NewSender()
				*s = script.Script{Sender: c, State: func() string { return fmt.Sprintf("price=%d", c.Price("")) }}
				return ""
			}
			return s.Run(td.Input)
		})
	})
}

// The law by hand: Step tokens for each Threshold of excess, rises from the third
// in a row on shrunk by 0.8ⁿ.
func TestPriceOracle(t *testing.T) {
	d, err := New(Config{Slots: 1, Threshold: 10 * time.Millisecond, Step: 2, Decay: 0.8})
	if err != nil {
		t.Fatal(err)
	}
	d.begun = true
	want := 0.0
	at := mono.Time(0)
	for i, delay := range []time.Duration{30, 30, 30, 30, 5, 0, 0, 20} {
		d.worst, d.next = delay*time.Millisecond, at
		d.OnWake(at)
		want += []float64{4, 4, 4 * 0.64, 4 * 0.512, -1, -2, -2, 2}[i]
		if math.Abs(d.own-want) > 1e-9 {
			t.Errorf("after period %d the price is %v, want %v", i, d.own, want)
		}
		at = at.Add(10 * time.Millisecond)
	}
	d.worst, d.next, d.rises = time.Hour, at, 0
	if d.OnWake(at); d.own != float64(MaxPrice) {
		t.Errorf("after an hour of delay the price is %v, want %v", d.own, MaxPrice)
	}
}

type owner string

func (o owner) Workflow() string { return string(o) }

// TestWorkflowsPayTheirOwnWay: what one workflow pays downstream is not another's
// price, at the door and at the sender.
func TestWorkflowsPayTheirOwnWay(t *testing.T) {
	d, _ := New(Config{Slots: 1})
	d.OnAnswer(0, "dear", "store", baseline.Feedback{Level: 70})
	d.OnAnswer(0, "dear", "store", baseline.Feedback{Reason: work.Canceled})
	if a, b := d.Price("dear"), d.Price("cheap"); a != 70 || b != 0 {
		t.Errorf("prices %d and %d, want 70 and 0", a, b)
	}
	s := NewSender()
	dear, cheap := &credit.Waiter{Owner: owner("dear")}, &credit.Waiter{Owner: owner("cheap")}
	s.OnReply(0, dear, 0, baseline.Feedback{Level: 70})
	s.OnReply(0, dear, 0, baseline.Feedback{Reason: work.Canceled})
	if step, _ := s.Submit(0, dear, work.MaxPriority-69); step != credit.Refuse {
		t.Error("69 tokens paid 70")
	}
	if step, _ := s.Submit(0, dear, work.MaxPriority-70); step != credit.Send {
		t.Error("70 tokens did not pay 70")
	}
	if step, _ := s.Submit(0, cheap, work.MaxPriority); step != credit.Send {
		t.Error("one workflow pays the other's price")
	}
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{Threshold: -1, Step: math.NaN(), Decay: 2})
	for _, want := range []string{"Slots is 0", "-1ns", "Step is NaN", "Decay is 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
