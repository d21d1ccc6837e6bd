package spillgate.tracer;

import java.util.concurrent.ArrayBlockingQueue;

/** A bounded queue between threads that accept work and workers that do it. */
public final class TracedQueue<T> {
    /** What was put, and when, in nanoseconds of System.nanoTime. */
    public record Item<T>(T value, long came) {}

    private final ArrayBlockingQueue<Item<T>> items;
    private final Tracer tracer;
    private final Resource resource;

    /** Makes a queue of the given size. */
    public TracedQueue(Tracer tracer, String name, int size) {
        this.tracer = tracer;
        items = new ArrayBlockingQueue<>(size, true);
        resource = tracer.resource(name, Resource.Kind.QUEUE);
    }

    /** Waits for room; throws CancelledException if the task is cancelled meanwhile. */
    public void put(Task task, T value) throws InterruptedException {
        Item<T> item = new Item<>(value, System.nanoTime());
        TracedLine.await((time, unit) -> items.offer(item, time, unit), task, resource);
    }

    /** Puts a value if there is room at once, and returns whether there was. */
    public boolean offer(T value) {
        return items.offer(new Item<>(value, System.nanoTime()));
    }

    /** Waits for an item. */
    public Item<T> take() throws InterruptedException {
        return items.take();
    }

    /**
     * Begins the task that does an item: it came when the item did, waited for the queue since, and holds one of the
     * workers until it is closed.
     */
    public Task begin(Info info, Item<T> item) {
        Task task = tracer.begin(info.since(item.came()));
        task.waited(resource, Cell.elapsed(item.came(), System.nanoTime()));
        task.acquire(resource, 1);
        return task;
    }
}
