package spillgate.tracer;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.LockSupport;

/** Writes the tasks of this process into a task file. Its methods may be called by any thread. */
public final class Tracer implements AutoCloseable {
    // FORMAT.md asks for 20 ms or less, and each look wakes a thread; seldom in mode off, and while tasks begin, which see a
    // cancel first. Where tasks begin at random and one was seen to begin within BEGUN_LATELY_NS, the next seldom takes
    // WATCH_EVERY_NS.
    private static final long WATCH_EVERY_NS = 16_000_000;
    private static final long WATCH_SELDOM_NS = 100_000_000;
    private static final long BEGUN_LATELY_NS = 4_000_000;
    private static final int HINTS = 64;
    private static final int INTS_OF_A_LINE = 32;
    private static final Tracer NONE = new Tracer(null);

    private final TaskFile file; // null: nothing is traced
    private final AtomicReferenceArray<Task> live; // by slot, a line of the cache for each
    private final Cell[][] cells; // of each slot, once it had a task
    // Where each thread found its last slot, whose lines are in its processor's cache; a line of the cache for each, and
    // threads beyond share. It is a hint: the slot is claimed by compare-and-swap.
    private final int[] hints = new int[HINTS * INTS_OF_A_LINE];
    private Thread watcher;
    private final AtomicLong noticed = new AtomicLong(); // cancels that the watcher was told of, or saw
    private volatile boolean told;
    private volatile boolean stopped;
    private volatile boolean lost;

    Tracer(TaskFile file) {
        this.file = file;
        int slots = file == null ? 0 : file.geometry.slots();
        this.live = new AtomicReferenceArray<>(slots * INTS_OF_A_LINE);
        this.cells = new Cell[slots][];
    }

    /** Returns a tracer that traces nothing, for programs that run without an engine. */
    public static Tracer none() {
        return NONE;
    }

    /** Opens the task file at path, creating it with the default geometry if there is none. */
    public static Tracer open(Path path) throws IOException {
        return open(path, Geometry.DEFAULT);
    }

    /**
     * Opens the task file at path, creating it if there is none. A file that is damaged, of another version or of another
     * user is refused with a {@link RefusedException}.
     */
    public static Tracer open(Path path, Geometry geometry) throws IOException {
        Tracer t = new Tracer(TaskFile.open(path, geometry));
        t.watcher = new Thread(t::watch, "spillgate-tracer");
        t.watcher.setDaemon(true);
        t.watcher.start();
        return t;
    }

    /** Returns the resource of this name; called once for a resource, not for each event. */
    public Resource resource(String name, Resource.Kind kind) {
        if (file == null) {
            return Resource.NONE;
        }
        return new Resource(Names.intern(file, Geometry.HEADER, file.geometry.resources(), name, kind.ordinal() + 1));
    }

    /**
     * Returns the resource of the processors, in nanoseconds. Its name says how many this program may use, so that a guard can tell what others use
     * of them.
     */
    public Resource processor() {
        return resource("processor (" + Runtime.getRuntime().availableProcessors() + ")", Resource.Kind.SYSTEM);
    }

    /** Returns the fingerprint of a kind of task and makes its name known; called once for a kind. A name with control characters is 0. */
    public long kind(String name) {
        byte[] bytes = Names.encode(name);
        if (file == null || bytes == null) {
            return 0;
        }
        Names.intern(file, file.geometry.kindsOffset(), file.geometry.kinds(), name, 0);
        return Header.fingerprint(bytes);
    }

    /** Returns whether tasks are recorded that begin now; for programs that take work to describe one. */
    public boolean recording() {
        long mode = file == null ? 0 : file.get(TaskFile.CLOCK) & TaskFile.MODE_BITS;
        return mode == TaskFile.COARSE || mode == TaskFile.PRECISE;
    }

    /**
     * Returns a name that fits: of a longer one its beginning and the hash of the whole, so that names with one beginning stay
     * apart. For names of kinds that a program makes up from requests.
     */
    public static String fitting(String name) {
        byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
        if (bytes.length <= Names.LONGEST) {
            return name;
        }
        int end = Names.LONGEST - 17; // "#" and 16 digits
        while ((bytes[end] & 0xc0) == 0x80) {
            end--;
        }
        return new String(bytes, 0, end, StandardCharsets.UTF_8) + "#" + String.format("%016x", Header.fingerprint(bytes));
    }

    /**
     * Returns whether the engine asks that no task of a kind begins at present: the program then refuses the request in its
     * own way. It costs a look at one word while no kind is kept out.
     */
    public boolean keptOut(long kind) {
        return file != null && file.get(TaskFile.KEEPS) != 0 && file.keptOut(kind, System.nanoTime());
    }

    /** Begins a task; if the mode is off or no slot is free, one whose events do nothing. */
    public Task begin(Info info) {
        if (file == null) {
            return Task.NONE;
        }
        if (!recording()) {
            return Task.NONE;
        }
        int slots = file.geometry.slots();
        int hint = (int) (Thread.currentThread().getId() % HINTS) * INTS_OF_A_LINE;
        int index = hints[hint];
        for (int i = 0; i < slots; i++, index = index + 1 < slots ? index + 1 : 0) {
            int owner = file.slot(index);
            if (file.get(owner) == 0 && file.swap(owner, 0, file.token)) {
                hints[hint] = index;
                return beginIn(index, info);
            }
        }
        file.add(TaskFile.UNTRACED, 1);
        return Task.NONE;
    }

    /** Starts a task in a slot that was claimed. */
    Task beginIn(int index, Info info) {
        Cell[] own = cells[index]; // the claim of the slot orders this after the last task's end
        if (own == null) {
            own = Cell.of(file.slot(index), file.geometry.resources());
            cells[index] = own;
        }
        Task task = new Task(this, file, index, info, own);
        live.setRelease(index * INTS_OF_A_LINE, task); // the watcher looks twice
        notice();
        return task;
    }

    /** Wakes the watcher if there are cancels that it has not seen. */
    private void notice() {
        long seen = noticed.getPlain();
        long cancels = file.get(TaskFile.CANCELS);
        if (cancels != seen && noticed.compareAndSet(seen, cancels)) {
            told = true;
            LockSupport.unpark(watcher);
        }
    }

    void ended(int index) {
        live.setRelease(index * INTS_OF_A_LINE, null);
    }

    /** Returns whether the file was truncated, after which nothing is traced any more. */
    boolean lost() {
        return lost;
    }

    // A task whose cancel comes while it begins is not in the list yet, therefore each change is looked at twice.
    private void watch() {
        boolean again = false;
        while (!stopped) {
            boolean seldom = !again && (!recording() || file.begun() < BEGUN_LATELY_NS);
            LockSupport.parkNanos(seldom ? WATCH_SELDOM_NS : WATCH_EVERY_NS);
            if (stopped) {
                return;
            }
            if (!file.whole()) {
                file.detach();
                lost = true;
                return;
            }
            boolean changed = told;
            told = false;
            long cancels = file.getAcquire(TaskFile.CANCELS);
            changed |= noticed.getAndSet(cancels) != cancels;
            if (changed || again) {
                again = changed;
                deliver();
            }
        }
    }

    private void deliver() {
        for (int i = 0; i < live.length(); i += INTS_OF_A_LINE) {
            Task task = live.get(i);
            if (task != null) {
                task.deliver();
            }
        }
    }

    /** Stops watching and lets go of the file. Tasks that still run are not traced any more. */
    @Override
    public void close() throws IOException {
        if (file == null || stopped) {
            return;
        }
        stopped = true;
        LockSupport.unpark(watcher);
        try {
            watcher.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        file.close();
    }
}
