package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/engine"
)

// Broker describes a message broker of one node.
type Broker struct {
	Name string `json:"name"`
	// Rate and Burst are those of each topic, in messages/s and messages; 0 limits
	// nothing.
	Rate  float64 `json:"rate,omitempty"`
	Burst float64 `json:"burst,omitempty"`
	// Queue is the most messages of a topic that wait for its rate; what comes beyond is
	// refused.
	Queue int `json:"queue,omitempty"`
}

// feedTopics are the topics of the demo.
const feedTopics = "plant/+"

// drainTime is how long a broker that ends goes on releasing messages: the act is over.
const drainTime = 50 * time.Millisecond

func (s Broker) config() broker.Config {
	cfg := broker.Config{Listen: []string{"127.0.0.1:0"}, Drain: broker.Drain{Timeout: drainTime}}
	if s.Rate > 0 {
		cfg.Limits = []engine.Limit{{Filter: feedTopics, Rate: s.Rate, Burst: s.Burst, Queue: s.Queue}}
	}
	return cfg
}

// run serves until ctx ends.
func (s Broker) run(ctx context.Context, out *writer) error {
	b, err := broker.New(s.config(), slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("demo: %s: %w", s.Name, err)
	}
	if err := b.Listen(); err != nil {
		return fmt.Errorf("demo: %s: %w", s.Name, err)
	}
	clients, _ := b.Addresses()
	if len(clients) != 1 {
		return errors.New("demo: the broker has no address")
	}
	reporting, stop := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { report(reporting, out, func() *Report { return s.report(b) }) })
	defer reports.Wait()
	defer stop()
	out.text("listening on " + clients[0])
	return b.Run(ctx)
}

// report says what waits for its rate, and what was not taken or not delivered.
func (s Broker) report(b *broker.Broker) *Report {
	st := b.Status()
	r := &Report{Name: s.Name, Gated: s.Rate > 0, Shed: map[string]uint64{}, Clients: st.Connections}
	for _, l := range st.Limits {
		r.Waiting += l.Backlog
		for reason, n := range l.Refused {
			r.Shed[reason] += n
		}
	}
	for reason, n := range st.Dropped {
		r.Shed[reason] += n
	}
	return r
}
