package spillgate.opensearch;

import java.util.concurrent.Semaphore;
import org.opensearch.OpenSearchStatusException;
import org.opensearch.action.ActionRequest;
import org.opensearch.action.bulk.BulkRequest;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.rest.RestStatus;

/**
 * Refuses requests of kinds that are kept out.
 *
 * <p>A client that sends a refused request again at once costs the node its reading each time, of a query with thousands of
 * clauses milliseconds of a processor. Therefore the answer is held back for a while, without a thread. Of a bulk request it is
 * not: the node keeps its body until the answer, which may be megabytes.
 */
final class Refusals {
  /** For how long an answer is held back: so much less often does a client come that waits for each. */
  private static final long HELD_MILLIS = 1000;

  /** How many answers are held back at once, each with the body of its request; a further one is not held. */
  private static final int MOST_HELD = 32;

  private final Requests requests;
  private final Semaphore places = new Semaphore(MOST_HELD);

  Refusals(Requests requests) {
    this.requests = requests;
  }

  void refuse(ActionRequest request, ActionListener<?> listener) {
    if (request instanceof BulkRequest || !places.tryAcquire()) {
      listener.onFailure(refusal());
      return;
    }
    requests.later(
        HELD_MILLIS,
        () -> {
          places.release();
          listener.onFailure(refusal());
        });
  }

  private static OpenSearchStatusException refusal() {
    return new OpenSearchStatusException(
        "requests of this kind are kept out for now: one blocked others; do not send it again at once", RestStatus.TOO_MANY_REQUESTS);
  }
}
