package spillgate.opensearch;

import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import org.opensearch.OpenSearchStatusException;
import org.opensearch.core.rest.RestStatus;
import org.opensearch.core.tasks.resourcetracker.TaskResourceUsage;
import org.opensearch.tasks.CancellableTask;
import org.opensearch.tasks.Task;
import spillgate.tracer.Consumption;
import spillgate.tracer.Info;
import spillgate.tracer.Tracer;

/** A request with all its parts on this node. */
final class Request {
  final Task task;
  private final Requests all;
  private spillgate.tracer.Task traced;
  private Consumption consumption;
  private volatile boolean cancelled;

  // By pool.
  private final int[] sent = new int[Pool.values().length]; // parts without an answer
  private final int[] queued = new int[Pool.values().length]; // of these, those that no thread has run
  private final int[] running = new int[Pool.values().length]; // threads
  private final boolean[] waits = new boolean[Pool.values().length]; // as recorded

  private final Set<Task> measured = new HashSet<>(); // by the node
  private final Set<WritePart> writing = new HashSet<>(); // which the node does not measure
  private long cpu; // of those that have ended
  private long memory;
  private long ran; // threads times nanoseconds until changed, since the last sample
  private long changed;
  private boolean ended;

  Request(Requests all, Task task) {
    this.all = all;
    this.task = task;
    if (task.supportsResourceTracking()) {
      measured.add(task);
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

  /** A thread for searches runs a part from now on, whose task the node measures. */
  synchronized void started(Task part) {
    started(Pool.SEARCH);
    if (part != null) {
      measured.add(part);
    }
  }

  /** A thread for writes runs a part from now on. */
  synchronized void started(WritePart part) {
    started(Pool.WRITE);
    writing.add(part);
  }

  private void started(Pool pool) {
    int p = pool.ordinal();
    flow();
    queued[p] = Math.max(queued[p] - 1, 0);
    if (!ended) {
      running[p]++;
      traced.acquire(all.pools[p], 1);
    }
    record(pool);
  }

  /** A thread for writes has run a part. */
  synchronized void stopped(WritePart part) {
    if (writing.remove(part)) {
      cpu += part.cpu();
      memory += part.memory();
      stopped(Pool.WRITE);
    }
  }

  /** A thread has run a part. */
  synchronized void stopped(Pool pool) {
    int p = pool.ordinal();
    flow();
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
    for (WritePart part : writing) {
      used += part.cpu();
      taken += part.memory();
    }
    for (Iterator<Task> i = measured.iterator(); i.hasNext(); ) {
      Task t = i.next();
      boolean lasts = all.refresh(t);
      TaskResourceUsage u = t.getTotalResourceStats();
      used += u.getCpuTimeInNanos();
      taken += u.getMemoryInBytes();
      if (!lasts) { // a reindex has parts without end
        cpu += u.getCpuTimeInNanos();
        memory += u.getMemoryInBytes();
        i.remove();
      }
    }
    consumption.record(used, taken, ran, threads(), collecting);
    ran = 0;
  }

  synchronized void end() {
    sample(0);
    ended = true;
    traced.close();
  }

  /** Is called by the tracer if a guard cancels the request. */
  void cancel() {
    cancelled = true;
    if (task instanceof CancellableTask c) {
      all.cancel(c);
    }
  }

  boolean cancelled() {
    return cancelled;
  }

  /** What the client of a cancelled request gets. */
  static OpenSearchStatusException refusal(Exception cause) {
    return new OpenSearchStatusException("cancelled by a guard: it blocked others; do not send it again at once", RestStatus.SERVICE_UNAVAILABLE, cause);
  }
}
