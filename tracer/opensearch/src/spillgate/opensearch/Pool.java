package spillgate.opensearch;

/** The thread pools that requests wait for. */
enum Pool {
  SEARCH("search threads"),
  WRITE("write threads");

  final String title;

  Pool(String title) {
    this.title = title;
  }
}
