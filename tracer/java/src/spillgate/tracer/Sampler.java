package spillgate.tracer;

import java.util.concurrent.locks.LockSupport;
import java.util.function.DoubleConsumer;

/** A thread that has a program record what its running tasks use, because they do not end often enough to be asked then. */
public final class Sampler implements AutoCloseable {
    // A guard looks every 100 ms at most: what it sees is a fifth of that old.
    private static final long EVERY_NS = 20_000_000;

    private final DoubleConsumer each;
    private volatile boolean stopped;

    /**
     * Begins, with a thread of its own.
     *
     * @param each is called 50 times a second with the share of the time since the last call for which a collector stopped all,
     *     0 to 1. What it throws goes to the thread's handler of uncaught exceptions, and it is called again
     */
    public Sampler(DoubleConsumer each) {
        this.each = each;
        Thread t = new Thread(this::run, "spillgate-sampler");
        t.setDaemon(true);
        t.start();
    }

    private void run() {
        long before = System.nanoTime();
        long collected = Usage.collecting();
        while (!stopped) {
            LockSupport.parkNanos(EVERY_NS);
            long now = System.nanoTime();
            long collecting = Usage.collecting();
            try {
                each.accept(now > before ? Math.min((collecting - collected) * 1e6 / (now - before), 1) : 0);
            } catch (Throwable e) {
                Thread sampler = Thread.currentThread();
                sampler.getUncaughtExceptionHandler().uncaughtException(sampler, e);
            }
            before = now;
            collected = collecting;
        }
    }

    /** Ends it, within the time between two calls. */
    @Override
    public void close() {
        stopped = true;
    }
}
