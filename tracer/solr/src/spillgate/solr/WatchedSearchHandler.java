package spillgate.solr;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.Semaphore;
import org.apache.solr.common.SolrException;
import org.apache.solr.common.SolrException.ErrorCode;
import org.apache.solr.common.params.ShardParams;
import org.apache.solr.core.PluginInfo;
import org.apache.solr.core.SolrCore;
import org.apache.solr.handler.component.SearchHandler;
import org.apache.solr.request.SolrQueryRequest;
import org.apache.solr.request.SolrRequestInfo;
import org.apache.solr.response.SolrQueryResponse;
import org.apache.solr.search.QueryLimits;

/**
 * Solr's search handler, whose queries a guard sees and cancels.
 *
 * <p>Its entry in solrconfig.xml is that of the search handler with another class. {@code <int name="slots">}
 * bounds how many of its queries run at once, 0 (the default) is no bound: those that wait are then seen to wait. Parts of distributed queries are not
 * counted, because the whole query is.
 * {@code <str name="tasks">} is the path of a task file, in which a guard on the same machine sees the queries of the core without
 * asking for them; the default is none.
 */
public final class WatchedSearchHandler extends SearchHandler {
  private Semaphore slots;
  private String tasks; // or null

  @Override
  public void init(PluginInfo info) {
    super.init(info);
    tasks = (String) info.initArgs.get("tasks");
    Object n = info.initArgs.get("slots");
    if (n instanceof Integer count && count > 0) {
      slots = new Semaphore(count, true);
    } else if (n != null && !(n instanceof Integer zero && zero == 0)) {
      throw new SolrException(ErrorCode.SERVER_ERROR, "slots is " + n + ", expected <int name=\"slots\"> of 0 or more");
    }
  }

  @Override
  public void inform(SolrCore core) {
    super.inform(core);
    if (tasks != null) {
      Queries.of(core).show(core, Path.of(tasks));
    }
  }

  @Override
  public void handleRequestBody(SolrQueryRequest req, SolrQueryResponse rsp) throws Exception {
    Queries all = Queries.of(req.getCore());
    Object client = req.getHttpSolrCall() == null ? null : req.getHttpSolrCall().getReq().getHeader("X-Opaque-Id");
    Semaphore slots = slots(req);
    Query q = all.begin(Shape.of(String.valueOf(req.getPath()), req.getOriginalParams()), client == null ? "" : client.toString(), slots != null);
    if (q == null) {
      all.holdBack();
      throw refusal();
    }
    q.enter();
    try {
      if (slots != null) {
        slots.acquire();
      }
      try {
        q.admit();
        check(q);
        if (slots != null && all.keptOut(q)) {
          throw refusal();
        }
        limit(req, rsp, q);
        super.handleRequestBody(req, rsp);
        check(q);
      } finally {
        if (slots != null) {
          slots.release();
        }
      }
    } finally {
      q.leave();
      all.end(q);
    }
  }

  /**
   * Returns the slots of which a query takes one, null for none. A part of a distributed query takes none: the whole query has one where it
   * began, and keeps it until its parts are answered. If parts waited for slots of these, no query would end once all have one.
   */
  private Semaphore slots(SolrQueryRequest req) {
    return req.getParams().getBool(ShardParams.IS_SHARD, false) ? null : slots;
  }

  /** A client's mistake, of which Solr logs no stack: clients may try again often. */
  private static SolrException refusal() {
    return new SolrException(ErrorCode.TOO_MANY_REQUESTS, "queries of this kind are kept out for now: one blocked others; do not send it again at once");
  }

  private static void check(Query q) {
    if (q.cancelled) {
      throw new SolrException(ErrorCode.SERVICE_UNAVAILABLE, "the query was cancelled: it blocked others; do not send it again at once");
    }
  }

  /** Makes the limits of the request end it when it is cancelled. Solr keeps them in the request's context. */
  private static void limit(SolrQueryRequest req, SolrQueryResponse rsp, Query q) {
    SolrRequestInfo.getQueryLimits(req, rsp);
    for (Map.Entry<Object, Object> entry : req.getContext().entrySet()) {
      if (entry.getValue() instanceof QueryLimits) {
        entry.setValue(new CancelLimits(req, rsp, q));
        return;
      }
    }
    throw new SolrException(ErrorCode.SERVER_ERROR, "this Solr keeps the limits of a query elsewhere than 9.9 does: take the handler out of solrconfig.xml");
  }
}
