package spillgate.tracer;

/**
 * One running task: a request, a transaction, a background job. Events are called by one thread at a time. Ending it is
 * closing it.
 */
public final class Task implements AutoCloseable {
    /** A task that is not traced. */
    static final Task NONE = new Task();

    // Offsets in a slot, then in a cell.
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
    private static final int GETS = 0;
    private static final int FREES = 8;
    private static final int WAITS = 16;
    private static final int WAIT_TIME = 24;
    private static final int WAITING_SINCE = 32;
    private static final int HOLD_TIME = 40;
    private static final int HELD_SINCE = 48;
    private static final int USED = 56;

    private final Tracer tracer;
    private final TaskFile file;
    private final int index;
    private final int slot;
    private final long sequence;
    private final Runnable cancel;
    private int resources; // 0 once the task is not traced any more
    private long touched;
    private boolean delivered; // guarded by this, as the end is

    private Task() {
        tracer = null;
        file = null;
        index = 0;
        slot = 0;
        sequence = 0;
        cancel = null;
    }

    Task(Tracer tracer, TaskFile file, int index, Info info) {
        this.tracer = tracer;
        this.file = file;
        this.index = index;
        this.slot = file.slot(index);
        this.cancel = info.cancel();
        this.resources = file.geometry.resources();
        clearCells();
        file.put(slot + TOUCHED, 0);
        file.put(slot + SHARED, 0);
        file.put(slot + DONE, 0);
        file.put(slot + TOTAL, 0);
        file.put(slot + STARTED, info.started() != 0 ? info.started() : file.now());
        file.put(slot + KEY, info.key());
        file.put(slot + KIND, info.kind());
        file.put(slot + FLAGS, info.flags());
        file.put(slot + THREAD, 0);
        this.sequence = (file.get(slot + SEQUENCE) + 1) | 1;
        file.put(slot + SEQUENCE, sequence);
    }

    private void clearCells() {
        long mask = file.get(slot + TOUCHED);
        for (int r = 0; r < resources; r++) {
            if ((mask >>> r & 1) != 0) {
                for (int at = GETS; at <= USED; at += 8) {
                    file.put(slot + Geometry.SLOT_HEAD + r * Geometry.CELL + at, 0);
                }
            }
        }
    }

    /** Returns whether the task has a slot. */
    public boolean traced() {
        return resources != 0;
    }

    /** Returns the offset of the task's cell, 0 if there is none. */
    private int cell(Resource resource) {
        int r = resource.number;
        if (r < 0 || r >= resources) {
            return 0;
        }
        if ((touched >>> r & 1) == 0) {
            touched |= 1L << r;
            file.put(slot + TOUCHED, touched);
        }
        return slot + Geometry.SLOT_HEAD + r * Geometry.CELL;
    }

    /** Records that the task now holds so many more units. */
    public void acquire(Resource resource, long units) {
        int c = cell(resource);
        if (c == 0) {
            return;
        }
        long used = file.get(c + USED);
        file.put(c + GETS, file.get(c + GETS) + units);
        if (used == 0) {
            file.put(c + HELD_SINCE, file.now());
        }
        file.put(c + USED, used + units);
    }

    /** Records that the task gave units back. */
    public void release(Resource resource, long units) {
        int c = cell(resource);
        if (c == 0) {
            return;
        }
        long used = file.get(c + USED);
        long left = Long.compareUnsigned(units, used) < 0 ? used - units : 0;
        if (left == 0 && used != 0) {
            long since = file.get(c + HELD_SINCE);
            file.put(c + HELD_SINCE, 0);
            file.put(c + HOLD_TIME, file.get(c + HOLD_TIME) + elapsed(since, file.now()));
        }
        file.put(c + USED, left);
        file.put(c + FREES, file.get(c + FREES) + units);
    }

    /** Records that the task waits from now on. */
    public void waitBegin(Resource resource) {
        int c = cell(resource);
        if (c != 0) {
            file.put(c + WAITING_SINCE, file.now());
        }
    }

    /** Records that the wait is over, successful or not. */
    public void waitEnd(Resource resource) {
        int c = cell(resource);
        if (c != 0 && file.get(c + WAITING_SINCE) != 0) {
            endWait(c, 1);
        }
    }

    /** Records that the task displaced units of memory, which ends a wait for it. */
    public void evicted(Resource resource, long units) {
        int c = cell(resource);
        if (c != 0) {
            endWait(c, units);
        }
    }

    private void endWait(int c, long count) {
        long since = file.get(c + WAITING_SINCE);
        if (since != 0) {
            file.put(c + WAITING_SINCE, 0);
            file.put(c + WAIT_TIME, file.get(c + WAIT_TIME) + elapsed(since, file.now()));
        }
        file.put(c + WAITS, file.get(c + WAITS) + count);
    }

    /** Records a wait that is over, in nanoseconds. */
    public void waited(Resource resource, long nanoseconds) {
        int c = cell(resource);
        if (c != 0) {
            file.put(c + WAIT_TIME, file.get(c + WAIT_TIME) + nanoseconds);
            file.put(c + WAITS, file.get(c + WAITS) + 1);
        }
    }

    /** Says whether the next hold of a lock, and the wait for it, is a reader's. */
    public void setShared(Resource resource, boolean shared) {
        if (cell(resource) == 0) {
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

    /** Runs the program's cancel, once, if the engine asked for it; a concurrent end waits. */
    synchronized void deliver() {
        if (delivered || resources == 0 || file.getAcquire(slot + CANCEL) != sequence) {
            return;
        }
        delivered = true;
        if (cancel == null) {
            return;
        }
        try {
            cancel.run();
        } catch (RuntimeException e) {
            Thread watcher = Thread.currentThread();
            watcher.getUncaughtExceptionHandler().uncaughtException(watcher, e);
        }
        file.put(slot + DELIVERED, sequence);
    }

    /** Ends the task; what it still holds is forgotten. Further calls do nothing. */
    @Override
    public void close() {
        if (resources != 0) {
            end();
        }
    }

    private synchronized void end() {
        if ((file.get(slot + FLAGS) & Info.BACKGROUND) == 0 && file.get(slot + DELIVERED) != sequence) {
            int counts = slot + Geometry.SLOT_HEAD + Geometry.CELL * resources;
            file.count(counts + 4 * Geometry.latency(elapsed(file.get(slot + STARTED), file.now())));
            file.put(slot + FINISHED, file.get(slot + FINISHED) + 1);
        }
        resources = 0;
        tracer.ended(index);
        file.put(slot + SEQUENCE, sequence + 1);
        file.put(slot, 0);
    }

    static long elapsed(long since, long now) {
        return Math.max(now - since, 0);
    }
}
