package culprits

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/table"
)

// The closed load of Atropos' figures: sysbench with as many threads.
const (
	closedThreads = 16
	closedWarm    = 3 * time.Second
)

// sysbench loads a bench with requests of a scene until ctx ends or length is over, and
// returns how many ended in each second. Each of its threads sends when its answer has
// come: a server that stops is sent nothing.
func sysbench(ctx context.Context, s *scene, b *bench, length time.Duration) ([]float64, error) {
	program, err := osexec.LookPath("sysbench")
	if err != nil {
		return nil, fmt.Errorf("the closed load: %w (Debian: sysbench)", err)
	}
	dir, err := os.MkdirTemp("", "spillgate-sysbench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "requests.lua")
	if err := os.WriteFile(script, []byte(s.lua()), 0o600); err != nil {
		return nil, err
	}
	args := append(append([]string{}, b.sysbench...), fmt.Sprintf("--threads=%d", closedThreads), fmt.Sprintf("--time=%.0f", length.Seconds()),
		"--report-interval=1", script, "run")
	out, err := osexec.CommandContext(ctx, program, args...).CombinedOutput()
	perSecond := sysbenchReport(out)
	// A server that stops may keep sysbench from ending.
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("sysbench: %w: %.400s", err, bytes.TrimSpace(out[max(len(out)-400, 0):]))
	}
	return perSecond, nil
}

// lua is the script that sends the scene's statements one after the other.
func (s *scene) lua() string {
	var text strings.Builder
	text.WriteString("function thread_init()\n  connection = sysbench.sql.driver():connect()\nend\n\nfunction event()\n")
	for _, statement := range s.statements {
		fmt.Fprintf(&text, "  connection:query(string.format(%q, sysbench.rand.uniform(1, %d)))\n", statement, rows)
	}
	text.WriteString("end\n")
	return text.String()
}

// sysbenchReport reads the lines "[ 3s ] thds: 16 tps: 5123.01 qps: …" of each second.
func sysbenchReport(out []byte) (perSecond []float64) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		_, rest, ok := strings.Cut(lines.Text(), " tps: ")
		if !ok || !strings.HasPrefix(lines.Text(), "[ ") {
			continue
		}
		if tps, err := strconv.ParseFloat(strings.Fields(rest + " ")[0], 64); err == nil {
			perSecond = append(perSecond, tps)
		}
	}
	return perSecond
}

// closed plays a scene with a closed load, and makes the table that the paper's figures
// compare with.
func (s *scene) closed(ctx context.Context, b *bench) (*table.Table, error) {
	t := &table.Table{Title: fmt.Sprintf("%s, closed load: sysbench with %d threads, from %v after the onset on", s.title, closedThreads, settle),
		Columns: []table.Column{{Name: "contender"}, {Name: "requests", Unit: "/s", Format: "%.0f"}, {Name: "of no culprit", Format: "%.3f"}, {Name: "worst second", Unit: "/s", Format: "%.0f"}}}
	var none float64
	for _, c := range contenders() {
		if c.run != nil && c.name != ours {
			continue
		}
		seconds, err := s.playClosed(ctx, b, c)
		if err != nil {
			return nil, err
		}
		from := int((closedWarm + settle) / time.Second)
		if len(seconds) <= from {
			return nil, fmt.Errorf("sysbench told of %d seconds, expected more than %d", len(seconds), from)
		}
		sum, worst := 0.0, seconds[from]
		for _, n := range seconds[from:] {
			sum += n
			worst = min(worst, n)
		}
		mean := sum / float64(len(seconds[from:]))
		if c.alone {
			none = mean
		}
		t.Add(c.name, mean, mean/none, worst)
		if err := s.mended(ctx, b); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// playClosed makes a run with one contender.
func (s *scene) playClosed(ctx context.Context, b *bench, c contender) ([]float64, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	if c.run != nil {
		wait, err := c.run(running, s, b, func(int64, string) {})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer func() {
			stop()
			wait()
		}()
	}
	var all sync.WaitGroup
	if !c.alone {
		for _, culprit := range s.culprits {
			all.Go(func() {
				select {
				case <-running.Done():
				case <-time.After(closedWarm):
					_ = culprit(running, b, 1, func(int64) {}) // a cancel is an error too
				}
			})
		}
	}
	length := closedWarm + s.lasts
	loading, enough := context.WithTimeout(running, length+grace)
	defer enough()
	seconds, err := sysbench(loading, s, b, length)
	stop()
	all.Wait()
	return seconds, errors.Join(err, ctx.Err())
}
