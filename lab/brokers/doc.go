// Package brokers measures the broker as a process, beside the same broker without
// limits and mosquitto, under one generator in one run.
//
//	generator, one processor, spinning ──10 topics, Poisson or as much as goes──▶ broker, another processor
//	        ▲ one subscriber                                                         │
//	        └────────────────────────────────────────────────────────────────────────┘
//
// The generator is one thread that never sleeps: it sends what is due and looks at the
// subscriber's socket in turn, so that neither a scheduler nor a wake-up of its own is
// in a latency. Contenders take turns, within seconds of each other.
//
// What this package does not do: brokers on several nodes, which do not exist yet.
package brokers
