package spillgate.opensearch;

import org.opensearch.OpenSearchStatusException;
import org.opensearch.action.bulk.BulkItemRequest;
import org.opensearch.action.bulk.BulkShardRequest;
import org.opensearch.action.support.replication.TransportReplicationAction;
import org.opensearch.transport.TransportRequest;

/**
 * A part of a request that a thread for writes runs. That thread finds it in its context, once it executes the first operation: before,
 * nothing tells which thread has the part.
 */
final class WritePart {
  /** Under which name a thread's context has the part. */
  static final String KEY = "spillgate_part";

  private final Request request;
  final BulkShardRequest bulk; // null for another part
  private volatile Thread thread; // null before the first operation, and when it has ended
  private boolean given; // up

  WritePart(Request request, TransportRequest part) {
    this.request = request;
    bulk = part instanceof TransportReplicationAction.ConcreteShardRequest<?> c && c.getRequest() instanceof BulkShardRequest b ? b : null;
  }

  /**
   * Is called by the thread that executes the part, right before each operation. What is left of a bulk request that was cancelled, or
   * whose kind is kept out, is given up here: the operation that is about to be executed is executed, and its answer takes the place
   * of the refusal.
   */
  void operates() {
    if (thread != Thread.currentThread()) {
      begin(Thread.currentThread());
    }
    OpenSearchStatusException why = given || bulk == null ? null : request.left(); // one for all: its stack is dear
    if (why == null) {
      return;
    }
    given = true;
    BulkItemRequest[] items = bulk.items();
    try {
      for (int i = items.length - 1; i >= 0; i--) {
        items[i].abort(items[i].index(), why);
      }
    } catch (IllegalStateException e) {
      // as expected: this item and those before it were executed
    }
  }

  /** A part goes on in another thread if an operation has to wait, for a mapping. */
  private void begin(Thread by) {
    ends();
    thread = by;
    request.started(Pool.WRITE, new ThreadUse(by));
  }

  /** The part was answered. Any thread may call it. */
  void ends() {
    Thread by = thread;
    if (by != null) {
      thread = null;
      request.stopped(Pool.WRITE, by);
    }
  }
}
