package spillgate.opensearch;

import spillgate.tracer.Usage;

/** What a thread has used since this was made, for parts of requests that the node does not measure itself. */
final class ThreadUse implements Measure {
  final Thread thread;
  private final long cpu;
  private final long memory;

  ThreadUse(Thread thread) {
    this.thread = thread;
    cpu = Usage.cpu(thread);
    memory = Usage.memory(thread);
  }

  @Override
  public long cpu() {
    return Math.max(Usage.cpu(thread) - cpu, 0);
  }

  @Override
  public long memory() {
    return Math.max(Usage.memory(thread) - memory, 0);
  }

  /** It is the thread's until it has run the part. */
  @Override
  public boolean refresh() {
    return true;
  }
}
