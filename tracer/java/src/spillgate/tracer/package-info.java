/**
 * Tells Spillgate's engine, in another process, what each task of a Java program holds and waits for, and cancels the
 * task that the engine names.
 *
 * <pre>
 *   Tracer tracer = Tracer.open(path);                       // once; Tracer.none() traces nothing
 *   TracedMutex orders = new TracedMutex(tracer, "orders");
 *
 *   try (Task task = tracer.begin(Info.of(updates).cancelling(request::abort))) {
 *       orders.lock(task);                                   // throws CancelledException
 *       try {
 *           ...
 *       } finally {
 *           orders.unlock(task);
 *       }
 *   }
 * </pre>
 *
 * <p>Invariants: a task of mode off and a tracer of nothing are valid and do nothing, so a program needs no conditions.
 * An event takes no lock and allocates nothing; mode precise reads the clock. One thread at a time uses a task. A task
 * is cancelled once at most, and not after {@link spillgate.tracer.Task#close}.
 *
 * <p>What this package does not do: it decides nothing, reads nobody's tasks and frees nothing that a cancelled task
 * holds. FORMAT.md, one directory above, describes the file. It needs Linux and Java 17 or later.
 */
package spillgate.tracer;
