package spillgate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate"
)

// A gate needs the objective and nothing else. Do runs work that is no request, such as a
// job or a message from a queue.
func Example() {
	gate, err := spillgate.New(100 * time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()

	err = gate.Do(context.Background(), "resize", func(context.Context) error {
		fmt.Println("resized")
		return nil
	})
	fmt.Println(err, gate.Stats().Running)
	// Output:
	// resized
	// <nil> 0
}

// Every mistake in a configuration is reported at once.
func ExampleNewWith() {
	_, err := spillgate.NewWith(spillgate.Config{Config: spillgate.Admission{Objective: -time.Second, QueueLimit: -1}})
	fmt.Println(err)
	// Output:
	// admission: Objective is -1s, expected above 0: the latency objective, for example 100ms
	// admission: QueueLimit is -1, expected 1 or more requests, or 0 for the default
}

// A refused request has a reason, and says whether another attempt can help.
func ExampleRefusal() {
	gate, err := spillgate.New(100 * time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	gate.Drain() // the process is about to end

	err = gate.Do(context.Background(), "resize", func(context.Context) error { return nil })
	var refusal *spillgate.Refusal
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Reason, refusal.Reason.Retryable())
	}
	// Output:
	// draining true
}

// A program says what its requests are, where it makes them.
func ExampleWithTags() {
	ctx := spillgate.WithTags(context.Background(), spillgate.Tags{Workflow: "nightly", Priority: 20})
	tags := spillgate.TagsFrom(ctx) // what a client sends with ctx, if its server trusts it
	fmt.Println(tags.Workflow, tags.Class, tags.Priority)
	// Output:
	// nightly default 20
}
