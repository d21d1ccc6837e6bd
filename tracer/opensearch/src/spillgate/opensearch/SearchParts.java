package spillgate.opensearch;

import org.opensearch.index.shard.SearchOperationListener;
import org.opensearch.search.internal.SearchContext;

/** Sees threads for searches run the parts of requests, each from its begin to its end. */
final class SearchParts implements SearchOperationListener {
  private final Requests requests;

  SearchParts(Requests requests) {
    this.requests = requests;
  }

  private void started(SearchContext context) {
    Request r = requests.current();
    if (r != null) {
      Measure node = requests.measured(context.getTask());
      r.started(Pool.SEARCH, node != null ? node : new ThreadUse(Thread.currentThread()));
    }
  }

  private void stopped() {
    Request r = requests.current();
    if (r != null) {
      r.stopped(Pool.SEARCH, Thread.currentThread());
    }
  }

  @Override
  public void onPreQueryPhase(SearchContext context) {
    started(context);
  }

  @Override
  public void onQueryPhase(SearchContext context, long nanos) {
    stopped();
  }

  @Override
  public void onFailedQueryPhase(SearchContext context) {
    stopped();
  }

  @Override
  public void onPreFetchPhase(SearchContext context) {
    started(context);
  }

  @Override
  public void onFetchPhase(SearchContext context, long nanos) {
    stopped();
  }

  @Override
  public void onFailedFetchPhase(SearchContext context) {
    stopped();
  }
}
