package spillgate.opensearch;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.opensearch.OpenSearchStatusException;
import org.opensearch.core.rest.RestStatus;
import org.opensearch.tasks.CancellableTask;
import org.opensearch.tasks.Task;
import spillgate.tracer.Consumption;
import spillgate.tracer.Info;
import spillgate.tracer.Tracer;

/** A request with all its parts on this node. */
final class Request {
  final Task task;
  private final Requests all;
  private final long kind;
  private final boolean items; // it is of operations that are answered one by one
  private spillgate.tracer.Task traced;
  private Consumption consumption;
  private volatile boolean cancelled;
  private volatile boolean refused; // as it waited for its first thread
  private volatile boolean givenUp; // some operations of a bulk request
  private boolean begun; // a thread ran a part

  // By pool.
  private final int[] sent = new int[Pool.values().length]; // parts without an answer
  private final int[] queued = new int[Pool.values().length]; // of these, those that no thread has run
  private final int[] running = new int[Pool.values().length]; // threads
  private final boolean[] waits = new boolean[Pool.values().length]; // as recorded

  private int lined; // parts that wait for their turn at a document
  private int again; // threads that compute an answer which the cache had to give up
  private long displaced; // bytes of the cache, not recorded yet

  private final Set<Measure> measured = new HashSet<>(); // by the node
  private final Map<Thread, ThreadUse> using = new HashMap<>(); // of parts that it does not measure
  private long cpu; // of those that have ended
  private long memory;
  private long ran; // threads times nanoseconds until changed, since the last sample
  private long changed;
  private boolean ended;

  Request(Requests all, Task task, long kind, boolean items) {
    this.all = all;
    this.task = task;
    this.kind = kind;
    this.items = items;
    Measure whole = all.measured(task);
    if (whole != null) {
      measured.add(whole);
    }
  }

  /** Returns whether the request is traced. */
  synchronized boolean begin(Tracer tracer, Info info) {
    traced = tracer.begin(info);
    consumption = new Consumption(traced, all.processor, all.heap);
    changed = System.nanoTime();
    return traced.traced();
  }

  /** A part was sent to a pool of this node. */
  synchronized void sent(Pool pool) {
    sent[pool.ordinal()]++;
    queued[pool.ordinal()]++;
    record(pool);
  }

  /** A part was answered, whether a thread ran it or not. */
  synchronized void answered(Pool pool) {
    int p = pool.ordinal();
    sent[p]--;
    queued[p] = Math.min(queued[p], sent[p]);
    record(pool);
  }

  /** A part waits for its turn at a document from now on. */
  synchronized void lined() {
    if (++lined == 1 && !ended) {
      traced.waitBegin(all.document);
    }
  }

  /** A part that waited has its turn. */
  synchronized void itsTurn() {
    if (--lined == 0 && !ended) {
      traced.waitEnd(all.document);
    }
  }

  /** Another request waits for the turn of a part of this one to end. */
  synchronized void keepsDocument() {
    if (!ended) {
      traced.acquire(all.document, 1);
    }
  }

  /** That turn has ended. */
  synchronized void freesDocument() {
    if (!ended) {
      traced.release(all.document, 1);
    }
  }

  /** A thread computes an answer that the cache does not have, because it had to give it up or for another reason. */
  synchronized void computes(boolean again) {
    if (again && ++this.again == 1 && !ended) {
      traced.waitBegin(all.answers);
    }
  }

  /** It has: the answer takes so many bytes of the cache, and has displaced others. */
  synchronized void computed(boolean again, long bytes, long displaced) {
    this.again -= again ? 1 : 0;
    this.displaced += displaced;
    if (ended) {
      return;
    }
    if (this.again == 0) {
      traced.evicted(all.answers, this.displaced);
      this.displaced = 0;
    }
    traced.acquire(all.answers, bytes);
  }

  /**
   * A thread of a pool runs a part from now on, whose use is measured so. If the kind of the request has been kept out since it came, and
   * this is its first thread, the request ends.
   */
  void started(Pool pool, Measure by) {
    if (starts(pool, by) && pool == Pool.SEARCH && all.keptOut(kind) && task instanceof CancellableTask c) {
      refused = true;
      all.cancel(c);
    }
  }

  /** Returns whether it is the first thread. */
  private synchronized boolean starts(Pool pool, Measure by) {
    int p = pool.ordinal();
    flow();
    queued[p] = Math.max(queued[p] - 1, 0);
    if (by instanceof ThreadUse u) {
      using.put(u.thread, u);
    } else {
      measured.add(by);
    }
    if (!ended) {
      running[p]++;
      traced.acquire(all.pools[p], 1);
    }
    record(pool);
    boolean first = !begun;
    begun = true;
    return first;
  }

  /** A thread of a pool has run a part. */
  synchronized void stopped(Pool pool, Thread thread) {
    int p = pool.ordinal();
    flow();
    ThreadUse u = using.remove(thread);
    if (u != null) {
      cpu += u.cpu();
      memory += u.memory();
    }
    if (running[p] > 0 && !ended) {
      running[p]--;
      traced.release(all.pools[p], 1);
    }
    record(pool);
  }

  /** A request that has some threads goes on, if more slowly: it waits only if it has none. */
  private void record(Pool pool) {
    int p = pool.ordinal();
    boolean now = queued[p] > 0 && running[p] == 0;
    if (now == waits[p] || ended) {
      return;
    }
    waits[p] = now;
    if (now) {
      traced.waitBegin(all.pools[p]);
    } else {
      traced.waitEnd(all.pools[p]);
    }
  }

  private int threads() {
    int n = 0;
    for (int r : running) {
      n += r;
    }
    return n;
  }

  private void flow() {
    long now = System.nanoTime();
    ran += threads() * Math.max(now - changed, 0);
    changed = now;
  }

  /** Records what was used since the last call, and lost; collecting is the share of the time for which the collector stopped all. */
  synchronized void sample(double collecting) {
    if (ended) {
      return;
    }
    flow();
    long used = cpu;
    long taken = memory;
    for (ThreadUse u : using.values()) {
      used += u.cpu();
      taken += u.memory();
    }
    for (Iterator<Measure> i = measured.iterator(); i.hasNext(); ) {
      Measure m = i.next();
      boolean lasts = m.refresh();
      used += m.cpu();
      taken += m.memory();
      if (!lasts) { // a reindex has parts without end
        cpu += m.cpu();
        memory += m.memory();
        i.remove();
      }
    }
    consumption.record(used, taken, ran, threads(), collecting);
    ran = 0;
  }

  /** The tracer is told without the lock of the request: it waits for a cancel that is being delivered, which may take that lock. */
  void end() {
    synchronized (this) {
      sample(0);
      ended = true;
    }
    traced.close();
  }

  /** Is called by the tracer if a guard cancels the request. */
  void cancel() {
    cancelled = true;
    if (task instanceof CancellableTask c) {
      all.cancel(c);
    }
  }

  /**
   * Returns what the client gets instead of the operations that are left, null if these are to be executed: those of a bulk request are
   * answered one by one, so none begins while their kind is kept out.
   */
  OpenSearchStatusException left() {
    OpenSearchStatusException why = cancelled ? cancelled(null) : items && all.keptOut(kind) ? Refusals.refusal() : null;
    givenUp |= why != null;
    return why;
  }

  /** Reports whether operations were given up. */
  boolean givenUp() {
    return givenUp;
  }

  /** Returns what the client gets instead of a failure. */
  Exception answer(Exception failure) {
    if (cancelled) {
      return cancelled(failure);
    }
    return refused ? Refusals.refusal() : failure;
  }

  private static OpenSearchStatusException cancelled(Exception cause) {
    return new OpenSearchStatusException("cancelled by a guard: it blocked others; do not send it again at once", RestStatus.SERVICE_UNAVAILABLE, cause);
  }
}
