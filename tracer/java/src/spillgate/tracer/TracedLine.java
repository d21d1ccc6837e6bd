package spillgate.tracer;

import java.util.concurrent.TimeUnit;

/** What the helpers share: a wait that is recorded and can be cancelled. */
final class TracedLine {
    private static final long FOR_EVER_NS = Long.MAX_VALUE / 2;

    /** Tries to enter; waits up to a time, of nothing or more. */
    @FunctionalInterface
    interface Entrance {
        boolean tryEnter(long time, TimeUnit unit) throws InterruptedException;
    }

    private TracedLine() {}

    /** Enters, and records the wait and the hold. Throws CancelledException if the task is cancelled while it waits. */
    static void enter(Entrance entrance, Task task, Resource resource, long units) throws InterruptedException {
        await(entrance, task, resource);
        task.acquire(resource, units);
    }

    /**
     * Does as enter does, and records the wait alone. It waits once: whoever gives up and tries again stands at the end of the line, and a
     * writer would let all readers behind it pass each time.
     */
    static void await(Entrance entrance, Task task, Resource resource) throws InterruptedException {
        if (entrance.tryEnter(0, TimeUnit.NANOSECONDS)) {
            return;
        }
        task.waitBegin(resource);
        task.sleeps();
        try {
            do {
                task.checkPoint();
            } while (!entrance.tryEnter(FOR_EVER_NS, TimeUnit.NANOSECONDS));
        } catch (InterruptedException e) {
            task.checkPoint(); // a cancel that interrupts is a cancel
            throw e;
        } finally {
            task.wakes();
            task.waitEnd(resource);
        }
    }
}
