package spillgate.solr;

import spillgate.tracer.Usage;

/** One query that runs, or waits for a slot. Fields are written by its own thread, and read by any. */
final class Query {
  private static final ThreadLocal<Query> CURRENT = new ThreadLocal<>();

  final long number;
  final Shape shape;
  final String client;
  /** The fingerprint of the shape in the task file, 0 without one. */
  final long named;
  final long began = System.nanoTime();
  final Thread thread = Thread.currentThread();
  private final long cpu = Usage.cpu(thread);
  private final long memory = Usage.memory(thread);
  /** When it got a slot, 0 while it waits. */
  volatile long admitted;
  volatile boolean cancelled;

  /** Null without a task file, and once it has ended. */
  private TaskFile.Traced traced;

  private long sampled; // when, 0 while it waits
  private boolean blocked; // waits for a lock
  private boolean blocks; // has one that another waits for

  Query(long number, Shape shape, String client, long named) {
    this.number = number;
    this.shape = shape;
    this.client = client;
    this.named = named;
  }

  /** Shows the query in a task file; it may have to wait for a slot. */
  synchronized void show(TaskFile.Traced as, boolean waits) {
    traced = as;
    if (waits) {
      as.task().waitBegin(as.slots());
    }
  }

  /** It has a slot now, if there are any. */
  synchronized void admit() {
    admitted = Math.max(System.nanoTime(), 1);
    sampled = admitted;
    if (traced != null) {
      traced.task().waitEnd(traced.slots());
      traced.task().acquire(traced.slots(), 1);
    }
  }

  /** Records whether it waits for a lock that another thread has, and whether another query waits for one that it has. */
  synchronized void lock(boolean waits, boolean has) {
    if (traced == null) {
      return;
    }
    if (waits && !blocked) {
      traced.task().waitBegin(traced.locks());
    } else if (blocked && !waits) {
      traced.task().waitEnd(traced.locks());
    }
    if (has && !blocks) {
      traced.task().acquire(traced.locks(), 1);
    } else if (blocks && !has) {
      traced.task().release(traced.locks(), 1);
    }
    blocked = waits;
    blocks = has;
  }

  /** Records what was used since the last call; collecting is the share of the time for which the collector stopped all. */
  synchronized void sample(double collecting) {
    if (traced == null || sampled == 0) {
      return;
    }
    long now = System.nanoTime();
    long ran = blocked ? 0 : Math.max(now - sampled, 0); // it lacks a lock, not a processor
    traced.use().record(used(), taken(), ran, 1, collecting);
    sampled = now;
  }

  synchronized void end() {
    sample(0);
    if (traced != null) {
      traced.task().close();
      traced = null;
    }
  }

  /** Returns what its thread has used of processors since it began, in nanoseconds. */
  long used() {
    return Math.max(Usage.cpu(thread) - cpu, 0);
  }

  /** Returns how many bytes of the heap its thread has taken since it began. */
  long taken() {
    return Math.max(Usage.memory(thread) - memory, 0);
  }

  /** Makes this the query that the calling thread works for. */
  void enter() {
    CURRENT.set(this);
  }

  /** Ends what enter began. */
  void leave() {
    CURRENT.remove();
  }

  /** Reports whether the calling thread works for a query that was cancelled. */
  static boolean currentIsCancelled() {
    Query q = CURRENT.get();
    return q != null && q.cancelled;
  }
}
