package spillgate.tracer;

import java.nio.ByteBuffer;

/**
 * One task at one resource: its words in the file, and a copy of what the task wrote there, because a read of the file costs
 * several times a read of a field. One thread at a time uses it, that of the task which has the slot. Each event takes the
 * file's memory as it is at present.
 */
final class Cell {
    private static final int GETS = 0;
    private static final int FREES = 8;
    private static final int WAITS = 16;
    private static final int WAIT_TIME = 24;
    private static final int WAITING_SINCE = 32;
    private static final int HOLD_TIME = 40;
    private static final int HELD_SINCE = 48;
    private static final int USED = 56;

    private final int at; // in the file
    private long gets;
    private long frees;
    private long waits;
    private long waitTime;
    private long waitingSince;
    private long holdTime;
    private long heldSince;
    private long used;

    private Cell(int at) {
        this.at = at;
    }

    /** Returns the cells of the slot at the given offset. */
    static Cell[] of(int slot, int resources) {
        Cell[] cells = new Cell[resources];
        for (int r = 0; r < resources; r++) {
            cells[r] = new Cell(slot + Geometry.SLOT_HEAD + Geometry.CELL * r);
        }
        return cells;
    }

    /** Begins anew, in the copy alone. */
    void forget() {
        gets = 0;
        frees = 0;
        waits = 0;
        waitTime = 0;
        waitingSince = 0;
        holdTime = 0;
        heldSince = 0;
        used = 0;
    }

    /** Writes zeros over what an earlier task left in the file. */
    void clear(ByteBuffer m) {
        for (int word = GETS; word <= USED; word += Long.BYTES) {
            TaskFile.put(m, at + word, 0);
        }
    }

    void acquire(ByteBuffer m, long units) {
        gets += units;
        TaskFile.put(m, at + GETS, gets);
        if (used == 0) {
            heldSince = TaskFile.now(m);
            TaskFile.put(m, at + HELD_SINCE, heldSince);
        }
        used += units;
        TaskFile.put(m, at + USED, used);
    }

    void release(ByteBuffer m, long units) {
        long left = Long.compareUnsigned(units, used) < 0 ? used - units : 0;
        if (left == 0 && used != 0) {
            long held = elapsed(heldSince, TaskFile.now(m));
            heldSince = 0;
            TaskFile.put(m, at + HELD_SINCE, 0);
            if (held > 0) { // a store of what is there already would say nothing
                holdTime += held;
                TaskFile.put(m, at + HOLD_TIME, holdTime);
            }
        }
        used = left;
        TaskFile.put(m, at + USED, used);
        frees += units;
        TaskFile.put(m, at + FREES, frees);
    }

    void waitBegin(ByteBuffer m) {
        waitingSince = TaskFile.now(m);
        TaskFile.put(m, at + WAITING_SINCE, waitingSince);
    }

    void waitEnd(ByteBuffer m) {
        if (waitingSince != 0) {
            endWait(m, 1);
        }
    }

    /** Ends a wait, if one had begun, and counts so much. */
    void endWait(ByteBuffer m, long count) {
        if (waitingSince != 0) {
            long waited = elapsed(waitingSince, TaskFile.now(m));
            waitingSince = 0;
            TaskFile.put(m, at + WAITING_SINCE, 0);
            if (waited > 0) {
                waitTime += waited;
                TaskFile.put(m, at + WAIT_TIME, waitTime);
            }
        }
        waits += count;
        TaskFile.put(m, at + WAITS, waits);
    }

    void waited(ByteBuffer m, long nanoseconds) {
        waitTime += nanoseconds;
        TaskFile.put(m, at + WAIT_TIME, waitTime);
        waits++;
        TaskFile.put(m, at + WAITS, waits);
    }

    static long elapsed(long since, long now) {
        return Math.max(now - since, 0);
    }
}
