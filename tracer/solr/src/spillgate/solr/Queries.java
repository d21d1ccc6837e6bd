package spillgate.solr;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.nio.file.Path;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.solr.core.CloseHook;
import org.apache.solr.core.SolrCore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The queries of one core, and the kinds of them that are kept out. */
final class Queries {
  private static final Logger LOG = LoggerFactory.getLogger(MethodHandles.lookup().lookupClass());
  private static final Map<SolrCore, Queries> CORES = new WeakHashMap<>();

  /** How many kinds are kept out at once; a further one takes the place of none. */
  private static final int MOST_KEPT_OUT = 64;

  /** For how long a refusal is held back: drawn anew for each, because what comes back together takes all processors for a moment. */
  private static final long LEAST_HELD_MILLIS = 1000;

  private static final long MOST_HELD_MILLIS = 3000;

  /** How many are held back at once, each with a thread of the server, of which Solr has 10,000. */
  private static final int MOST_HELD = 32;

  /** Tells the numbers of this core from those that it gave before a restart. Positive. */
  final long boot = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);

  final ConcurrentHashMap<Long, Query> running = new ConcurrentHashMap<>();
  final AtomicLong ended = new AtomicLong();
  private final AtomicLong last = new AtomicLong();
  private volatile TaskFile tasks; // or null

  /** By kind, until when no query of it begins, on the clock of System.nanoTime. */
  private final ConcurrentHashMap<Long, Long> keptOut = new ConcurrentHashMap<>();

  private final Semaphore held = new Semaphore(MOST_HELD);

  private Queries() {}

  /** Returns those of a core. */
  static Queries of(SolrCore core) {
    synchronized (CORES) {
      return CORES.computeIfAbsent(core, c -> new Queries());
    }
  }

  /** Shows the queries in a task file until the core is closed. Without one they are served all the same. */
  synchronized void show(SolrCore core, Path path) {
    if (tasks != null) {
      return; // of another handler
    }
    try {
      TaskFile file = new TaskFile(path, this);
      tasks = file;
      core.addCloseHook(
          new CloseHook() {
            @Override
            public void postClose(SolrCore closed) {
              file.close();
            }
          });
    } catch (IOException e) {
      LOG.error("queries are shown over HTTP alone: the task file {} cannot be opened", path, e);
    }
  }

  /** Enters a query, which waits if it may have to, or returns null if its kind is kept out. */
  Query begin(Shape shape, String client, boolean waits) {
    TaskFile file = tasks;
    long kind = file == null ? 0 : file.kind(shape);
    if (keptOut(shape, kind)) {
      return null;
    }
    Query q = new Query(last.incrementAndGet(), shape, client, kind);
    if (kind != 0) {
      q.show(file.begin(q, kind), waits);
    }
    running.put(q.number, q); // last: nothing of it stays behind if the task file is at fault
    return q;
  }

  /** Reports whether a query, which has waited, is of a kind that is kept out by now. */
  boolean keptOut(Query q) {
    return keptOut(q.shape, q.named);
  }

  private boolean keptOut(Shape shape, long named) {
    Long until = keptOut.get(shape.kind);
    return until != null && until - System.nanoTime() > 0 || named != 0 && tasks.keptOut(named);
  }

  void end(Query q) {
    if (running.remove(q.number) != null) {
      q.end();
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

  /**
   * Waits before a query is refused whose kind is kept out, unless many do. A client that sends it again at once costs the node its
   * reading each time, of thousands of clauses milliseconds of a processor: one that waits for each answer comes so much less often.
   */
  void holdBack() throws InterruptedException {
    if (held.tryAcquire()) {
      try {
        Thread.sleep(ThreadLocalRandom.current().nextLong(LEAST_HELD_MILLIS, MOST_HELD_MILLIS));
      } finally {
        held.release();
      }
    }
  }

  /** Keeps a kind out for a time from now on. Reports false if as many are as may be. */
  boolean keepOut(long kind, long nanos) {
    long now = System.nanoTime();
    keptOut.values().removeIf(until -> until - now <= 0);
    if (keptOut.size() >= MOST_KEPT_OUT && !keptOut.containsKey(kind)) {
      return false;
    }
    keptOut.put(kind, now + nanos);
    return true;
  }
}
