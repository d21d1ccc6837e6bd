package spillgate.tracer;

/**
 * How many of each thing a new task file has room for; an existing file keeps its own numbers.
 *
 * @param slots tasks of all processes at once, 1 to 65,536
 * @param resources resources with a name, 1 to 64
 * @param kinds kinds of tasks with a name, 0 to 4,096
 */
public record Geometry(int slots, int resources, int kinds) {
    /** 1,024 slots, 16 resources, 256 kinds: about 2 MB. */
    public static final Geometry DEFAULT = new Geometry(1024, 16, 256);

    static final int HEADER = 4096;
    static final int NAME = 128;
    static final int CELL = 64;
    static final int SLOT_HEAD = 256;
    static final int LATENCIES = 192;

    boolean valid() {
        return slots >= 1 && slots <= 65536 && resources >= 1 && resources <= 64 && kinds >= 0 && kinds <= 4096;
    }

    /** Has a bit for each resource. */
    long cellMask() {
        return -1L >>> (64 - resources);
    }

    int slotBytes() {
        return roundUp(SLOT_HEAD + CELL * resources + 4 * LATENCIES, 128);
    }

    int kindsOffset() {
        return HEADER + NAME * resources;
    }

    int slotsOffset() {
        return roundUp(kindsOffset() + NAME * kinds, 4096);
    }

    int fileBytes() {
        return slotsOffset() + slots * slotBytes();
    }

    private static int roundUp(int n, int unit) {
        return (n + unit - 1) / unit * unit;
    }

    /** The counter for a task that took so many nanoseconds. */
    static int latency(long ns) {
        long v = ns >>> 13;
        if (v < 8) {
            return (int) v;
        }
        int e = 63 - Long.numberOfLeadingZeros(v);
        return Math.min(8 * (e - 2) + (int) (v >>> (e - 3) & 7), LATENCIES - 1);
    }
}
