package spillgate.tracer;

import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** A lock that readers share, first come, first served: a reader that comes after a writer waits behind it. */
public final class TracedRwLock {
    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock(true);
    private final Resource resource;

    /** Makes a lock; locks of one name are one resource to the engine. */
    public TracedRwLock(Tracer tracer, String name) {
        resource = tracer.resource(name, Resource.Kind.LOCK);
    }

    /** Waits for the lock, together with other readers. Throws CancelledException if the task is cancelled meanwhile. */
    public void readLock(Task task) throws InterruptedException {
        enter(lock.readLock(), task, true);
    }

    /** Gives back what readLock took. */
    public void readUnlock(Task task) {
        task.release(resource, 1);
        lock.readLock().unlock();
    }

    /** Waits for the lock, alone. Throws CancelledException if the task is cancelled meanwhile. */
    public void writeLock(Task task) throws InterruptedException {
        enter(lock.writeLock(), task, false);
    }

    /** Gives back what writeLock took. */
    public void writeUnlock(Task task) {
        task.release(resource, 1);
        lock.writeLock().unlock();
    }

    private void enter(Lock side, Task task, boolean shared) throws InterruptedException {
        task.setShared(resource, shared);
        TracedLine.enter(side::tryLock, task, resource, 1);
    }
}
