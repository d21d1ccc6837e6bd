package main

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/tracer"
)

// A program whose tasks queue behind one lock is seen as a task file tells it.
func TestTopOfATaskFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("task files are for Linux")
	}
	path := filepath.Join(t.TempDir(), "tasks")
	tr, err := tracer.Open(tracer.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	r, err := openTop(path, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	onlooker, err := openTop(path, 20*time.Millisecond) // the file has an engine now
	if err != nil {
		t.Fatal(err)
	}
	defer onlooker.Close()
	orders := tr.NewMutex("orders")
	ctx, task := tr.Begin(context.Background(), tracer.Info{})
	if err := orders.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctx, task := tr.Begin(context.Background(), tracer.Info{})
		defer task.End()
		if orders.Lock(ctx) == nil {
			orders.Unlock(ctx)
		}
	}()
	deadline := time.Now().Add(time.Minute)
	for _, r := range []topReader{r, onlooker} {
		seen(t, r, deadline)
	}
	orders.Unlock(ctx)
	task.End()
	<-ended
}

// seen waits until a reader shows who holds the orders, and who waits for them.
func seen(t *testing.T, r topReader, deadline time.Time) {
	t.Helper()
	for {
		s := r.Read(context.Background())
		if s.Error != "" {
			t.Fatal(s.Error)
		}
		if a := s.Apps[0]; len(a.Holding) == 1 && len(a.Waiting) == 1 {
			if a.Holding[0].Resource != "orders" || a.Waiting[0].Resource != "orders" || a.Holding[0].ID == a.Waiting[0].ID {
				t.Errorf("%+v", a)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("the lock is not seen: %+v", s.Apps[0])
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
}
