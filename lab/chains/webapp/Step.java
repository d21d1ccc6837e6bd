package chains;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Reader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.concurrent.ThreadLocalRandom;

/**
 * One service of a described world.
 *
 * <pre>
 * GET /METHOD
 * Request-Number: N
 *       │
 *       ├─ a worker is busy with it for a while
 *       ├─ if the method has a next one: GET that
 *       └─ as many bytes as the method answers with
 * </pre>
 *
 * The file that the system property chains.methods names says what each method does: mean_ns,
 * next, least, most. What it calls sees the headers that an application with context
 * propagation passes on: traceparent with a new span, and PASSED as they came. Further
 * properties are chains.name, .workers and .seed.
 */
public final class Step extends HttpServlet {
    private static final long serialVersionUID = 1;

    private static final String[] PASSED = {"tracestate", "baggage", "Spillgate"};
    private static final String NUMBER = "Request-Number";
    private static final byte[] FILL = new byte[16 << 10];

    private record Method(double mean, URI next, int least, int most) {}

    private final transient Map<String, Method> methods = new HashMap<>();
    private transient Workers workers;
    private transient HttpClient client;
    private String name;

    @Override
    public void init() {
        name = System.getProperty("chains.name", "chains");
        workers = new Workers(Math.max(Integer.getInteger("chains.workers", 1), 1), Long.getLong("chains.seed", 1));
        client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(Duration.ofSeconds(5)).build();
        Properties file = new Properties();
        try (Reader in = Files.newBufferedReader(Path.of(System.getProperty("chains.methods")))) {
            file.load(in);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        for (String key : file.stringPropertyNames()) {
            if (key.endsWith(".next")) {
                String method = key.substring(0, key.length() - ".next".length());
                String next = file.getProperty(key);
                methods.put("/" + method, new Method(Double.parseDouble(file.getProperty(method + ".mean_ns")),
                        next.isEmpty() ? null : URI.create(next), Integer.parseInt(file.getProperty(method + ".least")),
                        Integer.parseInt(file.getProperty(method + ".most"))));
            }
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        Method method = methods.get(request.getRequestURI());
        if (method == null) {
            response.sendError(HttpServletResponse.SC_NOT_FOUND);
            return;
        }
        long number;
        try {
            number = Long.parseUnsignedLong(request.getHeader(NUMBER));
        } catch (NumberFormatException e) {
            response.sendError(HttpServletResponse.SC_BAD_REQUEST, NUMBER + ": expected a number");
            return;
        }
        workers.serve(number, method.mean);
        int status = method.next == null ? HttpServletResponse.SC_OK : call(method.next, number, request);
        response.setStatus(status);
        if (status != HttpServletResponse.SC_OK) {
            return;
        }
        int size = new SplittableRandom(number).nextInt(method.least, method.most + 1);
        response.setContentType("application/octet-stream");
        response.setContentLength(size);
        OutputStream out = response.getOutputStream();
        for (int left = size; left > 0; left -= FILL.length) {
            out.write(FILL, 0, Math.min(left, FILL.length));
        }
    }

    /** Calls the next service, reads its answer to the end and returns its status. */
    private int call(URI next, long number, HttpServletRequest request) {
        HttpRequest.Builder b = HttpRequest.newBuilder(next).timeout(Duration.ofSeconds(60))
                .header("User-Agent", name).header("traceparent", span(request.getHeader("traceparent")))
                .header(NUMBER, Long.toUnsignedString(new SplittableRandom(number).nextLong()));
        for (String header : PASSED) {
            for (String value : Collections.list(request.getHeaders(header))) {
                b.header(header, value);
            }
        }
        try {
            return client.send(b.build(), HttpResponse.BodyHandlers.discarding()).statusCode();
        } catch (IOException e) {
            return HttpServletResponse.SC_BAD_GATEWAY;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return HttpServletResponse.SC_SERVICE_UNAVAILABLE;
        }
    }

    /** A traceparent of the same trace with a span of its own; of a new trace if there is none. */
    private static String span(String parent) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        String trace = parent != null && parent.matches("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
                ? parent.substring(3, 35)
                : String.format("%016x%016x", random.nextLong() | 1, random.nextLong());
        return String.format("00-%s-%016x-01", trace, random.nextLong() | 1);
    }
}
