package spillgate.opensearch;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.opensearch.action.IndicesRequest;
import org.opensearch.action.bulk.BulkRequest;
import org.opensearch.action.search.MultiSearchRequest;
import org.opensearch.action.search.SearchRequest;
import spillgate.tracer.Info;
import spillgate.tracer.Tracer;

/**
 * Tells which requests do the same work: by their action, the indices, the queries and aggregations with their fields, and how
 * many of these there are, as a power of ten. Values are left out.
 *
 * <pre>read/search docs bool range(n) x1000</pre>
 */
final class Kinds {
  private static final String PREFIX = "indices:data/";

  /** How many indices are told apart. */
  private static final int MOST = 16;

  /** Of one document, or reads of some by their identifiers. */
  private static final Set<String> SINGLE =
      Set.of(PREFIX + "read/get", PREFIX + "read/mget", PREFIX + "write/index", PREFIX + "write/update", PREFIX + "write/delete");

  /** What a name in the task file cannot be made of: clients make up names of fields. */
  private static final Pattern UNFIT = Pattern.compile("[\\p{Cc}\\p{Cs}]");

  private Kinds() {}

  /** Reports whether requests of an action are shown. Replication is not, and neither is what changes no data. */
  static boolean watched(String action) {
    return action.startsWith(PREFIX) && !action.contains("replication") && !action.contains("ccr") && !action.endsWith("]");
  }

  /** Returns the flags of an action: work by query has no client that waits, and what is about one document cannot be cancelled. */
  static long flags(String action) {
    boolean background = action.endsWith("byquery") || action.endsWith("reindex");
    return (background ? Info.BACKGROUND : 0) | (SINGLE.contains(action) ? Info.BARRED : 0);
  }

  static String of(String action, Object request) {
    Words words = new Words();
    Collection<String> indices = List.of();
    if (request instanceof BulkRequest b) {
      indices = b.getIndices();
      words.count = b.requests().size();
    } else if (request instanceof IndicesRequest i && i.indices() != null) {
      indices = List.of(i.indices());
    }
    if (request instanceof SearchRequest s) {
      words.add(s.source());
    } else if (request instanceof MultiSearchRequest m) {
      for (SearchRequest s : m.requests()) {
        words.add(s.source());
      }
    }
    List<String> all = new ArrayList<>(List.of(action.substring(PREFIX.length()), names(indices)));
    all.addAll(words.different);
    int digits = Integer.toString(words.count).length();
    if (digits > 2) {
      all.add("x1" + "0".repeat(digits - 1));
    }
    return Tracer.fitting(UNFIT.matcher(String.join(" ", all)).replaceAll("?"));
  }

  /** Names of indices, whose numbers come and go, in order; "*" for none and for many. */
  private static String names(Collection<String> indices) {
    TreeSet<String> different = new TreeSet<>();
    for (String name : indices) {
      different.add(name.replaceAll("[0-9]+", "?"));
      if (different.size() > MOST) {
        return "*";
      }
    }
    return different.isEmpty() ? "*" : String.join(",", different);
  }
}
