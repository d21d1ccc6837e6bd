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
 * <p>How long a request takes follows from its number and the seed, so that the
 * same load is the same work in whatever order it comes.
 */
final class Workers {
    private final long seed;
    private final long[] free; // when each worker is, on System.nanoTime's clock

    Workers(int k, long seed) {
        this.seed = seed;
        this.free = new long[k];
        Arrays.fill(free, System.nanoTime());
    }

    /** Returns when the request of that number has been served, for mean nanoseconds on average. */
    void serve(long number, double mean) {
        long end = arrive(new SplittableRandom(number * 0x9e3779b97f4a7c15L + seed), mean);
        for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private synchronized long arrive(SplittableRandom chance, double mean) {
        long now = System.nanoTime();
        int first = 0;
        for (int i = 1; i < free.length; i++) {
            if (free[i] - free[first] < 0) {
                first = i;
            }
        }
        long start = free[first] - now > 0 ? free[first] : now;
        free[first] = start + (long) (-mean * Math.log(1 - chance.nextDouble()));
        return free[first];
    }
}
