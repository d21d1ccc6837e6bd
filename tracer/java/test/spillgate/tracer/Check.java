package spillgate.tracer;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;

/** Checks the library in one process, in which it plays the engine too: Check FILE, which does not exist yet. */
final class Check {
    private final Path path;
    private final Tracer tracer;
    private final TaskFile engine; // a second mapping of the file
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private Check(Path path) throws IOException {
        this.path = path;
        tracer = Tracer.open(path, new Geometry(8, 16, 4));
        FileChannel channel = new RandomAccessFile(path.toFile(), "rw").getChannel();
        Geometry g = new Geometry(8, 16, 4);
        ByteBuffer memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, g.fileBytes()).order(ByteOrder.LITTLE_ENDIAN);
        engine = new TaskFile(g, 1, channel, memory);
    }

    public static void main(String[] args) throws Exception {
        Check c = new Check(Path.of(args[0]));
        c.refusals();
        c.untraced();
        c.mode(TaskFile.PRECISE);
        c.failures();
        c.cancels();
        c.waiters();
        c.order();
        c.cache();
        c.keptOut();
        c.consumption();
        c.locks();
        names();
        c.many();
        c.truncation();
        c.threads.shutdownNow();
    }

    private static void check(boolean so, String what) {
        if (!so) {
            throw new AssertionError("not so: " + what);
        }
    }

    private void keptOut() {
        check(!tracer.keptOut(7) && !Tracer.none().keptOut(7), "no kind is kept out by itself");
        engine.put(512, 7);
        engine.put(520, System.nanoTime() + 30_000_000_000L);
        check(!tracer.keptOut(7), "an entry that does not count keeps nothing out");
        engine.put(TaskFile.KEEPS, 1);
        check(tracer.keptOut(7) && !tracer.keptOut(8), "a kind alone is kept out");
        engine.put(520, System.nanoTime() - 1);
        check(!tracer.keptOut(7), "its time is over");
        engine.put(TaskFile.KEEPS, -1); // damage
        check(!tracer.keptOut(8) && !tracer.keptOut(0), "more entries than there are keep nothing out");
        engine.put(TaskFile.KEEPS, 0);
    }

    /** Time without a processor is lost to the processor, but for the collector's part, by each of two threads. */
    private void consumption() {
        Resource cpu = tracer.resource("cpu", Resource.Kind.SYSTEM);
        Resource heap = tracer.resource("heap", Resource.Kind.SYSTEM);
        try (Task task = tracer.begin(Info.REQUEST.withKey(99))) {
            Consumption use = new Consumption(task, cpu, heap);
            use.record(300, 4096, 1000, 2, 0.25);
            use.record(200, 4096, 0, 0, 1); // totals do not fall
            int slot = 0;
            while (engine.get(engine.slot(slot)) == 0 || engine.get(engine.slot(slot) + 24) != 99) {
                slot++;
            }
            int at = engine.slot(slot) + 256;
            check(engine.get(at + 64 * cpu.number) == 300 && engine.get(at + 64 * cpu.number + 24) == 225, "processor time is used, and (1000 - 250 - 300) / 2 lost");
            check(engine.get(at + 64 * heap.number) == 4096 && engine.get(at + 64 * heap.number + 24) == 125, "heap is used, and 250 / 2 lost");
        }
    }

    /** Waits for a monitor, and for a lock of java.util.concurrent, are seen from the second look on, with who has it; a wait for a signal is none. */
    private void locks() throws Exception {
        Object monitor = new Object();
        Object signal = new Object();
        ReentrantLock lock = new ReentrantLock();
        LockWaits waits = new LockWaits();
        check(waits.look(new long[0]).isEmpty(), "no thread waits for nothing");
        Thread signalled = new Thread(() -> {
            synchronized (signal) {
                try {
                    signal.wait();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        });
        Thread enters = new Thread(() -> {
            synchronized (monitor) {
                check(Thread.holdsLock(monitor), "it has the monitor");
            }
        });
        Thread locks = new Thread(() -> {
            lock.lock();
            lock.unlock();
        });
        long here = Thread.currentThread().getId();
        long[] all = {here, enters.getId(), locks.getId(), signalled.getId()};
        for (Thread t : List.of(signalled, enters, locks)) {
            t.setDaemon(true);
        }
        signalled.start();
        while (signalled.getState() != Thread.State.WAITING) {
            Thread.onSpinWait();
        }
        synchronized (monitor) {
            synchronized (signal) {
                lock.lock();
                enters.start();
                locks.start();
                while (enters.getState() != Thread.State.BLOCKED || locks.getState() != Thread.State.WAITING) {
                    Thread.onSpinWait();
                }
                check(waits.look(all).isEmpty(), "a wait that one look has seen does not count");
                check(waits.look(all).equals(Map.of(enters.getId(), here, locks.getId(), here)), "two wait for locks, and none of those that have them or wait for a signal");
                lock.unlock();
            }
        }
        enters.join();
        locks.join();
        signalled.interrupt();
        signalled.join();
        check(waits.look(all).isEmpty(), "threads that have ended wait for nothing");
    }

    private static void names() {
        String longest = "x".repeat(96);
        check(Tracer.fitting(longest).equals(longest), "a name that fits stays");
        String a = Tracer.fitting(longest + "a");
        check(a.length() == 96 && a.startsWith("x".repeat(79) + "#") && !a.equals(Tracer.fitting(longest + "b")), "names with one beginning stay apart");
        check(Names.encode(Tracer.fitting("ä".repeat(60))).length <= 96, "a character is not cut");
    }

    private void mode(long mode) {
        engine.put(TaskFile.CLOCK, System.nanoTime() & ~3L | mode);
    }

    /** Asks for the cancel of the task with this key, once it waits if it should. */
    private void cancel(long key, boolean waiting) {
        while (true) {
            for (int i = 0; i < 8; i++) {
                int slot = engine.slot(i);
                if (engine.get(slot) != 0 && engine.get(slot + 24) == key && (!waiting || waits(slot))) {
                    engine.put(slot + Task.REASON, 1);
                    engine.put(slot + Task.CANCEL, engine.get(slot + 8));
                    engine.add(TaskFile.CANCELS, 1);
                    return;
                }
            }
            Thread.onSpinWait();
        }
    }

    private boolean waits(int slot) {
        for (int r = 0; r < 16; r++) {
            if (engine.get(slot + 256 + 64 * r + 32) != 0) {
                return true;
            }
        }
        return false;
    }

    private void refusals() throws IOException {
        for (var bad : List.of(List.of("type", Path.of("/")), List.of("short", Files.createTempFile("tasks", "")))) {
            try {
                Tracer.open((Path) bad.get(1)).close();
                check(false, bad + " is refused");
            } catch (RefusedException e) {
                check(e.word().equals(bad.get(0)), e.getMessage() + " is a refusal " + bad.get(0));
            }
        }
    }

    private void untraced() throws Exception {
        for (Tracer t : List.of(tracer, Tracer.none())) { // the mode is off
            try (Task task = t.begin(Info.REQUEST)) {
                check(!task.traced(), "a task of mode off is not traced");
                TracedMutex mutex = new TracedMutex(t, "untraced");
                mutex.lock(task);
                mutex.unlock(task);
                task.setProgress(1, 2);
                task.setShared(t.resource("untraced", Resource.Kind.LOCK), true);
                task.checkPoint();
            }
        }
        check(tracer.kind("a\nb") == 0 && !tracer.resource("", Resource.Kind.LOCK).traced(), "a wrong name is none");
        check(!tracer.resource("\ud800", Resource.Kind.LOCK).traced(), "half a character is no name");
    }

    /** Neither a cancel nor a sample that fails keeps the next one from being done. */
    private void failures() throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> check(e instanceof LinkageError, e.toString()));
        AtomicInteger calls = new AtomicInteger();
        try (Task task = tracer.begin(Info.REQUEST.withKey(3).cancelling(() -> {
            calls.incrementAndGet();
            throw new NoSuchMethodError("of another version of the program");
        }))) {
            cancel(3, false);
            while (calls.get() == 0 && task.traced()) {
                Thread.onSpinWait();
            }
        }
        Semaphore samples = new Semaphore(0);
        Sampler sampler = new Sampler(share -> {
            samples.release();
            throw new NoSuchFieldError("of another version of the program");
        });
        check(samples.tryAcquire(3, 60, TimeUnit.SECONDS), "samples go on");
        sampler.close();
        Thread.setDefaultUncaughtExceptionHandler(null);
    }

    private void cancels() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        try (Task task = tracer.begin(Info.REQUEST.withKey(1).cancelling(calls::incrementAndGet))) {
            cancel(1, false);
            while (calls.get() == 0) {
                Thread.onSpinWait();
            }
            engine.add(TaskFile.CANCELS, 1);
            Thread.sleep(50);
            check(calls.get() == 1 && task.cancelled(), "a cancel is delivered once");
        }
        try (Task task = tracer.begin(Info.REQUEST.interrupting().withKey(2))) {
            cancel(2, false);
            Thread.sleep(60_000);
            check(false, "a cancel interrupts " + task);
        } catch (InterruptedException e) {
            // as it should
        }
    }

    /** Who waits is cancelled; what it waited for stays with its holder. */
    private void waiters() throws Exception {
        TracedMutex mutex = new TracedMutex(tracer, "mutex");
        TracedRwLock rw = new TracedRwLock(tracer, "rw");
        TracedPool pool = new TracedPool(tracer, "pool", 3);
        TracedQueue<String> queue = new TracedQueue<>(tracer, "queue", 1);
        try (Task holder = tracer.begin(Info.REQUEST)) {
            mutex.lock(holder);
            rw.writeLock(holder);
            pool.acquire(holder, 2);
            queue.put(holder, "work");
            List<Attempt> attempts = List.of(mutex::lock, rw::readLock, rw::writeLock, t -> pool.acquire(t, 2), t -> queue.put(t, "more"));
            for (Attempt attempt : attempts) {
                Future<Boolean> cancelled = threads.submit(() -> {
                    try (Task task = tracer.begin(Info.REQUEST.withKey(77))) {
                        attempt.on(task);
                        return false;
                    } catch (CancelledException e) {
                        return !Thread.currentThread().isInterrupted();
                    }
                });
                cancel(77, true);
                check(cancelled.get(), "a waiter is cancelled, and not interrupted any more");
            }
            try (Task work = queue.begin(Info.REQUEST, queue.take())) {
                check(work.traced(), "work is traced");
            }
            mutex.unlock(holder);
            rw.writeUnlock(holder);
            pool.release(holder, 2);
        }
    }

    /** Who waits keeps its place: a reader does not pass a writer that came before it, however long both wait. */
    private void order() throws Exception {
        TracedRwLock rw = new TracedRwLock(tracer, "rw");
        AtomicBoolean written = new AtomicBoolean();
        try (Task holder = tracer.begin(Info.REQUEST)) {
            rw.readLock(holder);
            Future<Boolean> writer = threads.submit(() -> {
                try (Task task = tracer.begin(Info.REQUEST.withKey(78))) {
                    rw.writeLock(task);
                    written.set(true);
                    rw.writeUnlock(task);
                    return !Thread.currentThread().isInterrupted();
                }
            });
            await(78);
            Future<Boolean> reader = threads.submit(() -> {
                try (Task task = tracer.begin(Info.REQUEST.withKey(79))) {
                    rw.readLock(task);
                    rw.readUnlock(task);
                    return written.get();
                }
            });
            await(79);
            Thread.sleep(100);
            rw.readUnlock(holder);
            check(writer.get() && reader.get(), "who came first is served first");
        }
    }

    /** Waits until the task with this key waits. */
    private void await(long key) {
        while (true) {
            for (int i = 0; i < 8; i++) {
                int slot = engine.slot(i);
                if (engine.get(slot) != 0 && engine.get(slot + 24) == key && waits(slot)) {
                    return;
                }
            }
            Thread.onSpinWait();
        }
    }

    @FunctionalInterface
    private interface Attempt {
        void on(Task task) throws InterruptedException;
    }

    private void cache() throws Exception {
        TracedCache<Integer, String> cache = new TracedCache<>(tracer, "cache", 10);
        AtomicInteger loads = new AtomicInteger();
        try (Task task = tracer.begin(Info.REQUEST.withKey(5))) {
            for (int key : new int[] {1, 2, 1, 3, 1, 2}) { // 3 displaces 2, and 2 displaces 3
                cache.get(task, key, k -> {
                    loads.incrementAndGet();
                    return new TracedCache.Loaded<>("v", 4);
                });
            }
            check(loads.get() == 4, loads + " loads");
            int r = 256 + 64 * tracer.resource("cache", Resource.Kind.MEMORY).number;
            for (int i = 0; i < 8; i++) {
                int slot = engine.slot(i);
                if (engine.get(slot + 24) == 5) {
                    check(engine.get(slot + r) == 16 && engine.get(slot + r + 16) == 8, "16 units taken, 8 displaced");
                }
            }
        }
    }

    /** Threads begin and end tasks while an engine cancels at random, until a hundred cancels were delivered. */
    private void many() throws Exception {
        AtomicInteger delivered = new AtomicInteger();
        AtomicBoolean late = new AtomicBoolean();
        TracedMutex mutex = new TracedMutex(tracer, "mutex");
        Callable<Void> work = () -> {
            while (delivered.get() < 100) {
                AtomicBoolean ended = new AtomicBoolean();
                try (Task task = tracer.begin(Info.REQUEST.cancelling(() -> {
                    delivered.incrementAndGet();
                    late.compareAndSet(false, ended.get());
                }))) {
                    mutex.lock(task);
                    Thread.yield();
                    mutex.unlock(task);
                } catch (CancelledException e) {
                    // as asked
                }
                ended.set(true);
            }
            return null;
        };
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            all.add(threads.submit(work));
        }
        for (long n = 0; delivered.get() < 100; n++) {
            int slot = engine.slot((int) (n % 8));
            engine.put(slot + Task.CANCEL, engine.get(slot + 8) | 1);
            engine.add(TaskFile.CANCELS, 1);
            mode(n % 5 == 0 ? TaskFile.PRECISE : TaskFile.COARSE);
            Thread.yield();
        }
        for (Future<Void> f : all) {
            f.get();
        }
        check(!late.get(), "no cancel comes after the end");
        for (int i = 0; i < 8; i++) {
            check(engine.get(engine.slot(i)) == 0 && engine.get(engine.slot(i) + 8) % 2 == 0, "every slot is free");
        }
    }

    private void truncation() throws Exception {
        Resource r = tracer.resource("mutex", Resource.Kind.LOCK);
        Task task = tracer.begin(Info.REQUEST);
        try (FileChannel channel = FileChannel.open(path, java.nio.file.StandardOpenOption.WRITE)) {
            channel.truncate(0);
        }
        while (!tracer.lost()) {
            Thread.sleep(1);
        }
        task.acquire(r, 1);
        task.close();
        check(!tracer.begin(Info.REQUEST).traced(), "nothing is traced into a truncated file");
        tracer.close();
    }
}
