package tracer_test

import (
	"context"
	"fmt"

	"github.com/spillgate/spillgate/tracer"
)

// A nil tracer traces nothing, and its locks work all the same, so that instrumented code
// needs no conditions. Open or Of make one that traces.
func Example() {
	var tr *tracer.Tracer
	orders := tr.NewMutex("orders")

	ctx, task := tr.Begin(context.Background(), tracer.Info{})
	defer task.End()
	if err := orders.Lock(ctx); err != nil { // the task was cancelled
		fmt.Println(err)
		return
	}
	defer orders.Unlock(ctx)
	fmt.Println("locked")
	// Output:
	// locked
}
