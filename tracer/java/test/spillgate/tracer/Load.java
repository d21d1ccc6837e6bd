package spillgate.tracer;

import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.atomic.LongAdder;

/**
 * Serves requests on every thread, and says every 100 ms how many there were, as ../../../../c/test/load.c does: Load FILE
 * THREADS prints "ready", then "NANOSECONDS REQUESTS" lines, until its parent is gone.
 */
final class Load {
    private static final LongAdder SERVED = new LongAdder();
    private static final int WORK = 20_000; // some 13 µs, as in C, where each step goes through memory
    private static volatile long sink;

    public static void main(String[] args) throws IOException, InterruptedException {
        Tracer tracer = Tracer.open(Path.of(args[0]));
        Resource lock = tracer.resource("lock", Resource.Kind.LOCK);
        Resource pool = tracer.resource("pool", Resource.Kind.QUEUE);
        for (int i = Integer.parseInt(args[1]); i > 0; i--) {
            Thread thread = new Thread(() -> {
                for (; ; ) {
                    serve(tracer, lock, pool);
                    SERVED.increment();
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        while (System.in.available() == 0 && ProcessHandle.current().parent().map(p -> p.pid() != 1).orElse(false)) {
            Thread.sleep(100);
            System.out.println(System.nanoTime() + " " + SERVED.sum());
        }
    }

    private static void serve(Tracer tracer, Resource lock, Resource pool) {
        try (Task request = tracer.begin(Info.REQUEST)) {
            request.acquire(pool, 1);
            long work = sink;
            for (int i = 0; i < WORK; i++) {
                work = work * 6364136223846793005L + 1;
            }
            sink = work;
            for (int i = 0; i < 3; i++) {
                request.waitBegin(lock);
                request.waitEnd(lock);
                request.acquire(lock, 1);
                request.release(lock, 1);
            }
            request.release(pool, 1);
        }
    }
}
