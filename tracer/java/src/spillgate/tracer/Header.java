package spillgate.tracer;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** The part of a file's header that never changes. */
final class Header {
    private static final byte[] MAGIC = {'s', 'g', 't', 'a', 's', 'k', 's', '\n'};
    private static final int VERSION = 1;
    private static final int FIXED = 128;
    private static final int CHECK = 120;

    private Header() {}

    static byte[] encode(Geometry g, Place place) {
        ByteBuffer b = ByteBuffer.allocate(FIXED).order(ByteOrder.LITTLE_ENDIAN);
        b.put(MAGIC).putInt(VERSION).putInt(Geometry.HEADER);
        b.putInt(g.slots()).putInt(g.resources()).putInt(g.kinds()).putInt(g.slotBytes());
        b.putLong(g.slotsOffset()).putLong(g.fileBytes()).put(place.boot()).putLong(place.pidNamespace());
        b.putLong(CHECK, fingerprint(Arrays.copyOf(b.array(), CHECK)));
        return b.array();
    }

    /** Validates the start of a file of the given size. */
    static Geometry parse(byte[] start, long size, Place place) throws RefusedException {
        if (start.length < Geometry.HEADER || size < Geometry.HEADER) {
            throw new RefusedException("short", Math.min(start.length, size) + " bytes; a header has " + Geometry.HEADER);
        }
        ByteBuffer b = ByteBuffer.wrap(start).order(ByteOrder.LITTLE_ENDIAN);
        if (!Arrays.equals(start, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
            throw new RefusedException("magic", "it does not begin as a task file does");
        }
        if (b.getInt(8) != VERSION) {
            throw new RefusedException("version", "version " + Integer.toUnsignedString(b.getInt(8)) + "; this program reads version " + VERSION
                + "; use tracer and engine of one release");
        }
        if (b.getLong(CHECK) != fingerprint(Arrays.copyOf(start, CHECK))) {
            throw new RefusedException("check", "its check does not fit its header; the file is damaged, remove it");
        }
        Geometry g = geometry(b);
        if (size != g.fileBytes()) {
            throw new RefusedException("size", size + " bytes; its header says " + g.fileBytes());
        }
        if (!Arrays.equals(start, 48, 64, place.boot(), 0, 16)) {
            throw new RefusedException("boot", "written before the last boot; remove it, and keep task files where a boot empties the directory");
        }
        if (b.getLong(64) != place.pidNamespace()) {
            throw new RefusedException("namespace", "made in another pid namespace; run tracer and engine in one");
        }
        return g;
    }

    private static Geometry geometry(ByteBuffer b) throws RefusedException {
        Geometry g = new Geometry(b.getInt(16), b.getInt(20), b.getInt(24));
        if (!g.valid()) {
            throw new RefusedException("geometry", g + "; expected 1 to 65536 slots, 1 to 64 resources, 0 to 4096 kinds");
        }
        if (b.getInt(12) != Geometry.HEADER || b.getInt(28) != g.slotBytes() || b.getLong(32) != g.slotsOffset() || b.getLong(40) != g.fileBytes()) {
            throw new RefusedException("geometry", "its sizes and offsets do not follow from " + g);
        }
        return g;
    }

    /** The FNV-1a hash, 64 bits. */
    static long fingerprint(byte[] bytes) {
        long h = 0xcbf29ce484222325L;
        for (byte b : bytes) {
            h = (h ^ (b & 0xff)) * 0x100000001b3L;
        }
        return h;
    }
}
