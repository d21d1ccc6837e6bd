package spillgate.tracer;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * Acts out, reads and refuses the vectors of the task file, as ../../../../c/test/vectors.c does: play SCRIPT FILE, dump
 * FILE, judge FILE....
 */
final class Vectors {
    private static final Place PLACE = new Place(HexFormat.of().parseHex("00112233445566778899aabbccddeeff"), 4026531836L);
    private static final long TOKEN = 123456L << 22 | 4242;
    private static final List<String> MODES = List.of("off", "coarse", "precise", "off");
    private static final List<String> KINDS = List.of("lock", "memory", "queue", "system");

    private TaskFile file;
    private Tracer tracer;
    private ByteBuffer memory;
    private final Map<Long, Task> tasks = new HashMap<>();

    public static void main(String[] args) throws IOException {
        System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
        switch (args[0]) {
            case "play" -> play(Path.of(args[1]), Path.of(args[2]));
            case "dump" -> dump(Files.readAllBytes(Path.of(args[1])));
            default -> {
                for (int i = 1; i < args.length; i++) {
                    judge(Files.readAllBytes(Path.of(args[i])));
                }
            }
        }
    }

    private static void judge(byte[] content) {
        try {
            Header.parse(content, content.length, PLACE);
            System.out.println("ok");
        } catch (RefusedException e) {
            System.out.println(e.word());
        }
    }

    private void inMemory(Geometry g) {
        memory = ByteBuffer.allocateDirect(g.fileBytes() + 8).alignedSlice(8).order(ByteOrder.LITTLE_ENDIAN);
        memory.put(0, Header.encode(g, PLACE));
        file = new TaskFile(g, TOKEN, null, memory);
        tracer = new Tracer(file);
    }

    private static void play(Path script, Path out) throws IOException {
        Vectors v = new Vectors();
        int looks = 0;
        try (OutputStream to = Files.newOutputStream(out)) {
            for (String line : Files.readAllLines(script)) {
                if (line.equals("look")) {
                    looks++;
                    to.write(v.content());
                } else if (!line.isBlank() && !line.startsWith("#")) {
                    v.line(line);
                }
            }
            if (looks == 0) {
                to.write(v.content());
            }
        }
    }

    private byte[] content() {
        byte[] content = new byte[file.geometry.fileBytes()];
        memory.get(0, content);
        return content;
    }

    private void line(String line) {
        String[] fields = line.split(" ");
        long[] n = new long[5];
        for (int i = 1; i < Math.min(fields.length, 6); i++) {
            n[i - 1] = fields[i].matches("[0-9]+") ? Long.parseUnsignedLong(fields[i]) : 0;
        }
        switch (fields[0]) {
            case "create" -> inMemory(new Geometry((int) n[0], (int) n[1], (int) n[2]));
            case "clock" -> file.put(TaskFile.CLOCK, n[0] | MODES.indexOf(fields[2]));
            case "resource" -> tracer.resource(line.split(" ", 3)[2], Resource.Kind.values()[KINDS.indexOf(fields[1])]);
            case "kind" -> tracer.kind(line.split(" ", 2)[1]);
            case "keep" -> {
                file.put(512 + 16 * (int) n[0], Header.fingerprint(Names.encode(line.split(" ", 4)[3])));
                file.put(520 + 16 * (int) n[0], n[1]);
            }
            case "keeps" -> file.put(TaskFile.KEEPS, n[0]);
            case "untraced" -> file.add(TaskFile.UNTRACED, 1);
            case "begin" -> begin(n, line.split(" ", 6)[5]);
            default -> event(fields[0], tasks.get(n[0]), new Resource((int) n[1]), n);
        }
    }

    private void begin(long[] n, String kind) {
        file.put(file.slot((int) n[0]), TOKEN);
        long fingerprint = kind.equals("-") ? 0 : Header.fingerprint(Names.encode(kind));
        tasks.put(n[0], tracer.beginIn((int) n[0], new Info(n[1], fingerprint, n[2], n[3], null)));
    }

    private void event(String verb, Task task, Resource r, long[] n) {
        switch (verb) {
            case "acquire" -> task.acquire(r, n[2]);
            case "release" -> task.release(r, n[2]);
            case "wait" -> task.waitBegin(r);
            case "waitend" -> task.waitEnd(r);
            case "evicted" -> task.evicted(r, n[2]);
            case "waited" -> task.waited(r, n[2]);
            case "shared" -> task.setShared(r, n[2] == 1);
            case "progress" -> task.setProgress(n[1], n[2]);
            case "flags" -> task.setFlags(n[1]);
            case "delivered" -> task.cancelled();
            case "end" -> task.close();
            case "cancel" -> {
                int slot = file.slot((int) n[0]);
                file.put(slot + Task.REASON, n[1]);
                file.put(slot + Task.CANCEL, file.get(slot + 8));
                file.add(TaskFile.CANCELS, 1);
            }
            default -> throw new IllegalArgumentException(verb);
        }
    }

    private static void dump(byte[] content) throws IOException {
        Geometry g = Header.parse(content, content.length, PLACE);
        ByteBuffer b = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
        System.out.printf("slots %d resources %d kinds %d bytes %d%n", g.slots(), g.resources(), g.kinds(), g.fileBytes());
        long clock = b.getLong(128);
        System.out.printf("mode %s clock %d engine %d cancels %d untraced %d%n", MODES.get((int) (clock & 3)), clock & ~3L, b.getLong(136),
            b.getLong(144), b.getLong(256));
        TaskFile f = new TaskFile(g, TOKEN, null, b);
        for (int i = 0; i < g.resources() + g.kinds(); i++) {
            int at = Geometry.HEADER + i * Geometry.NAME;
            String name = new String(content, at + 32, (int) b.getLong(at + 24), StandardCharsets.UTF_8);
            if (b.getLong(at) == 0) {
                continue;
            } else if (i < g.resources()) {
                System.out.printf("resource %d type %d %s%n", i, b.getLong(at + 8), name);
            } else {
                System.out.printf("kind %d %016x %s%n", i - g.resources(), b.getLong(at + 16), name);
                if (f.keptOut(b.getLong(at + 16), clock & ~3L)) {
                    System.out.printf("kind %d is kept out%n", i - g.resources());
                }
            }
        }
        for (int i = 0; i < g.slots(); i++) {
            dumpSlot(b, g, i);
        }
    }

    private static void dumpSlot(ByteBuffer b, Geometry g, int i) {
        int at = g.slotsOffset() + i * g.slotBytes();
        if (b.getLong(at + 8) == 0) {
            return;
        }
        String[] names = {"owner", "sequence", "started", "key", "kind", "flags", "done", "total", "", "", "finished", "delivered"};
        StringBuilder line = new StringBuilder("slot " + i);
        for (int k = 0; k < names.length; k++) {
            long v = b.getLong(at + 8 * k);
            if (!names[k].isEmpty()) {
                line.append(' ').append(names[k]).append(' ').append(names[k].equals("kind") ? "%016x".formatted(v) : Long.toUnsignedString(v));
            }
        }
        System.out.println(line.append(" cancel ").append(b.getLong(at + 128)).append(" reason ").append(b.getLong(at + 136)));
        String[] words = {"gets", "frees", "waits", "wait time", "waiting since", "hold time", "held since", "used"};
        for (int r = 0; r < g.resources(); r++) {
            if ((b.getLong(at + 72) >>> r & 1) == 1) {
                StringBuilder cell = new StringBuilder("cell " + r);
                for (int k = 0; k < words.length; k++) {
                    cell.append(' ').append(words[k]).append(' ').append(Long.toUnsignedString(b.getLong(at + 256 + 64 * r + 8 * k)));
                }
                System.out.println(cell.append(" shared ").append(b.getLong(at + 96) >>> r & 1));
            }
        }
        for (int k = 0; k < Geometry.LATENCIES; k++) {
            int count = b.getInt(at + 256 + 64 * g.resources() + 4 * k);
            if (count != 0) {
                System.out.printf("latency %d %d%n", k, count);
            }
        }
    }
}
