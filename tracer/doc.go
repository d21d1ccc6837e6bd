// Package tracer tells Spillgate's engine what each task of a Go program holds
// and waits for, and cancels the task that the engine names.
//
//	tr, err := tracer.Open(tracer.Config{Path: path})   // once; a nil Tracer traces nothing
//	orders := tr.NewMutex("orders")                     // instead of a sync.Mutex
//
//	ctx, task := tr.Begin(r.Context(), tracer.Info{Kind: updates})
//	defer task.End()
//	if err := orders.Lock(ctx); err != nil {            // ctx was cancelled
//		return err
//	}
//	defer orders.Unlock(ctx)
//
// A task that is cancelled sees its context end; context.Cause then returns an
// error that is ErrCancelled. Mutex, RWMutex, Pool, Queue and Cache record what
// they do under their names; Task has the events for everything else.
//
// Invariants: a nil *Tracer and a nil *Task are valid and do nothing, so
// instrumented code needs no conditions. An event takes no lock and allocates
// nothing. A task is used by one goroutine at a time; Branch gives another
// goroutine, which works on the same request in parallel, a task of its own. A
// task is cancelled once at most, and not after End.
//
// What this package does not do: it decides nothing, and it does not record
// what a program does without Begin. The format is described in FORMAT.md; the
// same tracer for C and Java is in the directories beside it.
package tracer
