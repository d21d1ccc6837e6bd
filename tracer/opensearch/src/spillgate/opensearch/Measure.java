package spillgate.opensearch;

/** What one part of a request, or the whole of it, has used since it began. */
interface Measure {
  /** Returns processor time in nanoseconds. */
  long cpu();

  /** Returns bytes taken of the heap. */
  long memory();

  /** Brings both up to date, and reports whether they may still grow. */
  boolean refresh();
}
