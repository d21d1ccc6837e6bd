package spillgate.tracer;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Keeps the values that were used last, up to a size, and records who fills it, who displaces what others need, and what
 * that costs them. Its methods may be called by any thread.
 */
public final class TracedCache<K, V> {
    /** A value and its units, in whatever the program counts. */
    public record Loaded<V>(V value, long units) {}

    /** Fetches what is not in the cache. */
    @FunctionalInterface
    public interface Loader<K, V, E extends Exception> {
        /** Returns the value of a key, never null. */
        Loaded<V> load(K key) throws E;
    }

    private final LinkedHashMap<K, Loaded<V>> entries = new LinkedHashMap<>(16, 0.75f, true);
    private final Resource resource;
    private final long size;
    private long used;

    /** Makes a cache for values whose units sum to size at most. */
    public TracedCache(Tracer tracer, String name, long size) {
        this.resource = tracer.resource(name, Resource.Kind.MEMORY);
        this.size = size;
    }

    /**
     * Returns the value of a key, loading it if it is not there; the time of a load counts as lost to the cache. A value
     * of more units than the cache's size is not kept. Callers that miss the same key at once each load it.
     */
    public <E extends Exception> V get(Task task, K key, Loader<K, V, E> loader) throws E {
        synchronized (this) {
            Loaded<V> found = entries.get(key);
            if (found != null) {
                return found.value();
            }
        }
        task.waitBegin(resource);
        long displaced = 0;
        long taken = 0;
        try {
            Loaded<V> loaded = loader.load(key);
            if (loaded.units() <= size) {
                displaced = keep(key, loaded);
                taken = loaded.units();
            }
            return loaded.value();
        } finally {
            task.evicted(resource, displaced);
            if (taken > 0) {
                task.acquire(resource, taken);
            }
        }
    }

    private synchronized long keep(K key, Loaded<V> loaded) {
        Loaded<V> old = entries.remove(key);
        used -= old == null ? 0 : old.units(); // somebody else loaded it meanwhile
        long displaced = 0;
        for (Iterator<Map.Entry<K, Loaded<V>>> eldest = entries.entrySet().iterator(); used + loaded.units() > size && eldest.hasNext();) {
            long units = eldest.next().getValue().units();
            eldest.remove();
            displaced += units;
            used -= units;
        }
        entries.put(key, loaded);
        used += loaded.units();
        return displaced;
    }
}
