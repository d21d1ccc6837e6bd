// Package apache looks at an Apache httpd through the task file of mod_spillgate
// (tracer/apache) and cancels what it is told to.
//
//	task file ─────── every look ──── requests, workers, time in the accept queue ──┐
//	/proc/net/tcp ─── every look ──── connections that no worker has accepted ──────┼─▶ track.Look
//	Act ─▶ cancel word of the task file ─▶ the thread in the worker's process       ┘
//	KeepOut ─▶ table of the task file ─▶ 503 for requests of a kind
//
// What it knows of Apache:
//
//   - A worker is held from the accept of a connection to its end, with a request, while one is
//     read and while none comes. Under prefork a worker is a process.
//   - mod_status needs a worker itself, so it says nothing when all are taken. The task file is
//     shared memory, and the accept queue is the kernel's: both are there then too.
//   - The accept queue is waited in for a worker only while all that there may be are taken. Else
//     Apache lacks a processor, or has yet to start a process, as after a restart.
//   - What waits is not with Apache yet: those are connections with a request that have no
//     socket of a process. They become requests whose wait the module tells.
//   - Only the worker's own process knows whether it still serves a request, so it does the
//     cancel, and ends itself if the request does not (tracer/apache). Threaded workers cannot
//     cancel; their requests have no step.
//
// Invariants: a cancel reaches the request that was named, or none. A look makes no request to
// Apache and takes no worker. When this process goes, Apache serves on; what is recorded while
// there is no guard costs nothing to speak of.
//
// What this package does not do: it chooses nothing, and it does not see what a request does
// elsewhere; of PHP-FPM behind Apache, guard/phpfpm sees the pool.
package apache
