package spillgate.opensearch;

import org.opensearch.action.ActionRequest;
import org.opensearch.action.bulk.BulkRequest;
import org.opensearch.action.support.ActionFilter;
import org.opensearch.action.support.ActionFilterChain;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.action.ActionResponse;
import org.opensearch.tasks.Task;

/** Sees requests begin and end, and refuses those of kinds that a guard keeps out. */
final class RequestFilter implements ActionFilter {
  private final Requests requests;
  private final Refusals refusals;

  RequestFilter(Requests requests) {
    this.requests = requests;
    refusals = new Refusals(requests);
  }

  @Override
  public int order() {
    return Integer.MIN_VALUE; // so that what other filters do belongs to the request
  }

  // OpenSearch 3.0 to 3.4 have this method; the one that takes its place is not in all of them.
  @Override
  @SuppressWarnings("removal")
  public <Q extends ActionRequest, A extends ActionResponse> void apply(
      Task task, String action, Q request, ActionListener<A> listener, ActionFilterChain<Q, A> chain) {
    Long kind = requests.watched(action) ? kind(action, request) : null;
    if (kind != null && requests.keptOut(kind)) {
      refusals.refuse(request, listener);
      return;
    }
    Request r = kind == null ? null : begin(task, action, kind, request);
    if (r == null) {
      chain.proceed(task, action, request, listener);
      return;
    }
    serve(r, task, action, request, listener, chain);
  }

  /** Returns null for a request that cannot be described: it is served all the same, unwatched. */
  private Long kind(String action, ActionRequest request) {
    try {
      return requests.kind(action, request);
    } catch (RuntimeException e) {
      return null;
    }
  }

  /** Returns null for a request that cannot be shown: it is served all the same, unwatched. */
  private Request begin(Task task, String action, long kind, ActionRequest request) {
    try {
      return requests.begin(task, action, kind, request instanceof BulkRequest);
    } catch (RuntimeException e) {
      return null;
    }
  }

  private <Q extends ActionRequest, A extends ActionResponse> void serve(
      Request r, Task task, String action, Q request, ActionListener<A> listener, ActionFilterChain<Q, A> chain) {
    ActionListener<A> ending =
        new ActionListener<>() {
          @Override
          public void onResponse(A answer) {
            requests.end(r);
            if (r.givenUp()) { // to write an answer with thousands of refusals takes long, and this is a thread for writes, for which others wait
              requests.later(0, () -> listener.onResponse(answer));
              return;
            }
            listener.onResponse(answer);
          }

          @Override
          public void onFailure(Exception e) {
            requests.end(r);
            listener.onFailure(r.answer(e));
          }
        };
    try (ThreadContext.StoredContext before = requests.context.newStoredContext(true)) {
      requests.enter(r);
      chain.proceed(task, action, request, ending);
    }
  }
}
