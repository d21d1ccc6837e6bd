// Package solr looks at a core of Solr through the handlers of tracer/solr, or through the task file that they write,
// and cancels what it is told to.
//
//	task file ── every look, where there is one ─▶ track.Look;  cancel word ◀── Act;  kinds ◀── KeepOut
//
// Without a task file:
//
//	GET  core/spillgate ── every look ──▶ view ─▶ build ─▶ track.Look
//	POST core/spillgate?boot=…&cancel=… ◀── Act
//	POST core/spillgate?keep_out=… ◀── KeepOut
//
// What it knows of Solr:
//
//   - Solr itself lists only queries that ask for it, and of these only distributed ones, without
//     their begin. With the handlers of tracer/solr each query of a core is seen, with what its thread
//     used of processor and heap.
//   - A query waits for a slot where the core's handler has slots. What waits for a thread of the
//     server is not seen.
//   - A cancelled query ends where Solr checks its limits and, with the reader of tracer/solr, where it reads the
//     index: without that, not while a query with many clauses is made ready, which takes long.
//   - The core says of which kind a query is, and refuses kinds that are kept out.
//
// Invariants: a query is cancelled only if the core gave it its number since it was loaded; the core compares
// both itself. The core is sent nothing but reads, and cancels. An answer that is too large, late, or of another
// shape fails the look.
//
// What this package does not do: it chooses nothing. Literals of a query never leave the core.
package solr
