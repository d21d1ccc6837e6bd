package spillgate.tracer;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.List;

/** What threads, and the process, have used: the units of resources of kind system. Its methods may be called by any thread. */
public final class Usage {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final com.sun.management.ThreadMXBean MORE = THREADS instanceof com.sun.management.ThreadMXBean more ? more : null;
    private static final List<GarbageCollectorMXBean> COLLECTORS = ManagementFactory.getGarbageCollectorMXBeans();

    private Usage() {}

    /** Returns the processor time of a thread in nanoseconds, 0 where the machine does not tell. */
    public static long cpu(Thread thread) {
        return THREADS.isThreadCpuTimeSupported() ? Math.max(THREADS.getThreadCpuTime(thread.getId()), 0) : 0;
    }

    /** Returns how many bytes of the heap a thread has taken, 0 where the machine does not tell. */
    public static long memory(Thread thread) {
        return MORE == null ? 0 : Math.max(MORE.getThreadAllocatedBytes(thread.getId()), 0);
    }

    /** Returns for how long collections have stopped all threads since the process began, in milliseconds. */
    public static long collecting() {
        long sum = 0;
        for (GarbageCollectorMXBean gc : COLLECTORS) {
            if (!gc.getName().contains("Concurrent")) {
                sum += Math.max(gc.getCollectionTime(), 0);
            }
        }
        return sum;
    }
}
