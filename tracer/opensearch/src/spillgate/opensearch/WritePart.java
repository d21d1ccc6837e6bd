package spillgate.opensearch;

import org.opensearch.OpenSearchStatusException;
import org.opensearch.action.bulk.BulkItemRequest;
import org.opensearch.action.bulk.BulkShardRequest;
import org.opensearch.action.support.replication.TransportReplicationAction;
import org.opensearch.transport.TransportRequest;
import spillgate.tracer.Usage;

/**
 * A part of a request that a thread for writes runs. That thread finds it in its context, once it executes the first operation: before,
 * nothing tells which thread has the part.
 */
final class WritePart {
  /** Under which name a thread's context has the part. */
  static final String KEY = "spillgate_part";

  private final Request request;
  private final BulkShardRequest bulk; // null for another part
  private volatile Thread thread; // null before the first operation
  private long cpu; // of the thread before that
  private long memory;
  private boolean given; // up

  WritePart(Request request, TransportRequest part) {
    this.request = request;
    bulk = part instanceof TransportReplicationAction.ConcreteShardRequest<?> c && c.getRequest() instanceof BulkShardRequest b ? b : null;
  }

  /**
   * Is called by the thread that executes the part, right before each operation. What is left of a bulk request that was cancelled is
   * given up here: the operation that is about to be executed is executed, and its answer takes the place of the refusal.
   */
  void operates() {
    if (thread != Thread.currentThread()) {
      begin(Thread.currentThread());
    }
    if (given || bulk == null || !request.cancelled()) {
      return;
    }
    given = true;
    BulkItemRequest[] items = bulk.items();
    OpenSearchStatusException why = Request.refusal(null); // one for all: its stack is dear
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
    if (thread != null) {
      request.stopped(this);
    }
    cpu = Usage.cpu(by);
    memory = Usage.memory(by);
    thread = by;
    request.started(this);
  }

  /** The part was answered. Any thread may call it. */
  void ends() {
    if (thread != null) {
      request.stopped(this);
    }
  }

  /** Returns what the thread has used since it began the part, in nanoseconds. */
  long cpu() {
    return Math.max(Usage.cpu(thread) - cpu, 0);
  }

  /** Returns how many bytes of the heap the thread has taken since it began the part. */
  long memory() {
    return Math.max(Usage.memory(thread) - memory, 0);
  }
}
