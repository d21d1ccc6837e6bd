package spillgate.tracer;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The tables of names. */
final class Names {
    private static final long READY = 1L << 63;
    static final int LONGEST = 96;
    private static final int TYPE = 8;
    private static final int HASH = 16;
    private static final int LENGTH = 24;
    private static final int TEXT = 32;

    private Names() {}

    /** Returns the number of a name in the table at offset, -1 if there is no room for it or it is no name. */
    static int intern(TaskFile f, int offset, int entries, String name, long type) {
        byte[] bytes = encode(name);
        if (bytes == null) {
            return -1;
        }
        for (int i = 0; i < entries; i++) {
            if (is(f, offset + i * Geometry.NAME, bytes, type)) {
                return i;
            }
        }
        for (int i = 0; i < entries; i++) {
            int at = offset + i * Geometry.NAME;
            if (f.get(at) == 0 && f.swap(at, 0, f.token)) {
                f.put(at + TYPE, type);
                f.put(at + HASH, Header.fingerprint(bytes));
                f.put(at + LENGTH, bytes.length);
                f.bytes(at + TEXT, Arrays.copyOf(bytes, LONGEST));
                f.put(at, READY);
                return i;
            }
        }
        return -1;
    }

    private static boolean is(TaskFile f, int at, byte[] name, long type) {
        return f.getAcquire(at) == READY && f.get(at + LENGTH) == name.length && f.get(at + TYPE) == type
            && f.get(at + HASH) == Header.fingerprint(name) && Arrays.equals(f.bytes(at + TEXT, name.length), name);
    }

    /** Returns a name in UTF-8, cut to the characters that fit; null if it is empty, or has control characters or halves of characters. */
    static byte[] encode(String name) {
        if (name.isEmpty() || name.chars().anyMatch(Character::isISOControl)) {
            return null;
        }
        try {
            ByteBuffer b = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(name));
            int end = Math.min(b.remaining(), LONGEST);
            while (end < b.remaining() && (b.get(end) & 0xc0) == 0x80) {
                end--;
            }
            return Arrays.copyOf(b.array(), end);
        } catch (CharacterCodingException e) {
            return null;
        }
    }
}
