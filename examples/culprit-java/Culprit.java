import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.Executors;
import spillgate.tracer.CancelledException;
import spillgate.tracer.Info;
import spillgate.tracer.Task;
import spillgate.tracer.TracedPool;
import spillgate.tracer.Tracer;

/**
 * A shop with a pool of four connections, of which a report takes all: one report keeps every order waiting. Spillgate's
 * engine finds it and cancels it by interrupting its thread.
 *
 * <pre>
 *   GET /order   takes one connection for a millisecond
 *   GET /report  takes all four, for minutes
 *
 *   java -cp spillgate-tracer.jar:. Culprit /dev/shm/shop
 * </pre>
 *
 * <p>What tracing takes is a Task around each request, and TracedPool for Semaphore.
 */
public final class Culprit {
    private static final int CONNECTIONS = 4;

    private final Tracer tracer;
    private final TracedPool connections;

    private Culprit(Tracer tracer) {
        this.tracer = tracer;
        this.connections = new TracedPool(tracer, "connections", CONNECTIONS);
    }

    public static void main(String[] args) throws IOException {
        Culprit shop = new Culprit(Tracer.open(Path.of(args[0])));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 128);
        shop.serve(server, "/order", shop::order);
        shop.serve(server, "/report", shop::report);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println("listening on http://127.0.0.1:" + server.getAddress().getPort());
    }

    private interface Handler {
        void handle(Task task) throws InterruptedException;
    }

    /** Makes each request of a path a task of one kind. */
    private void serve(HttpServer server, String path, Handler handler) {
        Info info = Info.of(tracer.kind("GET " + path));
        server.createContext(path, exchange -> {
            int status = 200;
            try (Task task = tracer.begin(info.interrupting())) {
                try {
                    handler.handle(task);
                } catch (InterruptedException e) {
                    task.checkPoint(); // throws if that was the cancel
                    status = 500;
                }
            } catch (CancelledException e) {
                status = 503;
                exchange.getResponseHeaders().set("Retry-After", "1");
            }
            Thread.interrupted(); // the thread serves others after this
            answer(exchange, status);
        });
    }

    private static void answer(HttpExchange exchange, int status) throws IOException {
        byte[] body = (status == 200 ? "done\n" : "not done\n").getBytes(StandardCharsets.US_ASCII);
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    /** Uses one connection. */
    private void order(Task task) throws InterruptedException {
        connections.acquire(task, 1);
        try {
            Thread.sleep(1);
        } finally {
            connections.release(task, 1);
        }
    }

    /** Uses all connections, for a long time. */
    private void report(Task task) throws InterruptedException {
        int rows = 100_000;
        connections.acquire(task, CONNECTIONS);
        try {
            for (int row = 0; row < rows; row++) {
                Thread.sleep(1);
                task.setProgress(row, rows);
            }
        } finally {
            connections.release(task, CONNECTIONS);
        }
    }
}
