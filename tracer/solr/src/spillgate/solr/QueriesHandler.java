package spillgate.solr;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.solr.common.SolrException;
import org.apache.solr.common.SolrException.ErrorCode;
import org.apache.solr.handler.RequestHandlerBase;
import org.apache.solr.request.SolrQueryRequest;
import org.apache.solr.response.SolrQueryResponse;
import org.apache.solr.security.AuthorizationContext;
import org.apache.solr.security.PermissionNameProvider;

/**
 * Lists the queries of a core, and with {@code boot} and {@code cancel}, the number of one, cancels that one. To do so takes
 * the permission to edit a core's configuration, to list takes that to read metrics.
 */
public final class QueriesHandler extends RequestHandlerBase implements PermissionNameProvider {
  /** The version of the answer. */
  private static final int VERSION = 1;

  @Override
  public void handleRequestBody(SolrQueryRequest req, SolrQueryResponse rsp) {
    rsp.setHttpCaching(false);
    Queries all = Queries.of(req.getCore());
    Long number = req.getParams().getLong("cancel");
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("version", VERSION);
    out.put("boot", all.boot);
    if (number != null) {
      if (!"POST".equals(req.getHttpMethod())) {
        throw new SolrException(ErrorCode.BAD_REQUEST, "a cancel by " + req.getHttpMethod() + ", expected POST");
      }
      out.put("cancelled", all.cancel(req.getParams().getLong("boot", 0), number));
    } else {
      list(all, out);
    }
    rsp.add("spillgate", out);
  }

  private static void list(Queries all, Map<String, Object> out) {
    long now = System.nanoTime();
    List<Map<String, Object>> shown = new ArrayList<>();
    for (Query q : all.running.values()) {
      Map<String, Object> one = new LinkedHashMap<>();
      one.put("number", q.number);
      one.put("path", q.path);
      one.put("text", q.text);
      one.put("length", q.length);
      one.put("client", q.client);
      one.put("running_nanos", now - q.began);
      one.put("waiting", q.admitted == 0);
      one.put("admitted_nanos", q.admitted == 0 ? 0 : now - q.admitted);
      one.put("cpu_nanos", Math.max(Usage.cpu(q.thread) - q.cpu, 0));
      one.put("memory_bytes", Math.max(Usage.memory(q.thread) - q.memory, 0));
      one.put("cancelled", q.cancelled);
      shown.add(one);
    }
    out.put("ended", all.ended.get());
    out.put("collecting_millis", Usage.collecting());
    out.put("queries", shown);
  }

  @Override
  public String getDescription() {
    return "lists and cancels the queries of a core";
  }

  @Override
  public Name getPermissionName(AuthorizationContext request) {
    return request.getParams().get("cancel") == null ? Name.METRICS_READ_PERM : Name.CONFIG_EDIT_PERM;
  }
}
