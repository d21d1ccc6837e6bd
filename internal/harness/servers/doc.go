// Package servers starts real, unmodified databases and brokers for tests and
// experiments, and leaves nothing of them behind.
//
//	Postgres, MariaDB, …, Mosquitto ──▶ directory of its own ──▶ server on 127.0.0.1:port
//	        │                                                │
//	   ctx ends, Stop ──────────── asked, then killed, directory removed
//	   this process dies, however ── the watcher does the same
//
// Invariants:
//
//   - A server listens on loopback alone, on a port that was free, and keeps all
//     its files in one temporary directory.
//   - When Stop returns, its processes and its directory are gone. When the
//     process that started it dies, by whatever signal, a small shell at the
//     other end of a pipe removes both within a second.
//   - Only MySQL, OpenSearch, Elasticsearch and Solr are downloaded, and only if Fetch
//     allows it: the files that their comments name, into the user's cache directory.
//   - A server that is not installed fails with ErrMissing.
//
// A server that refuses to run as root runs as the user that its package made.
//
// What this package does not do: it knows no load and no experiment. Nothing it
// stores is durable: flushing is off unless a setting turns it on.
package servers
