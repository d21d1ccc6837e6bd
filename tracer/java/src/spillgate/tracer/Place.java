package spillgate.tracer;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;

/** Where instants and process ids of a file mean something. */
record Place(byte[] boot, long pidNamespace) {

    static Place here() throws IOException {
        String id = read("/proc/sys/kernel/random/boot_id").strip().replace("-", "");
        String link = Files.readSymbolicLink(Path.of("/proc/self/ns/pid")).toString();
        try {
            return new Place(HexFormat.of().parseHex(id), Long.parseLong(link.substring("pid:[".length(), link.length() - 1)));
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            throw new IOException("the boot id is \"" + id + "\", expected a UUID; the pid namespace \"" + link + "\", expected pid:[number]", e);
        }
    }

    /** Returns the token of this process: its start time and its id. */
    static long token() throws IOException {
        String stat = read("/proc/self/stat");
        // The command's name may hold spaces and parentheses: fields count from the last one.
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return Long.parseLong(fields[22 - 3]) << 22 | ProcessHandle.current().pid();
    }

    private static String read(String path) throws IOException {
        return new String(Files.readAllBytes(Path.of(path)), StandardCharsets.US_ASCII);
    }
}
