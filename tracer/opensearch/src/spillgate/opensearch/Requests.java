package spillgate.opensearch;

import java.util.Collection;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.opensearch.cluster.node.DiscoveryNode;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.tasks.CancellableTask;
import org.opensearch.tasks.Task;
import org.opensearch.tasks.TaskResourceTrackingService;
import org.opensearch.transport.TransportService;
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
  volatile ThreadContext context;
  volatile boolean stopped;

  private final Tracer tracer;
  private final ConcurrentHashMap<Long, Request> running = new ConcurrentHashMap<>();
  private final ConcurrentHashMap<String, Long> applications = new ConcurrentHashMap<>();
  private final AtomicInteger named = new AtomicInteger();
  private volatile TransportService transport;
  private volatile TaskResourceTrackingService tracking;

  Requests(Tracer tracer) {
    this.tracer = tracer;
    for (Pool p : Pool.values()) {
      pools[p.ordinal()] = tracer.resource(p.title, Resource.Kind.QUEUE);
    }
    processor = tracer.resource("processor", Resource.Kind.SYSTEM);
    heap = tracer.resource("heap", Resource.Kind.SYSTEM);
  }

  void serve(TransportService transport, TaskResourceTrackingService tracking) {
    this.transport = transport;
    this.tracking = tracking;
  }

  void stop() {
    stopped = true;
  }

  /** Begins a request, or returns null if nobody watches, or if it is a part of one. */
  Request begin(Task task, String action, Object body) {
    TransportService t = transport;
    if (!tracer.recording() || t == null || t.getLocalNode() == null || context.getHeader(HEADER) != null) {
      return null;
    }
    Request r = new Request(this, task);
    Info info = new Info(application(task), tracer.kind(Kinds.of(action, body)), Kinds.flags(action), task.getStartTimeNanos(), r::cancel);
    if (!r.begin(tracer, info)) {
      return null;
    }
    running.put(task.getId(), r);
    return r;
  }

  /** Makes the calling thread's work that of a request. */
  void enter(Request r) {
    context.putHeader(HEADER, transport.getLocalNode().getId() + ":" + r.task.getId());
  }

  /** Returns the request that the calling thread works for, null if it works for none of this node. */
  Request current() {
    String value = context.getHeader(HEADER);
    TransportService t = transport;
    if (value == null || t == null) {
      return null;
    }
    int colon = value.lastIndexOf(':');
    if (!value.regionMatches(0, t.getLocalNode().getId(), 0, colon)) {
      return null;
    }
    try {
      return running.get(Long.parseLong(value, colon + 1, value.length(), 10));
    } catch (NumberFormatException e) {
      return null; // a client wrote it
    }
  }

  boolean isHere(DiscoveryNode node) {
    return node != null && node.equals(transport.getLocalNode());
  }

  void end(Request r) {
    running.remove(r.task.getId());
    r.end();
  }

  Collection<Request> all() {
    return running.values();
  }

  /** Brings up to date what the node has measured of a task. */
  void refresh(Task task) {
    tracking.refreshResourceStats(task);
  }

  /** Has the node cancel a task and all its parts. */
  void cancel(CancellableTask task) {
    transport.getTaskManager().cancelTaskAndDescendants(task, "cancelled by a guard: it blocked others", false, ActionListener.wrap(() -> {}));
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
