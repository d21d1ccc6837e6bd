package spillgate.solr;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import spillgate.tracer.Consumption;
import spillgate.tracer.Info;
import spillgate.tracer.LockWaits;
import spillgate.tracer.Resource;
import spillgate.tracer.Sampler;
import spillgate.tracer.Task;
import spillgate.tracer.Tracer;

/** Shows the queries of one handler to a guard that reads a task file, and cancels the one that it names. */
final class TaskFile implements AutoCloseable {
  /** How many names of clients are made known; a further one has a number and no name. */
  private static final int MOST_CLIENTS = 128;

  private final Tracer tracer;
  private final Resource slots;
  private final Resource processor;
  private final Resource heap;
  private final Resource locks;
  private final LockWaits lockWaits = new LockWaits();
  private final Sampler sampler;
  private final ConcurrentHashMap<String, Long> clients = new ConcurrentHashMap<>();

  /** Opens the file at path, and makes it if it is not there. What running queries use is recorded while it is open. */
  TaskFile(Path path, Queries all) throws IOException {
    tracer = Tracer.open(path);
    slots = tracer.resource("query slots", Resource.Kind.QUEUE);
    processor = tracer.processor();
    heap = tracer.resource("heap", Resource.Kind.SYSTEM);
    locks = tracer.resource("locks", Resource.Kind.LOCK);
    sampler = new Sampler(share -> sample(all.running.values(), share));
  }

  /** Records what queries used since the last call, and which of them wait for a lock that another has. */
  private void sample(Collection<Query> running, double collecting) {
    Map<Long, Query> queries = new HashMap<>();
    running.forEach(q -> queries.put(q.thread.getId(), q));
    Map<Long, Long> waits = lockWaits.look(queries.keySet().stream().mapToLong(Long::longValue).toArray());
    Set<Long> owners = new HashSet<>(waits.values());
    queries.forEach(
        (thread, q) -> {
          q.lock(waits.containsKey(thread), owners.contains(thread));
          q.sample(collecting);
        });
  }

  /** What a name in the task file cannot be made of; a query with a parameter of such a name is shown all the same. */
  private static final java.util.regex.Pattern UNFIT = java.util.regex.Pattern.compile("[\\p{Cc}\\p{Cs}]");

  /** Returns the fingerprint of a shape, 0 while no guard reads. */
  long kind(Shape shape) {
    return tracer.recording() ? tracer.kind(Tracer.fitting(UNFIT.matcher(shape.text).replaceAll("?"))) : 0;
  }

  boolean keptOut(long kind) {
    return tracer.keptOut(kind);
  }

  /** Begins a task for a query, which the same thread ends. */
  Traced begin(Query q, long kind) {
    Task task = tracer.begin(new Info(client(q.client), kind, 0, q.began, () -> q.cancelled = true));
    return new Traced(task, slots, locks, new Consumption(task, processor, heap));
  }

  /** Returns the number of a client, whose name the table of kinds has. */
  private long client(String name) {
    if (name.isEmpty() || clients.size() >= MOST_CLIENTS && !clients.containsKey(name)) {
      return 0;
    }
    return clients.computeIfAbsent(name, tracer::kind);
  }

  /** Is called when the core is closed: what still runs is recorded no more. */
  @Override
  public void close() {
    sampler.close();
    try {
      tracer.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The task of a query. Its methods exclude each other in the query. */
  record Traced(Task task, Resource slots, Resource locks, Consumption use) {}
}
