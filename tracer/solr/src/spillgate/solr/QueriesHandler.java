package spillgate.solr;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.solr.common.SolrException;
import org.apache.solr.common.SolrException.ErrorCode;
import org.apache.solr.common.params.SolrParams;
import org.apache.solr.handler.RequestHandlerBase;
import org.apache.solr.request.SolrQueryRequest;
import org.apache.solr.response.SolrQueryResponse;
import org.apache.solr.security.AuthorizationContext;
import org.apache.solr.security.PermissionNameProvider;
import spillgate.tracer.Usage;

/**
 * Lists the queries of a core. With {@code boot} and {@code cancel}, the number of one, it cancels that one; with {@code keep_out},
 * a kind, and {@code millis}, it keeps queries of that kind from beginning for so long. Either takes the permission to edit a core's
 * configuration, to list takes that to read metrics.
 */
public final class QueriesHandler extends RequestHandlerBase implements PermissionNameProvider {
  /** The version of the answer. */
  private static final int VERSION = 2;

  /** For how long a kind is kept out at most by one request. */
  private static final long LONGEST_MILLIS = 60_000;

  @Override
  public void handleRequestBody(SolrQueryRequest req, SolrQueryResponse rsp) {
    rsp.setHttpCaching(false);
    Queries all = Queries.of(req.getCore());
    SolrParams params = req.getOriginalParams(); // for which the rights were checked; Solr has added those of a parameter "json" since
    Long number = params.getLong("cancel");
    String kind = params.get("keep_out");
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("version", VERSION);
    out.put("boot", all.boot);
    if ((number != null || kind != null) && !"POST".equals(req.getHttpMethod())) {
      throw new SolrException(ErrorCode.BAD_REQUEST, "a change by " + req.getHttpMethod() + ", expected POST");
    }
    if (number != null) {
      out.put("cancelled", all.cancel(params.getLong("boot", 0), number));
    } else if (kind != null) {
      out.put("kept_out", all.keepOut(parsed(kind), millis(params.getLong("millis", 0)) * 1_000_000));
    } else {
      list(all, out);
    }
    rsp.add("spillgate", out);
  }

  private static long parsed(String kind) {
    try {
      return Long.parseUnsignedLong(kind, 16);
    } catch (NumberFormatException e) {
      throw new SolrException(ErrorCode.BAD_REQUEST, "keep_out is not a kind, expected up to 16 hexadecimal digits");
    }
  }

  private static long millis(long n) {
    if (n <= 0 || n > LONGEST_MILLIS) {
      throw new SolrException(ErrorCode.BAD_REQUEST, "millis is " + n + ", expected 1 to " + LONGEST_MILLIS);
    }
    return n;
  }

  private static void list(Queries all, Map<String, Object> out) {
    long now = System.nanoTime();
    List<Map<String, Object>> shown = new ArrayList<>();
    for (Query q : all.running.values()) {
      Map<String, Object> one = new LinkedHashMap<>();
      one.put("number", q.number);
      one.put("kind", Long.toHexString(q.shape.kind));
      one.put("shape", q.shape.text);
      one.put("client", q.client);
      one.put("running_nanos", now - q.began);
      one.put("waiting", q.admitted == 0);
      one.put("admitted_nanos", q.admitted == 0 ? 0 : now - q.admitted);
      one.put("cpu_nanos", q.used());
      one.put("memory_bytes", q.taken());
      one.put("cancelled", q.cancelled);
      shown.add(one);
    }
    out.put("ended", all.ended.get());
    out.put("collecting_millis", Usage.collecting());
    out.put("queries", shown);
  }

  @Override
  public String getDescription() {
    return "lists the queries of a core, cancels them and keeps kinds of them out";
  }

  @Override
  public Name getPermissionName(AuthorizationContext request) {
    boolean lists = request.getParams().get("cancel") == null && request.getParams().get("keep_out") == null;
    return lists ? Name.METRICS_READ_PERM : Name.CONFIG_EDIT_PERM;
  }
}
