// Package progress measures how much service a request has received and predicts
// how much it will need. Waits do not count.
//
// It decides nothing. A Span watches one request at one process; its result
// travels back to the caller, whose own Span takes it in, so that the entry
// point ends with the sum over the whole call graph. Totals remembers that sum
// for each workflow and predicts the next request's:
//
//	 entry                     process                        process
//	┌────────┐ total, elapsed ┌─────────┐ total, elapsed ┌─────────┐
//	│ Totals │───────────────▶│  Span   │───────────────▶│  Span   │
//	│  Span  │◀───────────────│         │◀───────────────│         │
//	└────────┘  service, work └─────────┘  service, work └─────────┘
//
// Two numbers describe a request (Wisp §4.2). Its service is the time it takes
// when it never waits, along its critical path; its work is what all processes
// spend on it together. At one process, from Begin to End, every instant belongs
// to exactly one of three:
//
//	own     │▓▓▓▓│      │      │▓▓▓│            │▓▓│   no call and no wait is open
//	waited  │    │░░░░░░│      │   │            │  │   a wait is open, and no call
//	stage   │    │      │██████│   │████████████│  │   a call is open
//	                     call 1      call 2 ████
//	                                 call 3   ███████
//
//	service = own + Σ over stages of Σ service(call) ÷ DOP
//	work    = own + Σ work(call)
//	DOP     = Σ wall time of the stage's calls ÷ length of the stage
//
// A stage is a longest stretch of time with at least one call open. DOP, the
// degree of parallelism, is 1 if its calls follow each other and n if n equal
// calls run side by side.
//
// What a handler does while one of its calls is open is not own service. A Span
// cannot see whether the handler works or only waits for the answer, and an
// instant must not count twice, or service would exceed the time on the clock. A
// handler that does work in parallel gives each branch a Span of its own and
// reports it like a call: then it counts, with the right DOP.
//
// Invariants: wall = own + waited + stages; own ≤ service ≤ wall;
// service ≤ work; the order in which calls of a stage end does not matter;
// nothing that a callee reports breaks these.
//
// What this package does not do: it has no clock and no lock, it reads no
// message, and it orders nothing by what it measured.
package progress
