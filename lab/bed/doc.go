// Package bed decides how a world is played by real processes: each replica of a
// service is a process on loopback, and one more process is all clients.
//
//	clients ──gRPC or HTTP──▶ gate │ semaphore │ peer │ nothing ──▶ workers, locks ──▶ steps: sleep, spin, call ──▶ next service
//	   │                          (proxy: a process in front)          in an Order          │
//	   └─ intended instants ── tally ──▶ world.Report, Requests ◀── looks, one a bin, Law ──┘
//
// A Peer is a control that an experiment brings along: somebody else's in front of gRPC
// servers or, as a Front, of any, gates or proxies with settings of their own, an Order of
// those who wait inside, a Program that plays the services in place of this one. An experiment is a world, its
// peers, and bars on stretches of what became of the requests; Abreast plays takes of it
// that are compared at the same time.
//
// Invariants:
//
//   - A gate knows the objective of its service and nothing else that the world says;
//     that of a Peer is told what the peer says.
//   - The seed decides when requests are sent and what work each of them asks for,
//     under every policy alike. When it is done is up to the machine.
//   - Only the record of the machine makes a report void: how late requests left,
//     what the host stole, what other processes used of the same processors.
//   - Every process ends with the run, also when the run is cut short.
//
// What this package does not do: it does not simulate. What a message costs is what
// this machine takes, whatever the world says of it, and a world with more
// processors than the machine is an error.
package bed
