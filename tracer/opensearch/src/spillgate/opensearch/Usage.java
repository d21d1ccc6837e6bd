package spillgate.opensearch;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.List;

/** What threads, and the process, have used. */
final class Usage {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final com.sun.management.ThreadMXBean MORE = THREADS instanceof com.sun.management.ThreadMXBean more ? more : null;
  private static final List<GarbageCollectorMXBean> COLLECTORS = ManagementFactory.getGarbageCollectorMXBeans();

  private Usage() {}

  /** Returns the processor time of a thread in nanoseconds, 0 where the machine does not tell. */
  static long cpu(Thread thread) {
    return THREADS.isThreadCpuTimeSupported() ? Math.max(THREADS.getThreadCpuTime(thread.threadId()), 0) : 0;
  }

  /** Returns how many bytes of the heap a thread has taken, 0 where the machine does not tell. */
  static long memory(Thread thread) {
    return MORE == null ? 0 : Math.max(MORE.getThreadAllocatedBytes(thread.threadId()), 0);
  }

  /** Returns for how long collections have stopped all, in milliseconds. */
  static long collecting() {
    long sum = 0;
    for (GarbageCollectorMXBean gc : COLLECTORS) {
      if (!gc.getName().contains("Concurrent")) {
        sum += Math.max(gc.getCollectionTime(), 0);
      }
    }
    return sum;
  }
}
