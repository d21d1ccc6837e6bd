package spillgate.opensearch;

import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import org.opensearch.OpenSearchStatusException;
import org.opensearch.action.ActionRequest;
import org.opensearch.action.bulk.BulkRequest;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.rest.RestStatus;

/**
 * Refuses requests of kinds that are kept out.
 *
 * <p>A client that sends a refused request again at once costs the node its reading each time, of a query with thousands of
 * clauses milliseconds of a processor. Therefore the answer is held back for a while, without a thread.
 */
final class Refusals {
  /**
   * For how long an answer is held back: so much less often does a client come that waits for each. It is drawn anew for each between
   * these, because what comes back together takes all processors for a moment.
   */
  private static final long LEAST_HELD_MILLIS = 1000;

  private static final long MOST_HELD_MILLIS = 3000;

  /** What a request is taken to occupy until its answer if it does not tell: a query with 4,500 clauses has 245 kB. */
  private static final int USUAL_KIB = 256;

  /** How much the requests may occupy whose answers are held back, a sixteenth of the heap; others are answered at once. */
  private final Semaphore kib = new Semaphore((int) Math.min(Runtime.getRuntime().maxMemory() / 16 / 1024, 1 << 30));

  private final Requests requests;

  Refusals(Requests requests) {
    this.requests = requests;
  }

  void refuse(ActionRequest request, ActionListener<?> listener) {
    int size = request instanceof BulkRequest bulk ? (int) Math.min(bulk.estimatedSizeInBytes() / 1024 + 1, 1 << 30) : USUAL_KIB;
    if (!kib.tryAcquire(size)) {
      listener.onFailure(refusal());
      return;
    }
    requests.later(
        ThreadLocalRandom.current().nextLong(LEAST_HELD_MILLIS, MOST_HELD_MILLIS),
        () -> {
          kib.release(size);
          listener.onFailure(refusal());
        });
  }

  static OpenSearchStatusException refusal() {
    return new OpenSearchStatusException(
        "requests of this kind are kept out for now: one blocked others; do not send it again at once", RestStatus.TOO_MANY_REQUESTS);
  }
}
