// Package chains decides how chains of services are put to the test on the real
// clock: requests that queue at four servers one after the other, and requests
// that queue at one, side by side (D3G's setting).
//
//	           function order: a chain             function page: one server
//	generator ──▶ front a ──▶ server a ┐          generator ──▶ front c ──▶ server c
//	              front b ◀────────────┘
//	              front b ──▶ server b ┐
//	              …       ◀────────────┘
//
// There are two beds. Tomcats are unmodified Tomcat 10 servers with a small web
// application (webapp), each behind a `spillgate proxy`. Services are the same in
// Go, without proxies: they order who waits for a worker themselves, by a
// [Discipline], which is where class weights can be tried without a network in
// between. Both sleep for exponential service times on a known number of workers,
// so what a server can do is known; and both are driven by the same generator, in
// a process of its own, with the same arrivals for the same seed.
//
// Chains begin at each server in turn of chance and visit all, so every server has
// the same load. A server is done with its own work before it calls the next, and
// holds no worker while it waits for the answer.
//
// Invariants: what was started is gone when Close returns or the context has
// ended, processes and files; a run whose generator was late says so; a mean is
// over what was served, and who gave up is counted beside it.
//
// What this package does not do: it decides nothing about order itself, and does
// not install Tomcat: scripts/deps.sh does.
package chains
