package spillgate.opensearch;

import org.opensearch.core.index.shard.ShardId;
import org.opensearch.index.engine.Engine;
import org.opensearch.index.shard.IndexingOperationListener;

/** Sees threads for writes execute the operations of requests. */
final class WriteOperations implements IndexingOperationListener {
  private final Requests requests;

  WriteOperations(Requests requests) {
    this.requests = requests;
  }

  private void operates() {
    WritePart part = requests.context.getTransient(WritePart.KEY);
    if (part != null) {
      part.operates();
    }
  }

  @Override
  public Engine.Index preIndex(ShardId shard, Engine.Index operation) {
    operates();
    return operation;
  }

  @Override
  public Engine.Delete preDelete(ShardId shard, Engine.Delete operation) {
    operates();
    return operation;
  }
}
