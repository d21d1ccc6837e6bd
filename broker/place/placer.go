package place

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/follow"
)

const (
	// bucketName names the JetStream key-value bucket that holds the state.
	bucketName = "spillgate-place"
	// key is the state's key in that bucket.
	key = "state"
	// bucketStream is the bucket as a stream, which holds that key alone. deletedHeader is on
	// a value there that was deleted.
	bucketStream  = "KV_" + bucketName
	deletedHeader = "KV-Operation"
	// toldSubject is where a state is told, with its revision in front, by who has written it.
	toldSubject = "spillgate.place.told"
	// maxState is the largest packed state in bytes, enough for about a hundred thousand publishers. A change that
	// would make the state larger is refused. A NATS server takes messages of 1 MiB unless told otherwise, headers included.
	maxState = 1<<20 - 4096
	// maxUnpacked bounds what is read, in bytes.
	maxUnpacked = 64 << 20
	// history is how many older states are kept, to be looked at by hand.
	history = 5
	// longestPause is the most between two attempts of a change, where another placer was
	// faster: some writes to a cluster.
	longestPause = 20 * time.Millisecond
	// tryTime is how long NATS may take to answer before it is asked again: a server that has died, or leads no more, never does.
	tryTime = 2 * time.Second
)

// ErrBusy is of a change that others' changes overtook until its context ended.
var ErrBusy = errors.New("place: other placers keep changing the state; try again later")

// Placer decides on a state that it shares with others. It is safe for concurrent use.
type Placer struct {
	js  jetstream.JetStream
	kv  jetstream.KeyValue
	now func() time.Time
	// turn is held during a change: those of one process wait for each other instead of overtaking each other.
	turn chan struct{}

	// joining collects publishers that ask for their places, so that a thousand that connect at once are one reading and one change.
	mu      sync.Mutex
	joining map[string]*batch
}

// Open uses the state on the server of a connection, and makes it if there is none, with
// so many copies at NATS servers, or more if it has more; 0 is 1.
func Open(ctx context.Context, nc *nats.Conn, replicas int) (*Placer, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("place: %w", err)
	}
	kv, err := Bucket(ctx, js, jetstream.KeyValueConfig{Bucket: bucketName, Description: "topics, nodes and where publishers are",
		History: history, Storage: jetstream.FileStorage, Replicas: max(replicas, 1)})
	if err != nil {
		return nil, fmt.Errorf("place: the state in JetStream (is it on at %s?): %w", nc.ConnectedUrlRedacted(), err)
	}
	return &Placer{js: js, kv: kv, now: time.Now, turn: make(chan struct{}, 1), joining: map[string]*batch{}}, nil
}

// Load returns the state and its revision, 0 if there is none yet.
func (p *Placer) Load(ctx context.Context) (*State, uint64, error) {
	s := &State{}
	entry, err := p.get(ctx, func(ctx context.Context) (jetstream.KeyValueEntry, error) { return p.kv.Get(ctx, key) })
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		s.fillIn()
		return s, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("place: reading the state: %w", err)
	}
	if err := unpack(entry.Value(), s); err != nil {
		return nil, 0, fmt.Errorf("place: the state of revision %d: %w", entry.Revision(), err)
	}
	return s, entry.Revision(), nil
}

// Watch sends the state whenever it has changed, and first as it is, until ctx ends. Of
// several that nobody took yet only the last is sent. to has room for one.
func (p *Placer) Watch(ctx context.Context, to chan *State, log *slog.Logger) {
	var mu sync.Mutex
	newest := uint64(0)
	take := func(revision uint64, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		if revision <= newest {
			return
		}
		newest = revision
		s := &State{}
		if err := unpack(data, s); err != nil {
			log.Warn("the state cannot be read", "revision", revision, "error", err)
			return
		}
		select {
		case <-to:
		default:
		}
		to <- s // nobody else sends meanwhile
	}
	told, err := p.js.Conn().Subscribe(toldSubject, func(m *nats.Msg) {
		if revision, n := binary.Uvarint(m.Data); n > 0 {
			take(revision, m.Data[n:])
		}
	})
	if err == nil { // else the stream tells it, somewhat later at times
		defer func() { _ = told.Unsubscribe() }()
	}
	follow.Stream{JS: p.js, Name: bucketStream, Log: log}.Follow(ctx, 0, func(all []follow.Message) {
		last := all[len(all)-1]
		if last.Left == 0 && last.Headers().Get(deletedHeader) == "" { // else a later one comes, or there is none
			take(last.Position, last.Data())
		}
	})
}

// tell tells those that watch of a state that was written: who reads the stream through a server that has just died learns of it seconds later.
func (p *Placer) tell(revision uint64, data []byte) {
	_ = p.js.Conn().Publish(toldSubject, append(binary.AppendUvarint(nil, revision), data...)) // the stream tells it, too
}

// Update changes the state: it loads it, lets change change it, and writes it if no other placer did meanwhile,
// otherwise it starts over, until ctx ends. An error of change ends it, and nothing is written. The state that it returns is
// what was written.
func (p *Placer) Update(ctx context.Context, change func(*State) error) (*State, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.turn }()
	return p.update(ctx, change)
}

// update is Update for the goroutine that has the turn.
func (p *Placer) update(ctx context.Context, change func(*State) error) (*State, error) {
	for longest := time.Millisecond; ; longest = min(2*longest, longestPause) {
		s, revision, err := p.changed(ctx, change)
		if err != nil {
			return nil, err
		}
		err = p.write(ctx, s, revision)
		if err == nil {
			return s, nil
		}
		// Servers that keep several copies say of a change that was overtaken something else than one that keeps the only one.
		if !errors.Is(err, jetstream.ErrKeyExists) && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return nil, fmt.Errorf("place: writing the state: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		case <-time.After(rand.N(longest)): // by chance, or the same two meet again
		}
	}
}

// write writes the state if it is still of a revision; jetstream.ErrKeyExists or ErrKeyRevisionMismatch if not.
func (p *Placer) write(ctx context.Context, s *State, revision uint64) error {
	data, err := pack(s)
	if err != nil {
		return err
	}
	if len(data) > maxState {
		return fmt.Errorf("it would be %d bytes, expected at most %d: remove topics or publishers, or use another cluster", len(data), maxState)
	}
	for unanswered := false; ; unanswered = true {
		var written uint64
		once, cancel := context.WithTimeout(ctx, tryTime)
		if revision == 0 {
			written, err = p.kv.Create(once, key, data)
		} else {
			written, err = p.kv.Update(once, key, data, revision)
		}
		cancel()
		switch {
		case err == nil:
			p.tell(written, data)
			return nil
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // again: it is written once, by its revision
		case unanswered && p.wrote(ctx, data, revision):
			return nil
		default:
			return err
		}
	}
}

// wrote reports whether data followed a state of a revision, also where others have changed it since: what was written was answered by
// nobody. The bucket has no other key, so the next state has the next revision; the first one may follow a deleted one, and have any.
func (p *Placer) wrote(ctx context.Context, data []byte, revision uint64) bool {
	next := func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		if revision == 0 {
			return p.kv.Get(ctx, key)
		}
		return p.kv.GetRevision(ctx, key, revision+1)
	}
	for range 10 { // a server that keeps a copy may not have the latest yet
		entry, err := p.get(ctx, next)
		if !errors.Is(err, jetstream.ErrKeyNotFound) {
			return err == nil && bytes.Equal(entry.Value(), data)
		}
		time.Sleep(longestPause)
	}
	return false
}

// get reads a state as it is stored, again where nobody answers.
func (p *Placer) get(ctx context.Context, read func(context.Context) (jetstream.KeyValueEntry, error)) (entry jetstream.KeyValueEntry, err error) {
	for {
		once, cancel := context.WithTimeout(ctx, tryTime)
		entry, err = read(once)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return entry, err
		}
	}
}

// Try returns what change would make of the state, and writes nothing.
func (p *Placer) Try(ctx context.Context, change func(*State) error) (*State, error) {
	s, _, err := p.changed(ctx, change)
	return s, err
}

// changed returns what change makes of the state of a revision.
func (p *Placer) changed(ctx context.Context, change func(*State) error) (s *State, revision uint64, err error) {
	if s, revision, err = p.Load(ctx); err != nil {
		return nil, 0, err
	}
	if err := change(s); err != nil {
		return nil, 0, err
	}
	s.stamp(p.now())
	return s, revision, nil
}

// stamp dates moves that a change made.
func (s *State) stamp(now time.Time) {
	for i := range s.Moves {
		if s.Moves[i].At.IsZero() {
			s.Moves[i].At = now.UTC()
		}
	}
}

// fillIn makes the maps.
func (s *State) fillIn() {
	if s.Nodes == nil {
		s.Nodes = map[string]Node{}
	}
	if s.Topics == nil {
		s.Topics = map[string]*Topic{}
	}
}

func pack(s *State) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

// unpack reads a state and checks that it is one.
func unpack(data []byte, s *State) error {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("it is not a state: %w", err)
	}
	limited := &io.LimitedReader{R: r, N: maxUnpacked}
	if err := json.NewDecoder(limited).Decode(s); err != nil {
		if limited.N <= 0 {
			err = fmt.Errorf("more than %d bytes", maxUnpacked)
		}
		return fmt.Errorf("it is not a state: %w", err)
	}
	s.fillIn()
	for name, t := range s.Topics {
		if t == nil {
			return fmt.Errorf("it is not a state: topic %q is null", name)
		}
		if t.Publishers == nil {
			t.Publishers = map[string]Publisher{}
		}
	}
	return nil
}
