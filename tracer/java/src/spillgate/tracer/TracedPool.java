package spillgate.tracer;

import java.util.concurrent.Semaphore;

/** A number of units, such as connections or workers, that tasks take and give back. */
public final class TracedPool {
    private final Semaphore units;
    private final Resource resource;

    /** Makes a pool of the given size. */
    public TracedPool(Tracer tracer, String name, int size) {
        units = new Semaphore(size, true);
        resource = tracer.resource(name, Resource.Kind.QUEUE);
    }

    /** Waits for units. Throws CancelledException, and holds nothing, if the task is cancelled meanwhile. */
    public void acquire(Task task, int count) throws InterruptedException {
        TracedLine.enter((time, unit) -> units.tryAcquire(count, time, unit), task, resource, count);
    }

    /** Gives units back. */
    public void release(Task task, int count) {
        task.release(resource, count);
        units.release(count);
    }
}
