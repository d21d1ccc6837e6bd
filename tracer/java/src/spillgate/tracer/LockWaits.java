package spillgate.tracer;

import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.Map;

/**
 * Tells which threads wait for a lock that another thread holds: a monitor ({@code synchronized}), or a lock of java.util.concurrent
 * that one thread at a time holds. The threads' code need not know of it. One thread at a time uses it.
 */
public final class LockWaits {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private Map<Long, Wait> before = Map.of();

    /** A thread waits for a lock of this identity, which the owner has. */
    private record Wait(int lock, long owner) {}

    /**
     * Looks once, which stops no thread. A wait counts from the second look on that shows it: most locks are held for microseconds, and a
     * wait for one of these says nothing.
     *
     * @param threads the identifiers of threads
     * @return by the identifier of each of these that waits, that of the thread which has the lock
     */
    public Map<Long, Long> look(long[] threads) {
        Map<Long, Wait> now = new HashMap<>();
        Map<Long, Long> lasting = new HashMap<>();
        for (ThreadInfo t : threads.length == 0 ? new ThreadInfo[0] : THREADS.getThreadInfo(threads)) {
            LockInfo lock = t == null ? null : t.getLockInfo(); // null: the thread has ended
            if (lock == null || t.getLockOwnerId() < 0 || !enters(t, lock)) {
                continue;
            }
            Wait w = new Wait(lock.getIdentityHashCode(), t.getLockOwnerId());
            now.put(t.getThreadId(), w);
            if (w.equals(before.get(t.getThreadId()))) {
                lasting.put(t.getThreadId(), w.owner());
            }
        }
        before = now;
        return lasting;
    }

    /** Reports whether a thread waits to have the lock; one in Object.wait waits for a signal, whoever has the monitor. */
    private static boolean enters(ThreadInfo t, LockInfo lock) {
        return t.getThreadState() == Thread.State.BLOCKED || lock.getClassName().startsWith("java.util.concurrent.locks.");
    }
}
