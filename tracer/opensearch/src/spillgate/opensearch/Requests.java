package spillgate.opensearch;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.opensearch.cluster.node.DiscoveryNode;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.tasks.CancellableTask;
import org.opensearch.tasks.Task;
import spillgate.tracer.Info;
import spillgate.tracer.Resource;
import spillgate.tracer.Tracer;

/** The requests that run. Its methods may be called by any thread. */
final class Requests {
  /** The header that all parts of a request carry, also to other nodes: its number, and the node that gave it. */
  private static final String HEADER = "spillgate_request";

  /** How many names of applications are made known; a further one has a number and no name. */
  private static final int MOST_APPLICATIONS = 128;

  final Resource[] pools = new Resource[Pool.values().length];
  final Resource processor;
  final Resource heap;
  final Resource document;
  /** The bytes of the cache of answers; Elasticsearch shows them to no plugin. */
  final Resource answers;
  final Documents documents = new Documents(this);
  volatile ThreadContext context;

  private final Tracer tracer;
  private final ConcurrentHashMap<Long, Request> running = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, Long> applications = new ConcurrentHashMap<>();
  private final AtomicInteger named = new AtomicInteger();
  private volatile Server server;

  Requests(Tracer tracer) {
    this.tracer = tracer;
    for (Pool p : Pool.values()) {
      pools[p.ordinal()] = tracer.resource(p.title, Resource.Kind.QUEUE);
    }
    processor = tracer.processor();
    heap = tracer.resource("heap", Resource.Kind.SYSTEM);
    document = tracer.resource("documents", Resource.Kind.LOCK);
    answers = tracer.resource("request cache", Resource.Kind.MEMORY);
  }

  void serve(Server server) {
    this.server = server;
  }

  /** Returns this node, null while it starts. */
  private DiscoveryNode here() {
    Server s = server;
    return s == null ? null : s.here();
  }

  /** Returns whether requests of an action are recorded, here and now. What begins as a part of one is not a request. */
  boolean watched(String action) {
    return tracer.recording() && here() != null && Kinds.watched(action) && context.getHeader(HEADER) == null;
  }

  /** Returns the fingerprint of what a request does. */
  long kind(String action, Object body) {
    return tracer.kind(Kinds.of(action, body));
  }

  boolean keptOut(long kind) {
    return tracer.keptOut(kind);
  }

  /** Begins a request, of operations that are answered one by one or not, or returns null if there is no room for another. */
  Request begin(Task task, String action, long kind, boolean items) {
    Request r = new Request(this, task, kind, items);
    Info info = new Info(application(task), kind, Kinds.flags(action), task.getStartTimeNanos(), r::cancel);
    if (!r.begin(tracer, info)) {
      return null;
    }
    running.put(task.getId(), r);
    return r;
  }

  /** Makes the calling thread's work that of a request. */
  void enter(Request r) {
    context.putHeader(HEADER, here().getId() + ":" + r.task.getId());
  }

  /** Returns the request that the calling thread works for, null if it works for none of this node. */
  Request current() {
    String value = context.getHeader(HEADER);
    DiscoveryNode here = value == null ? null : here();
    if (here == null) {
      return null;
    }
    int colon = value.lastIndexOf(':');
    if (!value.substring(0, Math.max(colon, 0)).equals(here.getId())) {
      return null;
    }
    try {
      return running.get(Long.parseLong(value, colon + 1, value.length(), 10));
    } catch (NumberFormatException e) {
      return null; // a client wrote it
    }
  }

  boolean isHere(DiscoveryNode node) {
    return node != null && node.equals(here());
  }

  void end(Request r) {
    running.remove(r.task.getId());
    r.end();
  }

  /** Records what all have used; collecting is the share of the time for which the collector stopped them. */
  void sample(double collecting) {
    for (Request r : running.values()) {
      try {
        r.sample(collecting);
      } catch (RuntimeException e) {
        // One request that cannot be read is no reason to lose sight of the others.
      }
    }
  }

  /** Returns what the node measures of a task, null if it measures nothing. */
  Measure measured(Task task) {
    return server.measured(task);
  }

  /** Runs something on a thread of the node after some milliseconds, or at once if the node stops. */
  void later(long millis, Runnable what) {
    server.later(millis, what);
  }

  /** Reports whether something waits for a thread for writes. */
  boolean writesWait() {
    return server.writesWait();
  }

  /** Has the node cancel a task and all its parts. */
  void cancel(CancellableTask task) {
    server.cancel(task);
  }

  /** Returns the number of the application that the request names, whose name the table of kinds has. */
  private long application(Task task) {
    String name = task.getHeader(Task.X_OPAQUE_ID);
    if (name == null || name.isEmpty()) {
      return 0;
    }
    Long known = applications.get(name);
    if (known != null) {
      return known;
    }
    if (named.getAndIncrement() >= MOST_APPLICATIONS) {
      named.decrementAndGet();
      return 0;
    }
    long number = tracer.kind(name);
    applications.put(name, number);
    return number;
  }
}
