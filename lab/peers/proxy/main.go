// Command proxy compares reverse proxies under overload: the same HTTP server
// behind Envoy without protection, with adaptive_concurrency, with
// admission_control, and behind `spillgate proxy`.
//
//	generator, core 1 ──▶ proxy, core 0 ──▶ upstream, core 0: 4 slots, mean 5 ms
//
//	go run ./proxy --envoy $(./envoy.sh) --spillgate ../../bin/spillgate
//
// The upstream sleeps, so that the core it shares with the proxy is not its
// bottleneck: its capacity is 800 requests/s by construction. The objective is
// 50 ms, which is also the client's timeout.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/table"
)

const (
	slots     = 4
	mean      = 5 * time.Millisecond
	objective = 50 * time.Millisecond
	rate      = float64(slots) / 0.005 // slots ÷ mean, per second
)

func main() {
	child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// row is the median of one proxy under one load.
type row struct {
	Load    float64       `json:"load"`
	Proxy   string        `json:"proxy"`
	Share   float64       `json:"goodput_share"`
	P99     time.Duration `json:"p99_ns"`
	Refused time.Duration `json:"refusal_p50_ns"`
	Lag     time.Duration `json:"lag_p99_ns"`
	Valid   int           `json:"valid"`
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	envoy := flags.String("envoy", "", "path of Envoy; see envoy.sh")
	spillgate := flags.String("spillgate", "", "path of spillgate")
	quick := flags.Bool("quick", false, "twice the capacity only, one run of 2 s each")
	asJSON := flags.Bool("json", false, "print JSON")
	repeats := flags.Int("repeats", 3, "how often everything runs; medians count")
	length := flags.Duration("length", 6*time.Second, "time of one run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	loads := []float64{1, 2, 4}
	if *quick {
		loads, *repeats, *length = []float64{2}, 1, 2*time.Second
	}
	if *repeats < 1 || *length < time.Second {
		return fmt.Errorf("--repeats is %d and --length %v, expected at least 1 and 1s", *repeats, *length)
	}
	proxies := []contender{{name: "direct"}}
	if *envoy != "" {
		for _, filter := range []string{"none", "adaptive_concurrency", "admission_control"} {
			proxies = append(proxies, contender{name: "envoy " + filter, envoy: *envoy, filter: filter})
		}
	}
	if *spillgate != "" {
		proxies = append(proxies, contender{name: "spillgate", spillgate: *spillgate})
	}

	type cell struct {
		load  float64
		proxy string
	}
	found := map[cell][]measured{}
	for repeat := range *repeats {
		for _, load := range loads {
			for _, p := range proxies {
				fmt.Fprintf(os.Stderr, "\r\x1b[K%d/%d %gx %s", repeat+1, *repeats, load, p.name)
				m, err := one(ctx, p, load, *length, uint64(repeat+1))
				if err != nil {
					fmt.Fprintln(os.Stderr)
					return fmt.Errorf("%s: %w", p.name, err)
				}
				found[cell{load, p.name}] = append(found[cell{load, p.name}], m)
			}
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	var rows []row
	for _, load := range loads {
		for _, p := range proxies {
			rows = append(rows, summarize(load, p.name, found[cell{load, p.name}]))
		}
	}
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	t := table.Table{
		Title: fmt.Sprintf("Reverse proxies before a server of %.0f/s, objective %v", rate, objective),
		Columns: []table.Column{{Name: "load"}, {Name: "proxy"}, {Name: "goodput", Unit: "of capacity", Format: "%.2f"},
			{Name: "p99 served"}, {Name: "refused knows"}, {Name: "lag p99"}, {Name: "valid"}},
		Note: "Medians of interleaved repeats, after the first quarter of each run. Proxy and upstream on one core, generator on another.",
	}
	for _, r := range rows {
		t.Add(strconv.FormatFloat(r.Load, 'g', -1, 64)+"x", r.Proxy, r.Share, r.P99.Round(100*time.Microsecond),
			r.Refused.Round(100*time.Microsecond), r.Lag.Round(10*time.Microsecond), fmt.Sprintf("%d/%d", r.Valid, *repeats))
	}
	return t.Print(os.Stdout)
}

// measured is one run.
type measured struct {
	Share             float64
	P99, Refused, Lag time.Duration
	Valid             bool
}

func summarize(load float64, proxy string, runs []measured) row {
	r := row{Load: load, Proxy: proxy}
	var shares []float64
	var p99, refused, lag []time.Duration
	for _, m := range runs {
		shares, p99 = append(shares, m.Share), append(p99, m.P99)
		refused, lag = append(refused, m.Refused), append(lag, m.Lag)
		if m.Valid {
			r.Valid++
		}
	}
	r.Share, r.P99, r.Refused, r.Lag = median(shares), median(p99), median(refused), median(lag)
	return r
}

func median[T float64 | time.Duration](list []T) T {
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

// errNoAnswer says that a generator ended without a result.
var errNoAnswer = errors.New("the generator gave no answer")

func parseAnswer(output string) (measured, error) {
	for line := range strings.Lines(output) {
		if text, ok := strings.CutPrefix(line, answerPrefix); ok {
			var m measured
			return m, json.Unmarshal([]byte(text), &m)
		}
	}
	return measured{}, errNoAnswer
}
