package spillgate.opensearch;

import org.opensearch.common.inject.Inject;
import org.opensearch.common.lifecycle.AbstractLifecycleComponent;
import org.opensearch.tasks.TaskResourceTrackingService;
import org.opensearch.transport.TransportService;
import spillgate.tracer.Sampler;

/** Hands the node's own services over once they are there. */
public final class Services extends AbstractLifecycleComponent {
  /** Those of the node that is being made. The node makes this class itself, so it can be told by no other way. */
  static volatile Requests requests;

  private final Requests own = requests;
  private volatile Sampler sampler;

  @Inject
  public Services(TransportService transport, TaskResourceTrackingService tracking) {
    own.serve(transport, tracking);
  }

  @Override
  protected void doStart() {
    sampler = new Sampler(own::sample);
  }

  @Override
  protected void doStop() {
    sampler.close();
  }

  @Override
  protected void doClose() {}
}
