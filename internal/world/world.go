package world

import "time"

// World is one description of services under load. The zero value of a field is
// its default where one is named.
type World struct {
	// Name labels results. May be empty.
	Name string
	// Objective is the latency objective of all services and clients, from the
	// intended send time to the answer. Above 0.
	Objective time.Duration
	// Warmup is the time from the start whose requests count in no total, though
	// in the bins. Length is the whole time, warm-up included; above it.
	Warmup, Length time.Duration
	// Hosts are machines whose processors services share.
	Hosts []Host
	// Services, at least one.
	Services []Service
	// Clients, at least one group.
	Clients []Group
	// Network lies between all processes.
	Network Network
	// Faults happen at their instants.
	Faults []Fault
}

// Host is a machine.
type Host struct {
	Name string
	// Processors is how many there are, 1 or more.
	Processors int
	// Message is the processor time that it costs a process of this host to
	// receive or send a message, refusals included. Default 20 µs, about what
	// gRPC for Go takes; negative: none.
	Message time.Duration
}

// Network is the way between processes.
type Network struct {
	// Delay is the time each way. Jitter adds an exponential time of that mean;
	// messages of one connection and direction stay in order.
	Delay, Jitter time.Duration
	// LoseGrant, RepeatGrant and DelayGrant are the shares, 0 to 1, of grants of credits
	// that get lost, also from answers, that come a second time up to ten delays
	// later, and that come up to ten delays late and so out of order.
	LoseGrant, RepeatGrant, DelayGrant float64
}

// Service is a number of like processes.
type Service struct {
	Name string
	// Host is where they run: what they compute shares its processors. Empty: every
	// computation takes its time and nothing more, as on processors of its own.
	Host string
	// Replicas is how many processes there are. Callers take them in turn. Default
	// 1.
	Replicas int
	// Threads is how many handlers of a process may run at once, in real processes: Go's
	// GOMAXPROCS. Default: the processors that it may use, and one more where it
	// computes, so that the kernel lets the readers of connections run in between.
	Threads int
	// Workers is how many requests a process works on at a time: threads, or the
	// connections of a pool. The rest wait in order, behind the gate, which is not
	// told. Default: any number.
	Workers int
	// Async services give their worker back while a request waits for what it calls, as
	// servers with callbacks do: it is held for one Wait or Compute at a time. Others
	// keep it to the end.
	Async bool
	// Locks are what requests contend for inside a process, beside its workers.
	Locks []Lock
	// Contention makes the Waits of a process take longer the more of them pass at once. Default: none.
	Contention Contention
	// Message is the time for which a worker is kept by a message of no request that is
	// worked on, before any request: a refusal costs two, credits without an answer and
	// demand without a request one each. It takes Workers, and stands for servers
	// whose threads handle their own messages. Default: none.
	Message time.Duration
	// Objective is what the gate is told. Default that of the world.
	Objective time.Duration
	// Ungated services have no policy in front.
	Ungated bool
	// Deaf services work on requests to the end whose caller gave up: handlers that do
	// not look at their context do, and those behind a proxy mostly. Others stop at
	// the next step.
	Deaf bool
	// Proxied services have their gate in a proxy in front of them, which lets a request
	// go when its caller gives up, whatever the service does. Other gates hold it until
	// the work on it is over.
	Proxied bool
	// Methods, at least one.
	Methods []Method
}

// Lock is something inside a process of which so many requests at a time hold one, in the
// order of their arrival there: a semaphore, the connections of a pool.
type Lock struct {
	Name string
	// Permits is how many hold it at a time. Default 1.
	Permits int
	// Batch locks are given to all who wait at once, up to Permits of them, and not again before all of these
	// have let go: a server that works in batches. Real processes have none.
	Batch bool
}

// Contention is how requests that are at work at once hold each other up, by the universal scalability law: n of them
// get n / (1 + Each (n-1) + Pair n (n-1)) times as much done as one alone. It applies at every instant to the number
// that there is then.
type Contention struct {
	// Each is the part of its time by which every other one delays a request: what only one of them does at a time.
	// With it alone the throughput has a bound, which more requests approach. 0 to 1.
	Each float64
	// Pair is the part by which every pair does: locks that are asked for again and again, caches that are taken from
	// each other, conflicts that undo work, paging. With it the throughput falls from some number on. 0 to 1.
	Pair float64
}

// Factor returns how many times longer each of n takes than one alone.
func (c Contention) Factor(n float64) float64 {
	n = max(n, 1)
	return 1 + c.Each*(n-1) + c.Pair*n*(n-1)
}

// Method is what a request of one kind does.
type Method struct {
	Name string
	// Answer is the size of its answers in bytes, evenly distributed. Only real
	// messages have a size. Default 0.
	Answer Size
	// Idle requests hold no worker: long polls, streams.
	Idle bool
	// Steps follow one another, at least one. The worker is held from the first
	// to the end of the last.
	Steps []Step
}

// Step is one thing that a request does. One of the three is set.
type Step struct {
	// Wait is time that passes: a disk, a lock, an external service.
	Wait *Draw
	// Compute is processor time: it passes at the speed of the host.
	Compute *Draw
	// Lock names a lock of the service that is held meanwhile, and taken before a
	// worker is if the service is Async. Default none.
	Lock string
	// Call are methods of other services, all called at once. The step ends with the
	// last answer; a call that is refused or late fails the request.
	Call []Target
}

// Size is a range of bytes.
type Size struct{ Least, Most int }

// Target is a method of a service.
type Target struct{ Service, Method string }
