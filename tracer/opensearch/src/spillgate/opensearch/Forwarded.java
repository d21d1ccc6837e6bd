package spillgate.opensearch;

import java.io.IOException;
import org.opensearch.core.common.io.stream.StreamInput;
import org.opensearch.core.transport.TransportResponse;
import org.opensearch.transport.TransportResponseHandler;

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
  public String executor() {
    return to.executor();
  }

  /** The node takes no task any more, and calls this instead of the other methods. */
  @Override
  public void handleRejection(Exception e) {
    ends();
    to.handleRejection(e);
  }
}
