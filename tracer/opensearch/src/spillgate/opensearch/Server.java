package spillgate.opensearch;

import org.opensearch.cluster.node.DiscoveryNode;
import org.opensearch.tasks.CancellableTask;
import org.opensearch.tasks.Task;

/** What the node does for this package. Its methods may be called by any thread. */
interface Server {
  /** Returns this node, null while it starts. */
  DiscoveryNode here();

  /** Runs something on a thread of the node after some milliseconds, or at once if the node stops. */
  void later(long millis, Runnable what);

  /** Reports whether something waits for a thread for writes. */
  boolean writesWait();

  /** Has the node cancel a task and all its parts. */
  void cancel(CancellableTask task);

  /** Returns what the node measures of a task, null if it measures nothing. Those of one task are equal. */
  Measure measured(Task task);
}
