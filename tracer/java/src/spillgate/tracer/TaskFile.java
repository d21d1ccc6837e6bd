package spillgate.tracer;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;

/** A mapped task file and its words. Offsets are in bytes. */
final class TaskFile {
    static final int CLOCK = 128;
    static final int ENGINE = 136;
    static final int CANCELS = 144;
    static final int KEEPS = 152;
    private static final int MOVES = 160;
    private static final long MOVED_AFTER_NS = 1_000_000; // how old the clock must be for a task that begins to move it
    private static final int KEPT = 512;
    private static final int KEEP = 16;
    private static final int MOST_KEPT = 64;
    private static final long LONGEST_KEEP_NS = 60_000_000_000L; // an instant further ahead is damage
    static final int UNTRACED = 256;
    static final int MODE_BITS = 3;
    static final int COARSE = 1;
    static final int PRECISE = 2;

    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    final Geometry geometry;
    final long token;
    private final FileChannel channel; // null for a file in memory
    // Private memory takes the place of a file that lost its pages.
    private ByteBuffer memory;
    // When a task began last, in the middle of what nothing else is in: each one that begins reads it. It is a hint, so
    // threads may race.
    private static final int BEGUN = 16;
    private final long[] begun = new long[2 * BEGUN + 1];

    TaskFile(Geometry geometry, long token, FileChannel channel, ByteBuffer memory) {
        this.geometry = geometry;
        this.token = token;
        this.channel = channel;
        this.memory = memory;
    }

    /** Opens the file, or creates it if there is none. */
    static TaskFile open(Path path, Geometry wish) throws IOException {
        if (!wish.valid()) {
            throw new RefusedException("geometry", wish + "; expected 1 to 65536 slots, 1 to 64 resources, 0 to 4096 kinds");
        }
        if (ByteOrder.nativeOrder() != ByteOrder.LITTLE_ENDIAN) {
            throw new IOException("this machine is big-endian; task files are little-endian");
        }
        Place place = Place.here();
        // Somebody may create or remove the file between the two steps.
        for (int tries = 0; tries < 3; tries++) {
            try {
                return openExisting(path, place);
            } catch (NoSuchFileException e) {
                create(path, wish, place);
            }
        }
        throw new IOException(path + " vanishes as soon as it is created");
    }

    private static TaskFile openExisting(Path path, Place place) throws IOException {
        Object inode = examine(path);
        FileChannel channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
        try {
            if (!examine(path).equals(inode)) {
                throw new IOException(path + " was replaced while it was opened; try again");
            }
            ByteBuffer start = ByteBuffer.allocate(Geometry.HEADER);
            while (start.hasRemaining() && channel.read(start, start.position()) >= 0) {
                // reads on
            }
            byte[] bytes = java.util.Arrays.copyOf(start.array(), start.position());
            Geometry g = Header.parse(bytes, channel.size(), place);
            ByteBuffer memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, g.fileBytes()).order(ByteOrder.LITTLE_ENDIAN);
            return new TaskFile(g, Place.token(), channel, memory);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /** Refuses what is not a file of this user alone, and returns its inode. */
    private static Object examine(Path path) throws IOException {
        var unix = Files.readAttributes(path, "unix:mode,uid,ino", LinkOption.NOFOLLOW_LINKS);
        int mode = (Integer) unix.get("mode");
        if ((mode & 0170000) != 0100000) {
            throw new RefusedException("type", "its type is " + Integer.toOctalString(mode & 0170000) + ", expected a regular file");
        }
        Object self = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        if (!unix.get("uid").equals(self)) {
            throw new RefusedException("owner", "it belongs to user " + unix.get("uid") + ", this process runs as " + self);
        }
        if ((mode & 077) != 0) {
            throw new RefusedException("mode", "its permissions are " + Integer.toOctalString(mode & 0777) + ", expected 600");
        }
        return unix.get("ino");
    }

    /** Writes a whole new file under another name and links it to path, unless somebody was faster. */
    private static void create(Path path, Geometry g, Place place) throws IOException {
        var owner = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
        Path temp = Files.createTempFile(path.toAbsolutePath().getParent(), path.getFileName() + ".", ".new", owner);
        try {
            byte[] content = new byte[g.fileBytes()];
            byte[] header = Header.encode(g, place);
            System.arraycopy(header, 0, content, 0, header.length);
            Files.write(temp, content);
            Files.createLink(path, temp);
        } catch (FileAlreadyExistsException e) {
            // the other's file is opened
        } finally {
            Files.delete(temp);
        }
    }

    /** Returns whether the file still has its size. */
    boolean whole() {
        try {
            return channel.size() == geometry.fileBytes();
        } catch (IOException e) {
            return false;
        }
    }

    /** Puts private memory, whose mode is off, in place of the file. */
    void detach() {
        memory = ByteBuffer.allocateDirect(geometry.fileBytes() + 8).alignedSlice(8).order(ByteOrder.LITTLE_ENDIAN);
    }

    void close() throws IOException {
        detach(); // a late event must not write into the file
        channel.close();
    }

    int slot(int index) {
        return geometry.slotsOffset() + index * geometry.slotBytes();
    }

    long get(int at) {
        return (long) LONG.getOpaque(memory, at);
    }

    long getAcquire(int at) {
        return (long) LONG.getAcquire(memory, at);
    }

    void put(int at, long value) {
        put(memory, at, value);
    }

    /** Does as put does, for several stores of one event. */
    static void put(ByteBuffer memory, int at, long value) {
        LONG.setRelease(memory, at, value);
    }

    /** What put writes to at present. */
    ByteBuffer memory() {
        return memory;
    }

    boolean swap(int at, long old, long value) {
        return LONG.compareAndSet(memory, at, old, value);
    }

    void add(int at, long value) {
        LONG.getAndAdd(memory, at, value);
    }

    /** Returns whether a kind is kept out at an instant. */
    boolean keptOut(long kind, long now) {
        long n = get(KEEPS);
        n = n < 0 || n > MOST_KEPT ? MOST_KEPT : n;
        for (int i = 0; i < n; i++) {
            long left = getAcquire(KEPT + KEEP * i + 8) - now; // before the kind: the engine writes it last
            if (left > 0 && left <= LONGEST_KEEP_NS && get(KEPT + KEEP * i) == kind) {
                return kind != 0;
            }
        }
        return false;
    }

    /** Adds 1 to a counter of 32 bits that this thread alone writes. */
    void count(int at) {
        INT.setRelease(memory, at, (int) INT.getOpaque(memory, at) + 1);
    }

    byte[] bytes(int at, int length) {
        byte[] b = new byte[length];
        memory.get(at, b);
        return b;
    }

    void bytes(int at, byte[] b) {
        memory.put(at, b);
    }

    /**
     * Returns the instant at which a task begins. If there is an engine, the clock is moved there, so that the engine need not
     * wake up for that.
     */
    long begins() {
        long clock = get(CLOCK);
        boolean coarse = (clock & MODE_BITS) == COARSE;
        if (coarse && get(ENGINE) == 0) {
            return clock & ~MODE_BITS;
        }
        long now = System.nanoTime();
        long[] at = begun;
        if (now - at[BEGUN] >= MOVED_AFTER_NS) {
            at[BEGUN] = now;
        }
        if (coarse && now - clock >= MOVED_AFTER_NS && swap(CLOCK, clock, now & ~MODE_BITS | COARSE)) {
            add(MOVES, 1);
        }
        return now;
    }

    /** Returns for how many nanoseconds no task of this process has begun, to a millisecond. It is known while there is an engine. */
    long begun() {
        return System.nanoTime() - begun[BEGUN];
    }

    /** The present as the mode has it. */
    long now() {
        return now(memory);
    }

    static long now(ByteBuffer memory) {
        long clock = (long) LONG.getOpaque(memory, CLOCK);
        return (clock & MODE_BITS) == PRECISE ? System.nanoTime() : clock & ~MODE_BITS;
    }
}
