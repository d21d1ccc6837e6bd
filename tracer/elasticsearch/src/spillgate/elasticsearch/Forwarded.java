package spillgate.elasticsearch;

import java.io.IOException;
import java.util.concurrent.Executor;
import org.elasticsearch.common.io.stream.StreamInput;
import org.elasticsearch.transport.TransportResponse;
import org.elasticsearch.transport.TransportResponseHandler;

/** A handler of answers that hands them on to another. */
abstract class Forwarded<T extends TransportResponse> implements TransportResponseHandler<T> {
  final TransportResponseHandler<T> to;

  Forwarded(TransportResponseHandler<T> to) {
    this.to = to;
  }

  /** Is called before any answer is handed on. */
  abstract void ends();

  @Override
  public T read(StreamInput in) throws IOException {
    return to.read(in);
  }

  @Override
  public Executor executor() {
    return to.executor();
  }
}
