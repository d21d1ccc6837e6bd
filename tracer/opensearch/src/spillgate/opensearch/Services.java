package spillgate.opensearch;

import org.opensearch.common.inject.Inject;
import org.opensearch.common.lifecycle.AbstractLifecycleComponent;
import org.opensearch.tasks.TaskResourceTrackingService;
import org.opensearch.transport.TransportService;

/** Hands the node's own services over once they are there. */
public final class Services extends AbstractLifecycleComponent {
  /** Those of the node that is being made. The node makes this class itself, so it can be told by no other way. */
  static volatile Requests requests;

  private final Requests own = requests;
  private final Sampler sampler;

  @Inject
  @SuppressWarnings("this-escape")
  public Services(TransportService transport, TaskResourceTrackingService tracking) {
    own.serve(transport, tracking);
    sampler = new Sampler(own);
  }

  @Override
  protected void doStart() {
    sampler.start();
  }

  @Override
  protected void doStop() {
    own.stop();
  }

  @Override
  protected void doClose() {}
}
