// Package phpfpm looks at a pool of PHP-FPM, PHP 8.0 or later, through its status page and ends
// the request that it is told to.
//
//	status page ──── every look ──── workers, requests, since when ───┐
//	accept queue ─── every look ──── connections that no worker has ──┴─▶ track.Look
//	Act: hold the worker ─▶ still this request? ─▶ SIGTERM, or SIGKILL ─▶ let it go
//
// What it knows of FPM:
//
//   - A worker is a process with one request at a time. The master replaces it at once when it
//     ends; that is how FPM's own request_terminate_timeout cancels. Web servers answer 502 or 503.
//   - The page needs a worker of the pool, so it is dead when all are taken, unless
//     pm.status_listen gives it an address of its own: then the guard sees a full pool.
//   - The page tells the listen queue once a second, of TCP alone. The kernel knows it at once.
//
// Invariants: a worker is signalled only if it is one of FPM's processes that began when the page says and, while it is held,
// the page still shows the request of the look. It is held as a debugger does, so it goes on if
// the guard dies meanwhile. Where the kernel does not allow that, the page is read right before
// the signal instead.
//
// What this package does not do: it chooses nothing. It starts no request in the pool but for the
// page. Signals need the guard on the machine of the pool, as root or as its user.
package phpfpm
