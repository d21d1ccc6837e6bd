package spillgate.solr;

import org.apache.solr.request.SolrQueryRequest;
import org.apache.solr.response.SolrQueryResponse;
import org.apache.solr.search.QueryLimits;

/** The limits of a query, with one more: that it was cancelled. */
final class CancelLimits extends QueryLimits {
  private final Query query;

  CancelLimits(SolrQueryRequest req, SolrQueryResponse rsp, Query query) {
    super(req, rsp);
    this.query = query;
  }

  @Override
  public boolean shouldExit() {
    return query.cancelled || super.shouldExit();
  }

  @Override
  public boolean isLimitsEnabled() {
    return true;
  }

  @Override
  public String limitStatusMessage() {
    return query.cancelled ? "cancelled by a guard" : super.limitStatusMessage();
  }
}
