package spillgate.solr;

import spillgate.tracer.Usage;

/** One query that runs, or waits for a slot. Fields are written by its own thread, and read by any. */
final class Query {
  private static final ThreadLocal<Query> CURRENT = new ThreadLocal<>();

  final long number;
  final Shape shape;
  final String client;
  final long began = System.nanoTime();
  final Thread thread = Thread.currentThread();
  final long cpu = Usage.cpu(thread);
  final long memory = Usage.memory(thread);
  /** When it got a slot, 0 while it waits. */
  volatile long admitted;
  volatile boolean cancelled;

  Query(long number, Shape shape, String client) {
    this.number = number;
    this.shape = shape;
    this.client = client;
  }

  /** Makes this the query that the calling thread works for. */
  void enter() {
    CURRENT.set(this);
  }

  /** Ends what enter began. */
  void leave() {
    CURRENT.remove();
  }

  /** Reports whether the calling thread works for a query that was cancelled. */
  static boolean currentIsCancelled() {
    Query q = CURRENT.get();
    return q != null && q.cancelled;
  }
}
