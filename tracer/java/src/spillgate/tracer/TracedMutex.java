package spillgate.tracer;

import java.util.concurrent.locks.ReentrantLock;

/** A mutex, first come, first served, whose waits and holds are recorded and whose waiters can be cancelled. */
public final class TracedMutex {
    private final ReentrantLock lock = new ReentrantLock(true);
    private final Resource resource;

    /** Makes a mutex; mutexes of one name are one resource to the engine. */
    public TracedMutex(Tracer tracer, String name) {
        resource = tracer.resource(name, Resource.Kind.LOCK);
    }

    /** Waits for the lock. Throws CancelledException if the task is cancelled meanwhile. */
    public void lock(Task task) throws InterruptedException {
        TracedLine.enter(lock::tryLock, task, resource, 1);
    }

    /** Gives the lock back; by the thread that locked. */
    public void unlock(Task task) {
        task.release(resource, 1);
        lock.unlock();
    }
}
