package spillgate.solr;

import java.util.concurrent.locks.ReentrantLock;
import org.apache.solr.handler.component.ResponseBuilder;
import org.apache.solr.handler.component.SearchComponent;

/** Has a lock for as many milliseconds as a query says: a monitor, or with lock.concurrent one of java.util.concurrent. */
public final class LockingComponent extends SearchComponent {
  private static final Object MONITOR = new Object();
  private static final ReentrantLock LOCK = new ReentrantLock();

  @Override
  public void prepare(ResponseBuilder builder) {}

  @Override
  public void process(ResponseBuilder builder) {
    long millis = builder.req.getParams().getLong("lock.millis", 0);
    if (builder.req.getParams().getBool("lock.concurrent", false)) {
      LOCK.lock();
      try {
        hold(millis);
      } finally {
        LOCK.unlock();
      }
      return;
    }
    synchronized (MONITOR) {
      hold(millis);
    }
  }

  private static void hold(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public String getDescription() {
    return "has a lock";
  }
}
