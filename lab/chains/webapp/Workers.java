package chains;

import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * k workers that sleep for an exponential time a request, first come, first
 * served.
 *
 * <p>When a request starts and ends is computed from those before it, and only
 * then waited for: a late timer makes one answer late and takes nothing from the
 * capacity, which is k ÷ mean whatever else the machine does. A request whose
 * caller has gone is served all the same, as by most servers.
 *
 * <p>How long a request takes follows from its name and the seed, so that the
 * same load is the same work in whatever order it comes.
 */
final class Workers {
    private final double mean; // nanoseconds
    private final long seed;
    private final long[] free; // when each worker is, on System.nanoTime's clock

    private long arrived;
    private long finished;
    private long worked; // nanoseconds, of those that arrived
    private long waited;

    Workers(int k, double mean, long seed) {
        this.mean = mean;
        this.seed = seed;
        this.free = new long[k];
        Arrays.fill(free, System.nanoTime());
    }

    /** Returns when the request of that name has been served. */
    void serve(long name) {
        long end = arrive(new SplittableRandom(name * 0x9e3779b97f4a7c15L + seed));
        for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        synchronized (this) {
            finished++;
        }
    }

    private synchronized long arrive(SplittableRandom chance) {
        long now = System.nanoTime();
        int first = 0;
        for (int i = 1; i < free.length; i++) {
            if (free[i] - free[first] < 0) {
                first = i;
            }
        }
        long start = free[first] - now > 0 ? free[first] : now;
        long work = (long) (-mean * Math.log(1 - chance.nextDouble()));
        free[first] = start + work;
        arrived++;
        worked += work;
        waited += start - now;
        return start + work;
    }

    /** What was counted so far, as JSON. */
    synchronized String json() {
        return String.format("{\"arrived\":%d,\"finished\":%d,\"worked_ns\":%d,\"waited_ns\":%d}%n",
                arrived, finished, worked, waited);
    }
}
