package follow_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/follow"
)

// What the stream takes while the subjects change comes once and in order: all of a subject that is always among them, and of another
// one all that was published while it was, although consumers are lost.
func TestChanging(t *testing.T) {
	js := jetStream(t)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	changing := follow.NewChanging(follow.Stream{JS: &deaf{JetStream: js}, Name: "T", Log: slog.New(slog.DiscardHandler)}, 0)
	var mu sync.Mutex
	got := map[string][]uint64{}
	last := uint64(0)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	always := []string{"t.always"}
	running.Go(func() {
		changing.Run(ctx, always, func(all []follow.Message) {
			mu.Lock()
			defer mu.Unlock()
			for i := range all {
				if all[i].Position <= last {
					t.Errorf("%d comes after %d", all[i].Position, last)
				}
				last = all[i].Position
				got[all[i].Subject()] = append(got[all[i].Subject()], last)
			}
		})
	})
	publish := func(subject string) uint64 {
		t.Helper()
		ack, err := js.Publish(t.Context(), subject, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		return ack.Sequence
	}
	var want []uint64
	var publishing sync.WaitGroup
	end := make(chan struct{})
	publishing.Go(func() { // all the time, so that much comes while the subjects change
		for {
			select {
			case <-end:
				return
			default:
				want = append(want, publish("t.always"))
			}
		}
	})
	must := map[string][]uint64{}
	for round := range 40 {
		subject := fmt.Sprint("t.", round%3)
		publish(subject) // before it is among them: it may come or not
		for changing.Change(t.Context(), append([]string{subject}, always...)) != nil {
			if t.Context().Err() != nil {
				t.Fatal("no change is made")
			}
		}
		for range 3 {
			must[subject] = append(must[subject], publish(subject))
			publish("t.other")
		}
		if round%8 == 1 {
			for name := range s.ConsumerNames(t.Context()).Name() {
				_ = s.DeleteConsumer(t.Context(), name)
			}
		}
		await := must[subject][len(must[subject])-1]
		for patience := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			mu.Lock()
			there := last >= await
			mu.Unlock()
			if there {
				break
			}
			if time.Now().After(patience) {
				t.Fatalf("round %d: only what is before %d has come, want %d", round, last, await)
			}
		}
	}
	close(end)
	publishing.Wait()
	for patience := time.Now().Add(time.Minute); time.Now().Before(patience); time.Sleep(time.Millisecond) {
		mu.Lock()
		there := last >= want[len(want)-1]
		mu.Unlock()
		if there {
			break
		}
	}
	stop()
	running.Wait()
	if fmt.Sprint(got["t.always"]) != fmt.Sprint(want) {
		t.Errorf("of what was always wanted %d have come, want %d", len(got["t.always"]), len(want))
	}
	for subject, all := range must {
		came := map[uint64]bool{}
		for _, at := range got[subject] {
			came[at] = true
		}
		for _, at := range all {
			if !came[at] {
				t.Errorf("%s: %d has not come", subject, at)
			}
		}
	}
	if n := len(got["t.other"]); n > 0 {
		t.Errorf("%d messages that were never wanted have come", n)
	}
}
