package spillgate.tracer;

import java.nio.ByteBuffer;
import java.util.Arrays;

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
    // Words of a cell.
    private static final int GETS = 0;
    private static final int FREES = 1;
    private static final int WAITS = 2;
    private static final int WAIT_TIME = 3;
    private static final int WAITING_SINCE = 4;
    private static final int HOLD_TIME = 5;
    private static final int HELD_SINCE = 6;
    private static final int USED = 7;
    private static final int WORDS = 8;

    private final Tracer tracer;
    private final TaskFile file;
    private final int index;
    private final int slot;
    private final long sequence;
    private final Runnable cancel;
    // What this task wrote into its cells, because a read of the file costs several times a read of an array.
    private final long[] own;
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
        own = null;
    }

    /** Begins a task in a slot that was claimed. Own is the slot's, for a word of each of its cells. */
    Task(Tracer tracer, TaskFile file, int index, Info info, long[] own) {
        this.tracer = tracer;
        this.file = file;
        this.index = index;
        this.slot = file.slot(index);
        this.cancel = info.cancel();
        this.own = own;
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
                for (int word = GETS; word <= USED; word++) {
                    file.put(slot + Geometry.SLOT_HEAD + r * Geometry.CELL + 8 * word, 0);
                }
            }
        }
    }

    /** Returns whether the task has a slot. */
    public boolean traced() {
        return resources != 0;
    }

    /** Returns where the task's cell begins in {@link #own}, -1 if there is none. */
    private int cell(Resource resource) {
        int r = resource.number;
        if (r < 0 || r >= resources) {
            return -1;
        }
        if ((touched >>> r & 1) == 0) {
            Arrays.fill(own, r * WORDS, (r + 1) * WORDS, 0);
            touched |= 1L << r;
            file.put(slot + TOUCHED, touched);
        }
        return r * WORDS;
    }

    /** Records that the task now holds so many more units. */
    public void acquire(Resource resource, long units) {
        int c = cell(resource);
        if (c < 0) {
            return;
        }
        ByteBuffer m = file.memory();
        store(m, c + GETS, own[c + GETS] + units);
        if (own[c + USED] == 0) {
            store(m, c + HELD_SINCE, TaskFile.now(m));
        }
        store(m, c + USED, own[c + USED] + units);
    }

    /** Records that the task gave units back. */
    public void release(Resource resource, long units) {
        int c = cell(resource);
        if (c < 0) {
            return;
        }
        ByteBuffer m = file.memory();
        long used = own[c + USED];
        long left = Long.compareUnsigned(units, used) < 0 ? used - units : 0;
        if (left == 0 && used != 0) {
            long since = own[c + HELD_SINCE];
            store(m, c + HELD_SINCE, 0);
            store(m, c + HOLD_TIME, own[c + HOLD_TIME] + elapsed(since, TaskFile.now(m)));
        }
        store(m, c + USED, left);
        store(m, c + FREES, own[c + FREES] + units);
    }

    /** Records that the task waits from now on. */
    public void waitBegin(Resource resource) {
        int c = cell(resource);
        if (c >= 0) {
            ByteBuffer m = file.memory();
            store(m, c + WAITING_SINCE, TaskFile.now(m));
        }
    }

    /** Records that the wait is over, successful or not. */
    public void waitEnd(Resource resource) {
        int c = cell(resource);
        if (c >= 0 && own[c + WAITING_SINCE] != 0) {
            endWait(c, 1);
        }
    }

    /** Records that the task displaced units of memory, which ends a wait for it. */
    public void evicted(Resource resource, long units) {
        int c = cell(resource);
        if (c >= 0) {
            endWait(c, units);
        }
    }

    private void endWait(int c, long count) {
        ByteBuffer m = file.memory();
        long since = own[c + WAITING_SINCE];
        if (since != 0) {
            store(m, c + WAITING_SINCE, 0);
            store(m, c + WAIT_TIME, own[c + WAIT_TIME] + elapsed(since, TaskFile.now(m)));
        }
        store(m, c + WAITS, own[c + WAITS] + count);
    }

    /** Records a wait that is over, in nanoseconds. */
    public void waited(Resource resource, long nanoseconds) {
        int c = cell(resource);
        if (c >= 0) {
            ByteBuffer m = file.memory();
            store(m, c + WAIT_TIME, own[c + WAIT_TIME] + nanoseconds);
            store(m, c + WAITS, own[c + WAITS] + 1);
        }
    }

    /** Writes a word of a cell, here and in the file. */
    private void store(ByteBuffer m, int word, long value) {
        own[word] = value;
        TaskFile.put(m, slot + Geometry.SLOT_HEAD + 8 * word, value);
    }

    /** Says whether the next hold of a lock, and the wait for it, is a reader's. */
    public void setShared(Resource resource, boolean shared) {
        if (cell(resource) < 0) {
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
