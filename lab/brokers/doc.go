// Package brokers measures the broker as a process, beside the same broker without
// limits and mosquitto, under one generator in one run.
//
//	generator, one processor, spinning ──10 topics, Poisson or as much as goes──▶ broker, another processor
//	        ▲ one subscriber                                                         │
//	        └────────────────────────────────────────────────────────────────────────┘
//
// The generator is one real-time thread that sends what is due and looks at the
// subscriber's socket in turn, and spins for the last 20 µs before a message is due, so
// latencies contain no scheduling delay. In between it waits on the socket in the kernel:
// Linux stops a real-time thread that never waits for 50 ms of every second, and the
// messages sent late after such a stop would wait for tokens. Contenders take turns, within
// seconds of each other.
//
// What this package does not do: it measures one node, not several.
package brokers
