package spillgate.solr;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** What threads, and the process, have used. */
final class Usage {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final com.sun.management.ThreadMXBean MORE =
      THREADS instanceof com.sun.management.ThreadMXBean more ? more : null;

  private Usage() {}

  /** Returns the processor time of a thread in nanoseconds, 0 where the machine does not tell. */
  static long cpu(Thread thread) {
    return THREADS.isThreadCpuTimeSupported() ? Math.max(THREADS.getThreadCpuTime(thread.getId()), 0) : 0;
  }

  /** Returns how many bytes of the heap a thread has taken, 0 where the machine does not tell. */
  static long memory(Thread thread) {
    return MORE == null ? 0 : Math.max(MORE.getThreadAllocatedBytes(thread.getId()), 0);
  }

  /** Returns the time that collections have taken, in milliseconds. */
  static long collecting() {
    long sum = 0;
    for (GarbageCollectorMXBean gc : ManagementFactory.getGarbageCollectorMXBeans()) {
      if (!gc.getName().contains("Concurrent")) {
        sum += Math.max(gc.getCollectionTime(), 0);
      }
    }
    return sum;
  }
}
