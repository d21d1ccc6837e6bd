package spillgate.tracer;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Times one event in each mode beside half of an uncontended lock and unlock, and all 16 of a request: Bench FILE ROUNDS
 * prints "name ns" lines. It writes the words of the clock and the engine itself, as an engine does.
 */
final class Bench {
    private static final int SLICES = 100;
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static long shared;

    public static void main(String[] args) throws IOException {
        long rounds = Long.parseLong(args[1]);
        Path path = Path.of(args[0]);
        try (Tracer tracer = Tracer.open(path); RandomAccessFile raw = new RandomAccessFile(path.toFile(), "rw")) {
            var clock = raw.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, Geometry.HEADER).order(ByteOrder.LITTLE_ENDIAN);
            clock.putLong(TaskFile.ENGINE, 1); // tasks that begin move the clock for it
            Resource r = tracer.resource("bench", Resource.Kind.LOCK);
            Resource pool = tracer.resource("pool", Resource.Kind.QUEUE);
            Map<String, Double> best = new LinkedHashMap<>();
            // Passes, because what compiles late only adds, as does a busy machine: the fastest slice counts.
            for (int slice = 0; slice < SLICES; slice++) {
                String[] names = {"off", "coarse", "precise"};
                for (int mode = 0; mode < 3; mode++) {
                    clock.putLong(TaskFile.CLOCK, 1_000_000_000_000L | mode);
                    best.merge(names[mode], events(tracer, r, rounds / SLICES), Math::min);
                }
                clock.putLong(TaskFile.CLOCK, 1_000_000_000_000L | TaskFile.COARSE);
                best.merge("task", tasks(tracer, rounds / SLICES / 4), Math::min);
                best.merge("coarse-request", requests(tracer, r, pool, rounds / SLICES / 20), Math::min);
                clock.putLong(TaskFile.CLOCK, 1_000_000_000_000L | TaskFile.PRECISE);
                best.merge("precise-request", requests(tracer, r, pool, rounds / SLICES / 20), Math::min);
                best.merge("mutex", mutex(rounds / SLICES), Math::min);
            }
            best.forEach((name, ns) -> System.out.printf("%s %.2f%n", name, ns));
        }
    }

    private static double events(Tracer tracer, Resource r, long rounds) {
        try (Task task = tracer.begin(Info.REQUEST)) {
            long start = System.nanoTime();
            for (long i = 0; i < rounds; i++) {
                task.acquire(r, 1);
                task.release(r, 1);
            }
            return (double) (System.nanoTime() - start) / rounds / 2;
        }
    }

    private static double tasks(Tracer tracer, long rounds) {
        long start = System.nanoTime();
        for (long i = 0; i < rounds; i++) {
            tracer.begin(Info.REQUEST).close();
        }
        return (double) (System.nanoTime() - start) / rounds;
    }

    /** Does as a request of {@link Load} does, apart from its work. */
    private static double requests(Tracer tracer, Resource lock, Resource pool, long rounds) {
        long start = System.nanoTime();
        for (long i = 0; i < rounds; i++) {
            try (Task request = tracer.begin(Info.REQUEST)) {
                request.acquire(pool, 1);
                for (int k = 0; k < 3; k++) {
                    request.waitBegin(lock);
                    request.waitEnd(lock);
                    request.acquire(lock, 1);
                    request.release(lock, 1);
                }
                request.release(pool, 1);
            }
        }
        return (double) (System.nanoTime() - start) / rounds;
    }

    private static double mutex(long rounds) {
        long start = System.nanoTime();
        for (long i = 0; i < rounds; i++) {
            LOCK.lock();
            shared++;
            LOCK.unlock();
        }
        return (double) (System.nanoTime() - start) / rounds / 2;
    }
}
