package chains

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/config"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/proxy"
	"github.com/spillgate/spillgate/work"
)

// The test binary is also the program of the children, and as much of `spillgate
// proxy` as a bed calls.
func TestMain(m *testing.M) {
	Child()
	if len(os.Args) == 4 && os.Args[1] == "proxy" && os.Args[2] == "--config" {
		if err := runProxy(os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func runProxy(file string) error {
	f, err := config.Load(file)
	if err != nil {
		return err
	}
	p, err := proxy.New(f.Proxy, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return p.Run(ctx)
}

func processes(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

const ms = time.Millisecond

// A light load, so that a busy machine keeps up with it.
func lightLoad(seed uint64, d time.Duration) Load {
	return Load{Chains: openloop.Steady(60, d), Singles: openloop.Steady(240, d), Least: 1000, Most: 2000, Seed: seed}
}

func TestDisciplines(t *testing.T) {
	ctx := processes(t)
	for _, d := range []Discipline{
		{Name: "fifo", Kind: FIFO}, {Name: "0.9", Kind: Weighted, Weight: 0.9}, {Name: "priority", Kind: Weighted, Weight: 1},
		{Name: "lottery", Kind: Lottery, Weight: 0.9}, {Name: "static", Kind: Static, Weight: 0.5}, {Name: "share", Kind: Share},
	} {
		t.Run(d.Name, func(t *testing.T) {
			b, err := StartServices(ctx, Setting{Mean: 5 * ms, Seed: 1}, d)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			m, err := b.Run(ctx, lightLoad(1, 3*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			c, err := b.Counts(ctx)
			if err != nil {
				t.Fatal(err)
			}
			law, ok := c.LawDistance()
			t.Logf("chains %+v", m.Class[work.Interactive].Mean)
			t.Logf("singles %+v lag %v invalid %v", m.Class[work.Default].Mean, m.Lag, m.Invalid)
			t.Logf("counts %+v law %v %v", c, law, ok)
		})
	}
	_ = errors.Is
	_ = io.EOF
	_ = http.StatusOK
	_ = strings.Contains
}

func TestTomcats(t *testing.T) {
	ctx := processes(t)
	began := time.Now()
	b, err := StartTomcats(ctx, Setting{Mean: 10 * ms, Seed: 1})
	if errors.Is(err, ErrNoTomcat) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	t.Log("started in", time.Since(began))
	for _, m := range Modes() {
		began = time.Now()
		if err := b.Front(ctx, "", m); err != nil {
			t.Fatal(err)
		}
		t.Log("proxies in", time.Since(began))
		l := Load{Chains: openloop.Steady(30, 8*time.Second), Singles: openloop.Steady(120, 8*time.Second), Least: smallLeast, Most: smallMost, Seed: 1, From: 3 * time.Second}
		got, err := b.Run(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		c, err := b.Counts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, cl := range got.Class {
			cl.Series = nil
			t.Logf("%+v", cl)
		}
		t.Logf("%v lag %v invalid %v counts %+v", m.Name, got.Lag, got.Invalid, c)
	}
}
