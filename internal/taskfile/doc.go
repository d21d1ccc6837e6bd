// Package taskfile shares, between an application and an engine in another
// process, what each running task of the application holds and waits for.
//
// A tracer writes slots and an engine reads them. Both are here, because the
// file's layout has to be in one place; tracer/FORMAT.md is normative.
//
//	tracer   Open ─▶ File.Begin ─▶ Slot.Acquire, WaitBegin, … ─▶ Slot.End
//	                                 │ shared memory
//	engine   Attach ─▶ Engine.Run: Tick, Reclaim, Look ─▶ SetMode, Cancel
//
// Invariants:
//
//  1. One process writes a slot; its token, process id and start time, is in
//     the slot. A dead owner's slot goes back to the free ones.
//  2. No event on the hot path takes a lock, allocates or enters the kernel;
//     mode precise reads the clock.
//  3. A size or an offset is computed from what was validated when the file was
//     opened. Whatever else a file holds, or comes to hold, yields wrong
//     numbers within bounds and nothing worse.
//  4. A file that loses its pages while an engine reads it is an error, no
//     crash.
//
// What this package does not do: it decides nothing, and knows no context and no
// lock of the application.
package taskfile
