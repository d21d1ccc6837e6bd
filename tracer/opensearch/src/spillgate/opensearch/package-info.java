/**
 * Tells a guard what each request to an OpenSearch node holds and waits for, through a task file, and cancels the request
 * that the guard names. Neither takes a connection, a thread of a pool, or an answer of the node.
 *
 * <pre>
 *   RequestFilter ── begin, end ──▶ Request ──▶ spillgate.tracer.Task ──▶ task file ──▶ guard
 *   Parts ── sent, started, ended ─▶   │
 *     └── writes of one document, in order: Documents
 *   Sampler ── processor, heap ────▶   ▼
 *   TaskManager, bulk items ◀──── cancel ◀───────────────────────────── cancel word
 *   Refusals ◀── 429 ── RequestFilter, searches and bulk items that have not begun ◀── kinds kept out
 * </pre>
 *
 * <p>Invariants: a request that is not watched costs a look into its headers. Nothing here waits for a request. An item of
 * a bulk request is given up only by the thread that executes the request, and only if it has not been executed.
 *
 * <p>What differs between the servers that these sources are built for is in Services, SpillgatePlugin, Words and Forwarded: see
 * tracer/elasticsearch.
 *
 * <p>What this package does not do: it chooses nothing and keeps no literal of a query. What a request does on other
 * nodes is seen there, as the parts of a request of the first node.
 */
package spillgate.opensearch;
