package follow_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/follow"
	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	url, stop, err := place.Embed("127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// deaf is a JetStream that makes every other consumer without saying so, as where the node
// is dead that it is placed on. It takes no name twice.
type deaf struct {
	jetstream.JetStream
	mu    sync.Mutex
	names []string
}

func (d *deaf) CreateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	c, err := d.JetStream.CreateConsumer(ctx, stream, cfg)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := c.CachedInfo().Name
	if slices.Contains(d.names, name) {
		return nil, jetstream.ErrConsumerExists
	}
	if d.names = append(d.names, name); len(d.names)%2 == 1 {
		return nil, context.DeadlineExceeded
	}
	return c, nil
}

// What a stream has is handled once and in order, although consumers are lost.
func TestFollow(t *testing.T) {
	js := jetStream(t)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{JetStream: js}
	stream := follow.Stream{JS: d, Name: "T", Log: slog.New(slog.DiscardHandler)}
	var mu sync.Mutex
	var got []uint64
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(got) }
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() {
		stream.Follow(ctx, 1, func(all []follow.Message) {
			mu.Lock()
			defer mu.Unlock()
			for i := range all {
				got = append(got, all[i].Position)
			}
		})
	})
	const rounds, each = 4, 50
	for round := range rounds {
		for range each {
			if _, err := d.Publish(t.Context(), "t", nil); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(time.Minute); count() < (round+1)*each-1; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d: %d messages came", round, count())
			}
		}
		for name := range s.ConsumerNames(t.Context()).Name() {
			_ = s.DeleteConsumer(t.Context(), name) // some are deleted twice over
		}
	}
	for i, at := range got {
		if want := uint64(i + 2); at != want {
			t.Fatalf("message %d is at %d of the stream, want %d", i, at, want)
		}
	}
	if len(d.names) < 2*rounds-1 {
		t.Errorf("only %d consumers were made", len(d.names))
	}
}
