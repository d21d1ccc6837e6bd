package spillgate.solr;

/** One query that runs, or waits for a slot. Fields are written by its own thread, and read by any. */
final class Query {
  /** How much of a request's parameters is shown, in characters. */
  private static final int LONGEST_TEXT = 4096;

  final long number;
  final String path;
  final String text;
  final int length;
  final String client;
  final long began = System.nanoTime();
  final Thread thread = Thread.currentThread();
  final long cpu = Usage.cpu(thread);
  final long memory = Usage.memory(thread);
  /** When it got a slot, 0 while it waits. */
  volatile long admitted;
  volatile boolean cancelled;

  Query(long number, String path, String text, String client) {
    this.number = number;
    this.path = path;
    this.text = text.substring(0, Math.min(text.length(), LONGEST_TEXT));
    this.length = text.length();
    this.client = client;
  }
}
