package spillgate.opensearch;

import java.util.concurrent.locks.LockSupport;
import spillgate.tracer.Usage;

/** A thread that records what running requests use, because they do not end often enough to be asked then. */
final class Sampler {
  // A guard looks every 100 ms at most: what it sees is a fifth of that old.
  private static final long EVERY_NS = 20_000_000;

  private final Requests requests;

  Sampler(Requests requests) {
    this.requests = requests;
  }

  void start() {
    Thread t = new Thread(this::run, "spillgate-sampler");
    t.setDaemon(true);
    t.start();
  }

  private void run() {
    long before = System.nanoTime();
    long collected = Usage.collecting();
    while (!requests.stopped) {
      LockSupport.parkNanos(EVERY_NS);
      long now = System.nanoTime();
      long collecting = Usage.collecting();
      double share = now > before ? Math.min((collecting - collected) * 1e6 / (now - before), 1) : 0;
      for (Request r : requests.all()) {
        try {
          r.sample(share);
        } catch (RuntimeException e) {
          // One request that cannot be read is no reason to lose sight of the others.
        }
      }
      before = now;
      collected = collecting;
    }
  }
}
