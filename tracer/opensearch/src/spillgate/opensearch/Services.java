package spillgate.opensearch;

import java.util.concurrent.ThreadPoolExecutor;
import org.opensearch.cluster.node.DiscoveryNode;
import org.opensearch.common.inject.Inject;
import org.opensearch.common.lifecycle.AbstractLifecycleComponent;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.concurrency.OpenSearchRejectedExecutionException;
import org.opensearch.tasks.CancellableTask;
import org.opensearch.tasks.Task;
import org.opensearch.tasks.TaskResourceTrackingService;
import org.opensearch.threadpool.ThreadPool;
import org.opensearch.transport.TransportService;
import spillgate.tracer.Sampler;

/** Hands the node's own services over once they are there. */
public final class Services extends AbstractLifecycleComponent implements Server {
  /** Those of the node that is being made. The node makes this class itself, so it can be told by no other way. */
  static volatile Requests requests;

  private final Requests own = requests;
  private final TransportService transport;
  private final TaskResourceTrackingService tracking;
  private volatile Sampler sampler;

  @Inject
  public Services(TransportService transport, TaskResourceTrackingService tracking) {
    this.transport = transport;
    this.tracking = tracking;
    own.serve(this);
  }

  @Override
  protected void doStart() {
    sampler = new Sampler(own::sample);
  }

  @Override
  protected void doStop() {
    sampler.close();
  }

  @Override
  protected void doClose() {}

  @Override
  public DiscoveryNode here() {
    return transport.getLocalNode();
  }

  @Override
  public void later(long millis, Runnable what) {
    try {
      transport.getThreadPool().schedule(what, TimeValue.timeValueMillis(millis), ThreadPool.Names.GENERIC);
    } catch (OpenSearchRejectedExecutionException e) {
      what.run();
    }
  }

  @Override
  public boolean writesWait() {
    return transport.getThreadPool().executor(ThreadPool.Names.WRITE) instanceof ThreadPoolExecutor pool && !pool.getQueue().isEmpty();
  }

  @Override
  public void cancel(CancellableTask task) {
    transport.getTaskManager().cancelTaskAndDescendants(task, "cancelled by a guard: it blocked others", false, ActionListener.wrap(() -> {}));
  }

  @Override
  public Measure measured(Task task) {
    boolean measures = task != null && task.supportsResourceTracking() && tracking.isTaskResourceTrackingEnabled();
    return measures ? new Tracked(task, tracking) : null;
  }

  /** What the node measures of a task: of all its threads. */
  private record Tracked(Task task, TaskResourceTrackingService tracking) implements Measure {
    @Override
    public long cpu() {
      return task.getTotalResourceStats().getCpuTimeInNanos();
    }

    @Override
    public long memory() {
      return task.getTotalResourceStats().getMemoryInBytes();
    }

    /** One that has ended is measured no more. */
    @Override
    public boolean refresh() {
      boolean lasts = tracking.getResourceAwareTasks().get(task.getId()) == task;
      tracking.refreshResourceStats(task);
      return lasts;
    }
  }
}
