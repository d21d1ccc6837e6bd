package spillgate.opensearch;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.transport.TransportResponse;
import org.opensearch.transport.Transport;
import org.opensearch.transport.TransportException;
import org.opensearch.transport.TransportInterceptor;
import org.opensearch.transport.TransportRequest;
import org.opensearch.transport.TransportRequestOptions;
import org.opensearch.transport.TransportResponseHandler;

/** Sees the parts of requests wait for threads: from when they are sent to when a thread of the pool has them. Writes of one document are sent in order. */
final class Parts implements TransportInterceptor {
  private final Requests requests;

  Parts(Requests requests) {
    this.requests = requests;
  }

  /** Returns the pool whose threads run an action, null for another one. */
  private static Pool pool(String action) {
    if (action.startsWith("indices:data/read/search[phase/query") || action.startsWith("indices:data/read/search[phase/fetch")) {
      return Pool.SEARCH;
    }
    return action.startsWith("indices:data/write/") && (action.endsWith("[p]") || action.endsWith("/update[s]")) ? Pool.WRITE : null;
  }

  /**
   * Reports whether the answer comes in pieces, which go past {@link Answered}. OpenSearch 3.0 does not know of such, so it is asked
   * by name.
   */
  private static boolean streams(TransportRequestOptions options) {
    return options.type().name().equals("STREAM");
  }

  @Override
  public AsyncSender interceptSender(AsyncSender sender) {
    return new AsyncSender() {
      @Override
      public <T extends TransportResponse> void sendRequest(
          Transport.Connection to, String action, TransportRequest request, TransportRequestOptions options, TransportResponseHandler<T> handler) {
        Pool pool = pool(action);
        Request r = pool == null || streams(options) || !requests.isHere(to.getNode()) ? null : requests.current();
        if (r == null) {
          sender.sendRequest(to, action, request, options, handler);
          return;
        }
        WritePart part = action.endsWith("[p]") && requests.context.getTransient(WritePart.KEY) == null ? new WritePart(r, request) : null;
        Documents.Turn turn = Documents.turn(r, request, part == null ? null : part.bulk);
        Answered<T> answered = new Answered<>(handler, r, pool, part, turn, requests.context.newRestorableContext(true));
        try (ThreadContext.StoredContext before = requests.context.newStoredContext(true)) {
          if (part != null) {
            requests.context.putTransient(WritePart.KEY, part);
          }
          if (turn == null) {
            answered.send(() -> sender.sendRequest(to, action, request, options, answered));
            return;
          }
          Supplier<ThreadContext.StoredContext> own = requests.context.newRestorableContext(true);
          requests.documents.begin(
              turn,
              () -> {
                try (ThreadContext.StoredContext other = own.get()) {
                  answered.send(() -> sender.sendRequest(to, action, request, options, answered));
                }
              });
        }
      }
    };
  }

  /** Tells a request that a part of it was answered. */
  private final class Answered<T extends TransportResponse> extends Forwarded<T> {
    private final Request request;
    private final Pool pool;
    private final WritePart part; // or null
    private final Documents.Turn turn; // or null
    private final AtomicBoolean ended = new AtomicBoolean();
    private final Supplier<ThreadContext.StoredContext> context; // of whoever sent the part, which has no part

    Answered(TransportResponseHandler<T> to, Request request, Pool pool, WritePart part, Documents.Turn turn, Supplier<ThreadContext.StoredContext> context) {
      super(to);
      this.request = request;
      this.pool = pool;
      this.part = part;
      this.turn = turn;
      this.context = context;
    }

    /** Sends the part. What waits for it would wait for ever if it could not be sent and were not answered. */
    void send(Runnable send) {
      if (turn == null || !turn.counted()) {
        request.sent(pool);
      }
      try {
        send.run();
      } catch (RuntimeException e) {
        if (ended.get()) {
          throw e; // of whoever was answered
        }
        handleException(new TransportException(e));
      } catch (Error e) {
        if (!ended.get()) {
          handleException(new TransportException(e));
        }
        throw e;
      }
    }

    @Override
    void ends() {
      if (!ended.compareAndSet(false, true)) {
        return;
      }
      if (part != null) {
        part.ends();
      }
      request.answered(pool);
      if (turn != null) {
        requests.documents.end(turn);
      }
    }

    @Override
    public void handleResponse(T response) {
      ends();
      try (ThreadContext.StoredContext before = context.get()) {
        to.handleResponse(response);
      }
    }

    @Override
    public void handleException(TransportException e) {
      ends();
      try (ThreadContext.StoredContext before = context.get()) {
        to.handleException(e);
      }
    }
  }
}
