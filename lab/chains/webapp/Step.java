package chains;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.ThreadLocalRandom;

/**
 * One service of a chain.
 *
 * <pre>
 * GET /step/FUNCTION?size=BYTES&amp;route=PORT,PORT,…
 *       │
 *       ├─ a worker is busy with it for a while
 *       ├─ if there is a route: GET /step/FUNCTION?size=BYTES&amp;route=…  from the first port on it
 *       └─ BYTES bytes
 * GET /stats   what the workers did, as JSON
 * </pre>
 *
 * The route names ports of this machine, so that a chain of any shape needs no
 * configuration. What it calls sees the headers that an application with context
 * propagation passes on: traceparent with a new span, and PASSED as they came.
 * Configured by the system properties chains.name, .workers, .mean_ns and .seed.
 */
public final class Step extends HttpServlet {
    private static final long serialVersionUID = 1;

    private static final int MAX_SIZE = 16 << 20;
    private static final int MAX_ROUTE = 64; // characters, some ten ports
    private static final String[] PASSED = {"tracestate", "baggage", "Spillgate"};
    private static final byte[] FILL = new byte[16 << 10];

    private transient Workers workers;
    private transient HttpClient client;
    private String name;

    @Override
    public void init() {
        name = System.getProperty("chains.name", "chains");
        workers = new Workers(Math.max(Integer.getInteger("chains.workers", 1), 1),
                Long.getLong("chains.mean_ns", 10_000_000), Long.getLong("chains.seed", 1));
        client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(Duration.ofSeconds(5)).build();
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (request.getServletPath().equals("/stats")) {
            response.setContentType("application/json");
            response.getWriter().write(workers.json());
            return;
        }
        int size;
        URI next;
        try {
            size = size(request.getParameter("size"));
            next = next(request.getPathInfo(), size, request.getParameter("route"));
        } catch (IllegalArgumentException e) {
            response.sendError(HttpServletResponse.SC_BAD_REQUEST, e.getMessage());
            return;
        }
        workers.serve(name(request.getHeader("traceparent")));
        int status = next == null ? HttpServletResponse.SC_OK : call(next, request);
        response.setStatus(status);
        if (status != HttpServletResponse.SC_OK) {
            return;
        }
        response.setContentType("application/octet-stream");
        response.setContentLength(size);
        OutputStream out = response.getOutputStream();
        for (int left = size; left > 0; left -= FILL.length) {
            out.write(FILL, 0, Math.min(left, FILL.length));
        }
    }

    /** Calls the next service, reads its answer to the end and returns its status. */
    private int call(URI next, HttpServletRequest request) {
        HttpRequest.Builder b = HttpRequest.newBuilder(next).timeout(Duration.ofSeconds(60))
                .header("User-Agent", name).header("traceparent", span(request.getHeader("traceparent")));
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

    private static int size(String text) {
        int size = text == null ? 0 : Integer.parseInt(text);
        if (size < 0 || size > MAX_SIZE) {
            throw new IllegalArgumentException("size: expected 0 to " + MAX_SIZE);
        }
        return size;
    }

    /** The first call on the route, null if there is none. */
    private static URI next(String function, int size, String route) {
        if (route == null || route.isEmpty()) {
            return null;
        }
        if (function == null || !function.matches("/[a-z]{1,32}")) {
            throw new IllegalArgumentException("expected /step/FUNCTION in small letters");
        }
        if (route.length() > MAX_ROUTE || !route.matches("[0-9]+(,[0-9]+)*")) {
            throw new IllegalArgumentException("route: expected ports and commas, at most " + MAX_ROUTE + " characters");
        }
        int comma = route.indexOf(',');
        int port = Integer.parseInt(comma < 0 ? route : route.substring(0, comma));
        if (port < 1 || port > 65535) {
            throw new IllegalArgumentException("route: expected ports");
        }
        String rest = comma < 0 ? "" : route.substring(comma + 1);
        return URI.create("http://127.0.0.1:" + port + "/step" + function + "?size=" + size
                + (rest.isEmpty() ? "" : "&route=" + rest));
    }

    /** A number that all spans of a trace share; of a request without one, any. */
    private static long name(String parent) {
        return isParent(parent) ? Long.parseUnsignedLong(parent.substring(3, 19), 16) : ThreadLocalRandom.current().nextLong();
    }

    private static boolean isParent(String parent) {
        return parent != null && parent.matches("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}");
    }

    /** A traceparent of the same trace with a span of its own; of a new trace if there is none. */
    private static String span(String parent) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        String trace = isParent(parent)
                ? parent.substring(3, 35)
                : String.format("%016x%016x", random.nextLong() | 1, random.nextLong());
        return String.format("00-%s-%016x-01", trace, random.nextLong() | 1);
    }
}
