// Package bed plays a world with real processes: each replica of a service is a process
// on loopback, and one more process plays all clients.
//
//	clients ──gRPC or HTTP──▶ gate │ semaphore │ peer │ nothing ──▶ workers, locks ──▶ steps: sleep, spin, call ──▶ next service
//	   │                          (proxy: a process in front)          in an Order          │
//	   └─ intended instants ── tally ──▶ world.Report, Requests ◀── looks, one a bin, Law ──┘
//
// A Peer is a control that an experiment adds: third-party control in front of gRPC
// servers, a Front before any server, gates or proxies with settings of their own, an
// Order of the requests that wait for a worker, or a Program that plays the services in
// place of this one. An experiment is a world, its peers, and bars on stretches of its
// requests. Takes that are compared with each other can be played at the same time.
//
// Invariants:
//
//   - A gate is told the objective of its service and nothing else about the world; the
//     gate of a Peer is told what the peer sets.
//   - The seed decides when requests are sent and how much work each of them is, the same
//     under every policy. The machine decides when the work is done.
//   - Only the record of the machine voids a report: late sends, processor time stolen by
//     the host, and other processes on the same processors.
//   - Every process ends with the run, even if the run is cut short.
//
// What this package does not do: it does not simulate. A message costs what it costs on
// this machine, whatever the world says, and a world with more processors than the machine
// is an error.
package bed
