// Package brokers measures the broker as a process, beside the same broker without
// limits and mosquitto, under one generator in one run.
//
//	generator, one processor, spinning ──10 topics, Poisson or as much as goes──▶ broker, another processor
//	        ▲ one subscriber                                                         │
//	        └────────────────────────────────────────────────────────────────────────┘
//
// The generator is one real-time thread that sends what is due and looks at the
// subscriber's socket in turn, and spins for the last 20 µs before a message is due, so
// that no scheduler is in a latency. It rests in between, in the kernel, on the socket:
// what never rests is stopped for 50 ms of every second, and what it would then send at
// once waits for tokens. Contenders take turns, within seconds of each other.
//
// What this package does not do: it measures one node, not several.
package brokers
