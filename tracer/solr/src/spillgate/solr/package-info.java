/**
 * Shows the queries of a Solr core and cancels them one by one.
 *
 * <pre>
 * request ──▶ WatchedSearchHandler ──▶ Solr's components
 *                  │ enters the query        ▲ limits: cancelled?
 *                  ▼                         │
 *              Queries  ◀── list, cancel ── QueriesHandler ◀── guard
 * </pre>
 *
 * A query has a number, the time at which it began, what its thread used since of processor and heap, and
 * whether it waits for a slot, if the core has slots. Solr itself shows only the queries that ask for it, and
 * of these only distributed ones.
 *
 * <p>A cancelled query ends where Solr checks its limits: between documents and terms, and between components. Its
 * client is answered 503. Nothing of Solr is changed: both handlers are entries of a core's configuration.
 */
package spillgate.solr;
