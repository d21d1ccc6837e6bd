package spillgate.tracer;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * One running task: a request, a transaction, a background job. Events are called by one thread at a time. Ending it is
 * closing it.
 */
public final class Task implements AutoCloseable {
    /** A task that is not traced. */
    static final Task NONE = new Task();

    // Offsets in a slot.
    private static final int SEQUENCE = 8;
    private static final int STARTED = 16;
    private static final int KEY = 24;
    private static final int KIND = 32;
    private static final int FLAGS = 40;
    private static final int DONE = 48;
    private static final int TOTAL = 56;
    private static final int THREAD = 64;
    private static final int TOUCHED = 72;
    private static final int FINISHED = 80;
    private static final int DELIVERED = 88;
    private static final int SHARED = 96;
    static final int CANCEL = 128;
    static final int REASON = 136;

    private static final int RUNNING = 0;
    private static final int ENDED = 1;
    private static final int DELIVERED_ONCE = 2;
    private static final VarHandle PHASE;

    static {
        try {
            PHASE = MethodHandles.lookup().findVarHandle(Task.class, "phase", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Tracer tracer;
    private final TaskFile file;
    private final int index;
    private final int slot;
    private final long sequence;
    private final Runnable cancel;
    private final Cell[] cells;
    private int resources; // 0 once the task is not traced any more
    private long touched;
    private Thread sleeper; // whom a cancel wakes
    private boolean woken;
    // RUNNING until the task ends or its cancel is called, whichever comes first.
    @SuppressWarnings("unused")
    private volatile int phase;

    private Task() {
        tracer = null;
        file = null;
        index = 0;
        slot = 0;
        sequence = 0;
        cancel = null;
        cells = null;
    }

    /** Begins a task in a slot that was claimed, and that has the cells. */
    Task(Tracer tracer, TaskFile file, int index, Info info, Cell[] cells) {
        this.tracer = tracer;
        this.file = file;
        this.index = index;
        this.slot = file.slot(index);
        this.cancel = info.cancel();
        this.cells = cells;
        this.resources = file.geometry.resources();
        clearCells();
        file.put(slot + TOUCHED, 0);
        file.put(slot + SHARED, 0);
        file.put(slot + DONE, 0);
        file.put(slot + TOTAL, 0);
        long now = file.begins();
        file.put(slot + STARTED, info.started() != 0 ? info.started() : now);
        file.put(slot + KEY, info.key());
        file.put(slot + KIND, info.kind());
        file.put(slot + FLAGS, info.flags());
        file.put(slot + THREAD, 0);
        this.sequence = (file.get(slot + SEQUENCE) + 1) | 1;
        file.put(slot + SEQUENCE, sequence);
    }

    private void clearCells() {
        for (long mask = file.get(slot + TOUCHED) & file.geometry.cellMask(); mask != 0; mask &= mask - 1) {
            cells[Long.numberOfTrailingZeros(mask)].clear(file.memory());
        }
    }

    /** Returns whether the task has a slot. */
    public boolean traced() {
        return resources != 0;
    }

    /** Returns the task's cell of a resource, null if there is none. */
    private Cell cell(Resource resource) {
        int r = resource.number;
        if (r < 0 || r >= resources) {
            return null;
        }
        Cell cell = cells[r];
        if ((touched >>> r & 1) == 0) {
            cell.forget();
            touched |= 1L << r;
            file.put(slot + TOUCHED, touched);
        }
        return cell;
    }

    /** Records that the task now holds so many more units. */
    public void acquire(Resource resource, long units) {
        Cell c = cell(resource);
        if (c != null) {
            c.acquire(file.memory(), units);
        }
    }

    /** Records that the task gave units back. */
    public void release(Resource resource, long units) {
        Cell c = cell(resource);
        if (c != null) {
            c.release(file.memory(), units);
        }
    }

    /** Records that the task waits from now on. */
    public void waitBegin(Resource resource) {
        Cell c = cell(resource);
        if (c != null) {
            c.waitBegin(file.memory());
        }
    }

    /** Records that the wait is over, successful or not. */
    public void waitEnd(Resource resource) {
        Cell c = cell(resource);
        if (c != null) {
            c.waitEnd(file.memory());
        }
    }

    /** Records that the task displaced units of memory, which ends a wait for it. */
    public void evicted(Resource resource, long units) {
        Cell c = cell(resource);
        if (c != null) {
            c.endWait(file.memory(), units);
        }
    }

    /** Records a wait that is over, in nanoseconds. */
    public void waited(Resource resource, long nanoseconds) {
        Cell c = cell(resource);
        if (c != null) {
            c.waited(file.memory(), nanoseconds);
        }
    }

    /** Says whether the next hold of a lock, and the wait for it, is a reader's. */
    public void setShared(Resource resource, boolean shared) {
        if (cell(resource) == null) {
            return;
        }
        long old = file.get(slot + SHARED);
        long bit = 1L << resource.number;
        long mask = shared ? old | bit : old & ~bit;
        if (mask != old) {
            file.put(slot + SHARED, mask);
        }
    }

    /** Records progress: so much of the total is done. Total 0 is unknown. */
    public void setProgress(long done, long total) {
        if (resources != 0) {
            file.put(slot + TOTAL, total);
            file.put(slot + DONE, done);
        }
    }

    /** Replaces the flags of {@link Info}. */
    public void setFlags(long flags) {
        if (resources != 0) {
            file.put(slot + FLAGS, flags);
        }
    }

    /** Returns whether the engine wants the task cancelled; for check points. The task then counts as cancelled. */
    public boolean cancelled() {
        if (resources == 0 || file.getAcquire(slot + CANCEL) != sequence) {
            return false;
        }
        file.put(slot + DELIVERED, sequence);
        return true;
    }

    /** Throws a {@link CancelledException} if the engine wants the task cancelled. */
    public void checkPoint() {
        if (cancelled()) {
            throw new CancelledException(Reason.of(file.get(slot + REASON)));
        }
    }

    /** The calling thread waits for something until {@link #wakes}; a cancel that comes meanwhile interrupts it. */
    void sleeps() {
        if (resources != 0) {
            sleeper(Thread.currentThread());
        }
    }

    /** The wait is over, and so is an interruption that was for it alone. */
    void wakes() {
        if (resources != 0 && sleeper(null)) {
            Thread.interrupted();
        }
    }

    private synchronized boolean sleeper(Thread thread) {
        boolean was = woken;
        sleeper = thread;
        woken = false;
        return was;
    }

    /** Runs the program's cancel, once, if the engine asked for it, and wakes the thread that waits; a concurrent end waits. */
    synchronized void deliver() {
        if (file.getAcquire(slot + CANCEL) != sequence || !PHASE.compareAndSet(this, RUNNING, DELIVERED_ONCE)) {
            return;
        }
        if (cancel != null) {
            try {
                cancel.run();
            } catch (Throwable e) { // of the program, whose other tasks must be cancelled all the same
                Thread watcher = Thread.currentThread();
                watcher.getUncaughtExceptionHandler().uncaughtException(watcher, e);
            }
            file.put(slot + DELIVERED, sequence);
        }
        if (sleeper != null && !sleeper.isInterrupted()) { // else the program's cancel has woken it, for what it does next as well
            woken = true;
            sleeper.interrupt();
        }
    }

    /** Ends the task; what it still holds is forgotten. Further calls do nothing. */
    @Override
    public void close() {
        if (resources != 0) {
            end();
        }
    }

    private void end() {
        if (!PHASE.compareAndSet(this, RUNNING, ENDED)) {
            synchronized (this) { // until its cancel has returned
                phase = ENDED;
            }
        }
        if ((file.get(slot + FLAGS) & Info.BACKGROUND) == 0 && file.get(slot + DELIVERED) != sequence) {
            int counts = slot + Geometry.SLOT_HEAD + Geometry.CELL * resources;
            file.count(counts + 4 * Geometry.latency(Cell.elapsed(file.get(slot + STARTED), file.now())));
            file.put(slot + FINISHED, file.get(slot + FINISHED) + 1);
        }
        resources = 0;
        tracer.ended(index);
        file.put(slot + SEQUENCE, sequence + 1);
        file.put(slot, 0);
    }
}
