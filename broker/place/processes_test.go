package place

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The order to a process of the test: its number, a seed, how many changes to make, and the address of NATS.
const placerOrder = "SPILLGATE_TEST_PLACER"

// runPlacer makes random changes, one after the other, and says on its output which publishers of its own it has let join.
func runPlacer(order string) error {
	words := strings.Fields(order)
	number, seed, changes := words[0], words[1], words[2]
	n, _ := strconv.ParseUint(seed, 10, 64)
	times, _ := strconv.Atoi(changes)
	rng := rand.New(rand.NewPCG(n, 7))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	p, end, err := Dial(ctx, words[3])
	if err != nil {
		return err
	}
	defer end()
	for i := range times {
		topic, publisher := fmt.Sprint("t", rng.IntN(3)), fmt.Sprintf("%s-%d", number, rng.IntN(20))
		node, joins := fmt.Sprint("n", 1+rng.IntN(3)), rng.IntN(3) > 0
		kind := rng.IntN(6)
		_, err := p.Update(ctx, func(s *State) error {
			switch {
			case kind == 0: // of all processes
				return s.Drain(node, !s.Nodes[node].Draining)
			case joins:
				return s.Join(topic, Join{Publisher: publisher})
			}
			return s.Leave(topic, publisher)
		})
		if err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
		if kind > 0 {
			fmt.Println(map[bool]string{true: "joined", false: "left"}[joins], topic, publisher)
		}
	}
	fmt.Println("done")
	return nil
}

// Placers are processes that change a state at once, and one is killed meanwhile: what always holds holds at every revision, the others
// have exactly the publishers that they let join, and of the killed one no change but the last is in doubt.
func TestPlacersAsProcesses(t *testing.T) {
	url, stop, err := Embed("127.0.0.1:0", t.TempDir())
	must(t, err)
	defer stop()
	watcher, end, err := Dial(t.Context(), url)
	must(t, err)
	defer end()
	_, err = watcher.Update(t.Context(), func(s *State) error {
		for n := range 3 {
			if err := s.SetNode(fmt.Sprint("n", n+1), Node{Address: fmt.Sprint("h:", n+1), Capacity: 2000}); err != nil {
				return err
			}
			if err := s.SetTopic(fmt.Sprint("t", n), limits(500)); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	outputs := make([]bytes.Buffer, processes)
	first, over := startPlacers(t, url, outputs)
	for begun, killed := uint64(0), false; ; {
		s, revision, err := watcher.Load(t.Context())
		must(t, err)
		sound(t, s)
		if begun == 0 {
			begun = revision
		}
		if !killed && revision > begun+processes*changes/4 {
			killed = true
			must(t, first.Process.Kill())
		}
		select {
		case <-over:
			checkJoined(t, watcher, outputs)
			return
		case <-time.After(time.Millisecond):
		}
	}
}

const processes, changes, endless = 4, 60, 1 << 30

// startPlacers starts processes. They end with the test at the latest, and over is closed when all have ended. The first, which it
// returns, goes on until it is killed.
func startPlacers(t *testing.T, url string, outputs []bytes.Buffer) (first *exec.Cmd, over <-chan struct{}) {
	t.Helper()
	seed := rand.Uint64N(1e6)
	t.Log("seed ", seed)
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for i := range outputs {
		c, times := exec.CommandContext(t.Context(), os.Args[0]), changes
		if i == 0 {
			first, times = c, endless
		}
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d %s", placerOrder, i, seed+uint64(i), times, url))
		c.Stdout, c.Stderr = &outputs[i], os.Stderr
		must(t, c.Start())
		running.Go(func() {
			if err := c.Wait(); err != nil && i > 0 {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
	}()
	return first, ended
}

// checkJoined compares the state with what the processes said. The first was killed: what it did last it may not have said.
func checkJoined(t *testing.T, p *Placer, outputs []bytes.Buffer) {
	t.Helper()
	s, _, err := p.Load(t.Context())
	must(t, err)
	sound(t, s)
	for i := range outputs {
		var want, got []string
		done := false
		for lines := bufio.NewScanner(&outputs[i]); lines.Scan(); {
			what, of, _ := strings.Cut(lines.Text(), " ")
			want = slices.DeleteFunc(want, func(w string) bool { return w == of })
			if what == "joined" {
				want = append(want, of)
			}
			done = done || what == "done"
		}
		for topic, l := range s.Topics {
			for publisher := range l.Publishers {
				if strings.HasPrefix(publisher, fmt.Sprint(i, "-")) {
					got = append(got, topic+" "+publisher)
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		differ := slices.DeleteFunc(slices.Concat(want, got), func(w string) bool { return slices.Contains(want, w) && slices.Contains(got, w) })
		if most := map[bool]int{true: 0, false: 1}[done]; len(differ) > most || !done && i > 0 {
			t.Errorf("process %d let join %v, and the state has %v", i, want, got)
		}
	}
}
