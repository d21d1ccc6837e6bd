package spillgate.solr;

import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.solr.core.SolrCore;

/** The queries of one core. */
final class Queries {
  private static final Map<SolrCore, Queries> CORES = new WeakHashMap<>();

  /** Tells the numbers of this core from those that it gave before a restart. Positive. */
  final long boot = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);

  final ConcurrentHashMap<Long, Query> running = new ConcurrentHashMap<>();
  final AtomicLong ended = new AtomicLong();
  private final AtomicLong last = new AtomicLong();

  private Queries() {}

  /** Returns those of a core. */
  static Queries of(SolrCore core) {
    synchronized (CORES) {
      return CORES.computeIfAbsent(core, c -> new Queries());
    }
  }

  Query begin(String path, String text, String client) {
    Query q = new Query(last.incrementAndGet(), path, text, client);
    running.put(q.number, q);
    return q;
  }

  void end(Query q) {
    if (running.remove(q.number) != null) {
      ended.incrementAndGet();
    }
  }

  /** Cancels a query if this core gave it that number, and it has not ended. */
  boolean cancel(long boot, long number) {
    Query q = boot == this.boot ? running.get(number) : null;
    if (q == null) {
      return false;
    }
    q.cancelled = true;
    return true;
  }
}
