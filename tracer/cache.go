package tracer

import (
	"container/list"
	"context"
	"sync"
)

// Cache keeps the values that were used last, up to a size, and records who
// fills it, who displaces what others need, and what it costs them. Its methods
// may be called concurrently.
type Cache[K comparable, V any] struct {
	r    Resource
	size uint64

	mu     sync.Mutex
	used   uint64
	recent *list.List // of *entry, the latest first
	byKey  map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	units uint64
}

// NewCache returns an empty Cache for values whose units, in whatever the
// caller counts, sum to size at most. It works without tracing if t is nil or
// the file has no room for the name.
func NewCache[K comparable, V any](t *Tracer, name string, size uint64) *Cache[K, V] {
	r, _ := t.Resource(name, Memory)
	return &Cache[K, V]{r: r, size: size, recent: list.New(), byKey: map[K]*list.Element{}}
}

// Get returns the value of key. If it is not there it calls load, which returns
// the value and its units, and keeps that. The time of a load counts as lost
// to the cache. An error of load is returned and nothing kept. Callers that miss
// the same key at once each load it; a value of more units than the cache's
// size is not kept.
func (c *Cache[K, V]) Get(ctx context.Context, key K, load func(context.Context) (V, uint64, error)) (V, error) {
	c.mu.Lock()
	if e, ok := c.byKey[key]; ok {
		c.recent.MoveToFront(e)
		value := e.Value.(*entry[K, V]).value
		c.mu.Unlock()
		return value, nil
	}
	c.mu.Unlock()

	task := From(ctx)
	task.WaitBegin(c.r)
	var evicted uint64
	defer func() { task.Evicted(c.r, evicted) }() // ends the wait, also when load panics
	value, units, err := load(ctx)
	if err != nil || units > c.size {
		return value, err
	}
	evicted = c.keep(&entry[K, V]{key, value, units})
	task.Acquire(c.r, units)
	return value, nil
}

// keep inserts an entry and returns how many units it displaced.
func (c *Cache[K, V]) keep(e *entry[K, V]) (evicted uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.byKey[e.key]; ok {
		c.remove(old) // another task loaded it meanwhile
	}
	for c.used+e.units > c.size && c.recent.Len() > 0 {
		evicted += c.remove(c.recent.Back())
	}
	c.byKey[e.key] = c.recent.PushFront(e)
	c.used += e.units
	return evicted
}

func (c *Cache[K, V]) remove(at *list.Element) (units uint64) {
	e := c.recent.Remove(at).(*entry[K, V])
	delete(c.byKey, e.key)
	c.used -= e.units
	return e.units
}
