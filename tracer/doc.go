// Package tracer records what each task of a Go program holds and waits for, so that
// Spillgate's engine can name the task that blocks the others; it cancels the task that
// the engine names.
//
//	tr, err := tracer.Open(tracer.Config{Path: path})   // once; a nil Tracer traces nothing
//	orders := tr.NewMutex("orders")                     // in place of a sync.Mutex
//
//	ctx, task := tr.Begin(r.Context(), tracer.Info{Kind: updates})
//	defer task.End()
//	if err := orders.Lock(ctx); err != nil {            // ctx was cancelled
//		return err
//	}
//	defer orders.Unlock(ctx)
//
// The context of a cancelled task ends; context.Cause then returns an error that is
// ErrCancelled. Mutex, RWMutex, Pool, Queue and Cache record what they do under their
// names; Task has the events for everything else.
//
// Invariants: a nil *Tracer and a nil *Task are valid and do nothing, so instrumented code
// needs no conditions. An event takes no lock and allocates nothing. One goroutine at a
// time uses a task; Branch gives another goroutine, which works on the same request in
// parallel, a task of its own. A task is cancelled at most once, and not after End.
//
// What this package does not do: it decides nothing, and it records nothing outside of
// Begin and End. FORMAT.md describes the file; the directories beside this one have the
// same tracer for C and Java.
package tracer
