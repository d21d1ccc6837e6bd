package spillgate.opensearch;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.function.ToLongBiFunction;
import org.opensearch.common.cache.CacheType;
import org.opensearch.common.cache.ICache;
import org.opensearch.common.cache.ICacheKey;
import org.opensearch.common.cache.LoadAwareCacheLoader;
import org.opensearch.common.cache.RemovalListener;
import org.opensearch.common.cache.RemovalNotification;
import org.opensearch.common.cache.RemovalReason;
import org.opensearch.common.cache.settings.CacheSettings;
import org.opensearch.common.cache.stats.ImmutableCacheStatsHolder;
import org.opensearch.common.cache.store.OpenSearchOnHeapCache.OpenSearchOnHeapCacheFactory;
import org.opensearch.common.cache.store.config.CacheConfig;
import org.opensearch.indices.IndicesRequestCache;

/**
 * The node's cache of answers, with a count of who fills it, who displaces what others have put there, and who computes again what was
 * displaced. What is kept, and for how long, is decided by the node's own cache, to which this one hands everything on.
 *
 * <p>An answer that is computed for the first time is not lost to anybody. Time is lost to the cache only by those who compute an answer
 * that it had to give up.
 */
final class AnswerCache<K, V> implements ICache<K, V> {
  /** The name of this cache, and the setting that says which cache a node has. */
  static final String NAME = "spillgate";

  static final String SETTING = CacheSettings.getConcreteStoreNameSettingForCacheType(CacheType.INDICES_REQUEST_CACHE).getKey();

  private final Requests requests;
  private final Displaced displaced = new Displaced();
  private final ToLongBiFunction<ICacheKey<K>, V> weigher;
  private final ICache<K, V> to;

  /** What the calling thread has displaced since it began to compute; it removes what has no room any more. */
  private final ThreadLocal<long[]> mine = new ThreadLocal<>();

  private AnswerCache(Requests requests, CacheConfig<K, V> config, CacheType type, Map<String, Factory> factories) {
    this.requests = requests;
    weigher = config.getWeigher();
    to = new OpenSearchOnHeapCacheFactory().create(listening(config), type, factories);
  }

  /** Makes the caches of a node. */
  static final class Maker implements Factory {
    private final Requests requests;

    Maker(Requests requests) {
      this.requests = requests;
    }

    @Override
    public <K, V> ICache<K, V> create(CacheConfig<K, V> config, CacheType type, Map<String, Factory> factories) {
      return new AnswerCache<>(requests, config, type, factories);
    }

    @Override
    public String getCacheName() {
      return NAME;
    }
  }

  /** Returns the configuration of the node's own cache, as if no other were named, which tells this one what it removes. */
  private CacheConfig<K, V> listening(CacheConfig<K, V> c) {
    RemovalListener<ICacheKey<K>, V> own = c.getRemovalListener();
    return new CacheConfig.Builder<K, V>()
        .setSettings(c.getSettings().filter(name -> !name.equals(SETTING)))
        .setKeyType(c.getKeyType())
        .setValueType(c.getValueType())
        .setRemovalListener(
            what -> {
              removed(what);
              own.onRemoval(what);
            })
        .setWeigher(c.getWeigher())
        .setKeySerializer(c.getKeySerializer())
        .setValueSerializer(c.getValueSerializer())
        .setDimensionNames(c.getDimensionNames())
        .setCachedResultParser(c.getCachedResultParser())
        .setMaxSizeInBytes(IndicesRequestCache.INDICES_CACHE_QUERY_SIZE.get(c.getSettings()).getBytes()) // which is left out where a cache is named
        .setExpireAfterAccess(c.getExpireAfterAccess())
        .setClusterSettings(c.getClusterSettings())
        .setStatsTrackingEnabled(c.getStatsTrackingEnabled())
        .setStoragePath(c.getStoragePath())
        .setSegmentCount(c.getSegmentCount())
        .setCacheAlias(c.getCacheAlias())
        .build();
  }

  private void removed(RemovalNotification<ICacheKey<K>, V> what) {
    if (what.getRemovalReason() != RemovalReason.EVICTED && what.getRemovalReason() != RemovalReason.CAPACITY) {
      return; // its index has changed
    }
    displaced.add(what.getKey().hashCode());
    long[] sum = mine.get();
    if (sum != null) {
      sum[0] += weigher.applyAsLong(what.getKey(), what.getValue());
    }
  }

  @Override
  public V computeIfAbsent(ICacheKey<K> key, LoadAwareCacheLoader<ICacheKey<K>, V> loader) throws Exception {
    Request r = requests.current();
    if (r == null) {
      return to.computeIfAbsent(key, loader);
    }
    Load load = new Load(r, loader);
    mine.set(load.displaced);
    V value = null;
    try {
      value = to.computeIfAbsent(key, load);
    } finally {
      mine.remove();
      load.end(value == null ? 0 : weigher.applyAsLong(key, value));
    }
    return value;
  }

  /** One look into the cache, which computes if nothing is there. */
  private final class Load implements LoadAwareCacheLoader<ICacheKey<K>, V> {
    final long[] displaced = {0};
    private final Request request;
    private final LoadAwareCacheLoader<ICacheKey<K>, V> to;
    private boolean began;
    private boolean again;

    Load(Request request, LoadAwareCacheLoader<ICacheKey<K>, V> to) {
      this.request = request;
      this.to = to;
    }

    @Override
    public boolean isLoaded() {
      return to.isLoaded();
    }

    @Override
    public V load(ICacheKey<K> key) throws Exception {
      began = true;
      again = AnswerCache.this.displaced.remove(key.hashCode());
      request.computes(again);
      return to.load(key);
    }

    void end(long bytes) {
      if (began) {
        request.computed(again, bytes, displaced[0]);
      }
    }
  }

  @Override
  public V get(ICacheKey<K> key) {
    return to.get(key);
  }

  @Override
  public void put(ICacheKey<K> key, V value) {
    to.put(key, value);
  }

  @Override
  public void invalidate(ICacheKey<K> key) {
    to.invalidate(key);
  }

  @Override
  public void invalidateAll() {
    to.invalidateAll();
  }

  @Override
  public Iterable<ICacheKey<K>> keys() {
    return to.keys();
  }

  @Override
  public long count() {
    return to.count();
  }

  @Override
  public void refresh() {
    to.refresh();
  }

  @Override
  public ImmutableCacheStatsHolder stats(String[] levels) {
    return to.stats(levels);
  }

  @Override
  public void close() throws IOException {
    to.close();
  }

  /** Which keys were displaced lately, by their hashes: of two with one place the later one is known. */
  private static final class Displaced {
    private static final int PLACES = 1 << 14;

    private final AtomicIntegerArray hashes = new AtomicIntegerArray(PLACES); // 0 is none

    private static int place(int hash) {
      return (hash ^ hash >>> 16) & PLACES - 1;
    }

    void add(int hash) {
      hashes.setRelease(place(hash), hash);
    }

    boolean remove(int hash) {
      return hash != 0 && hashes.compareAndSet(place(hash), hash, 0);
    }
  }
}
