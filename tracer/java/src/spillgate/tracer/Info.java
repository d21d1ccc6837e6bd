package spillgate.tracer;

/**
 * Describes a task that begins. Instances may be used for many tasks.
 *
 * @param key the program's own number for the task, 0 if it has none
 * @param kind what the task does, from {@link Tracer#kind}; 0 is unknown
 * @param flags {@link #BACKGROUND}, {@link #BARRED} and {@link #IDLE}, added up
 * @param started when the task came, in nanoseconds of {@link System#nanoTime}; 0 is now
 * @param cancel is run by the watching thread if the engine cancels the task; may be null. It must not block
 */
public record Info(long key, long kind, long flags, long started, Runnable cancel) {
    /** No latency objective: the task is no victim. */
    public static final long BACKGROUND = 1;
    /** The task must not be cancelled. */
    public static final long BARRED = 2;
    /** The task holds things and runs nothing. */
    public static final long IDLE = 4;
    /** A request of unknown kind. */
    public static final Info REQUEST = new Info(0, 0, 0, 0, null);

    /** Returns a request of this kind. */
    public static Info of(long kind) {
        return new Info(0, kind, 0, 0, null);
    }

    /** Returns this with another key. */
    public Info withKey(long key) {
        return new Info(key, kind, flags, started, cancel);
    }

    /** Returns this as background work. */
    public Info background() {
        return new Info(key, kind, flags | BACKGROUND, started, cancel);
    }

    /** Returns this as a task that came at this instant. */
    public Info since(long started) {
        return new Info(key, kind, flags, started, cancel);
    }

    /** Returns this with what is run if the engine cancels the task. */
    public Info cancelling(Runnable cancel) {
        return new Info(key, kind, flags, started, cancel);
    }

    /** Returns this so that a cancel interrupts the calling thread, which is the one that runs the task. */
    public Info interrupting() {
        return cancelling(Thread.currentThread()::interrupt);
    }
}
