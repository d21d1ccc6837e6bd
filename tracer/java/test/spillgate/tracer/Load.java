package spillgate.tracer;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/**
 * Serves requests on every thread, and says every 20 ms how many there were, as ../../../../c/test/load.c does: Load FILE
 * THREADS STEPS prints "ready", then "NANOSECONDS REQUESTS" lines, until its parent is gone.
 */
final class Load {
    private static final LongAdder SERVED = new LongAdder();
    private static final Map<String, Long> SERVING = new ConcurrentHashMap<>();
    public static void main(String[] args) throws IOException, InterruptedException {
        Tracer tracer = Tracer.open(Path.of(args[0]));
        int steps = Integer.parseInt(args[2]);
        Resource lock = tracer.resource("lock", Resource.Kind.LOCK);
        Resource pool = tracer.resource("pool", Resource.Kind.QUEUE);
        for (int i = Integer.parseInt(args[1]); i > 0; i--) {
            Thread thread = new Thread(() -> {
                SERVING.put(number(), Thread.currentThread().getId());
                long[] memory = new long[1 << 15];
                for (long x = 1; ; ) {
                    x = serve(tracer, lock, pool, memory, x, steps);
                    SERVED.increment();
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        while (System.in.available() == 0 && ProcessHandle.current().parent().map(p -> p.pid() != 1).orElse(false)) {
            Thread.sleep(20);
            System.out.println(processorTime() + " " + SERVED.sum());
        }
    }

    /**
     * What all threads have used, in nanoseconds. The JDK knows it of its own exactly, and of the process in steps of 10 ms;
     * the kernel's account of a thread is late by a few milliseconds while that runs, so it serves for those that seldom do.
     */
    private static long processorTime() throws IOException {
        long sum = 0;
        for (long id : SERVING.values()) {
            sum += ManagementFactory.getThreadMXBean().getThreadCpuTime(id);
        }
        for (File thread : new File("/proc/self/task").listFiles()) {
            if (!SERVING.containsKey(thread.getName())) {
                String used = Files.readString(thread.toPath().resolve("schedstat"));
                sum += Long.parseLong(used, 0, used.indexOf(' '), 10);
            }
        }
        return sum;
    }

    /** Returns the kernel's number of this thread. */
    private static String number() {
        try {
            return Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static long serve(Tracer tracer, Resource lock, Resource pool, long[] memory, long before, int steps) {
        long x = before;
        try (Task request = tracer.begin(Info.REQUEST)) {
            request.acquire(pool, 1);
            for (int i = 0; i < steps; i++) {
                x = x * 6364136223846793005L + 1442695040888963407L;
                memory[(int) (x >>> 49)] += x;
            }
            for (int i = 0; i < 3; i++) {
                request.waitBegin(lock);
                request.waitEnd(lock);
                request.acquire(lock, 1);
                request.release(lock, 1);
            }
            request.release(pool, 1);
        }
        return x;
    }
}
