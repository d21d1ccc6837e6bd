package spillgate.elasticsearch;

import java.util.concurrent.ThreadPoolExecutor;
import org.elasticsearch.action.ActionListener;
import org.elasticsearch.cluster.node.DiscoveryNode;
import org.elasticsearch.cluster.service.ClusterService;
import org.elasticsearch.common.component.AbstractLifecycleComponent;
import org.elasticsearch.common.component.Lifecycle;
import org.elasticsearch.common.util.concurrent.EsRejectedExecutionException;
import org.elasticsearch.core.TimeValue;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.tasks.CancellableTask;
import org.elasticsearch.tasks.Task;
import org.elasticsearch.tasks.TaskManager;
import org.elasticsearch.threadpool.ThreadPool;
import spillgate.tracer.Sampler;

/** The node's own services. Elasticsearch does not measure what tasks use. */
final class Services extends AbstractLifecycleComponent implements Server {
  private final Requests requests;
  private final ClusterService cluster;
  private final TaskManager tasks;
  private final ThreadPool threads;
  private volatile Sampler sampler;

  Services(Requests requests, Plugin.PluginServices node) {
    this.requests = requests;
    cluster = node.clusterService();
    tasks = node.taskManager();
    threads = node.threadPool();
    requests.serve(this);
  }

  @Override
  protected void doStart() {
    sampler = new Sampler(requests::sample);
  }

  @Override
  protected void doStop() {
    sampler.close();
  }

  @Override
  protected void doClose() {}

  @Override
  public DiscoveryNode here() {
    return cluster.lifecycleState() == Lifecycle.State.STARTED ? cluster.localNode() : null;
  }

  @Override
  public void later(long millis, Runnable what) {
    try {
      threads.schedule(what, TimeValue.timeValueMillis(millis), threads.generic());
    } catch (EsRejectedExecutionException e) {
      what.run();
    }
  }

  @Override
  public boolean writesWait() {
    return threads.executor(ThreadPool.Names.WRITE) instanceof ThreadPoolExecutor pool && !pool.getQueue().isEmpty();
  }

  @Override
  public void cancel(CancellableTask task) {
    tasks.cancelTaskAndDescendants(task, "cancelled by a guard: it blocked others", false, ActionListener.noop());
  }

  @Override
  public Measure measured(Task task) {
    return null;
  }
}
