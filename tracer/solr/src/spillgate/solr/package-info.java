/**
 * Shows the queries of a Solr core, cancels them one by one and keeps kinds of them out.
 *
 * <pre>
 * request ──▶ WatchedSearchHandler ──▶ Solr's components ──▶ reader of CancellableReaderFactory
 *                  │ enters the query,       ▲ limits: cancelled? ▲
 *                  │ refuses its kind        │                    │
 *                  ▼                         │                    │
 *              Queries  ◀── list, cancel, keep out ── QueriesHandler ◀── guard
 *                  └──▶ TaskFile ◀── looks, cancels, keeps out ─────────── guard on the same machine
 * </pre>
 *
 * A query has a number, the time at which it began, what its thread used since of processor and heap, and
 * whether it waits for a slot, if the core has slots. Solr itself shows only the queries that ask for it, and
 * of these only distributed ones.
 *
 * <p>A cancelled query ends where Solr checks its limits: between documents, and between components, and where it reads
 * the index. Its client is answered 503. What a query is of a kind with is its {@link Shape}. Nothing of Solr is changed: handlers and
 * reader are entries of a core's configuration.
 */
package spillgate.solr;
