/* Spillgate's tracer for C11 and C++: tells an engine in another process what
 * each task of a program holds and waits for, and cancels the task that the
 * engine names.
 *
 *   sg_tracer *tracer = sg_open(&(sg_config){.path = path}, &error);  // once
 *   sg_mutex_init(&orders, tracer, "orders");
 *
 *   sg_task *task = sg_begin(tracer, &(sg_info){.kind = updates, .cancel = stop, .arg = request});
 *   if (sg_mutex_lock(&orders, task) == 0) {
 *       ...
 *       sg_mutex_unlock(&orders, task);
 *   }
 *   sg_end(task);
 *
 * Invariants:
 *  1. A null tracer and a null task are valid and do nothing, so a program
 *     needs no conditions. sg_begin returns null while the mode is off.
 *  2. An event of a task (sg_acquire to sg_set_flags) takes no lock, allocates
 *     nothing and makes no system call; mode precise reads the clock.
 *  3. One thread at a time uses a task. It need not be the thread that began it.
 *  4. After fork the child's tasks are its own: what the parent was doing is
 *     null in the child. The mode reaches every process.
 *
 * What this library does not do: it decides nothing, it reads nobody's tasks,
 * and it frees nothing that a cancelled task holds. The file is described in
 * FORMAT.md, one directory above. Linux only; elsewhere sg_open fails.
 */
#ifndef SPILLGATE_TRACER_H
#define SPILLGATE_TRACER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tracer writes the tasks of this process into a task file. Its functions may
 * be called by any thread. */
typedef struct sg_tracer sg_tracer;

/* A task is what can be cancelled: a request, a transaction, a background job. */
typedef struct sg_task sg_task;

/* Why sg_open failed. Word is from the table in FORMAT.md if the file was
 * refused, "system" otherwise; text says the value and what was expected. */
typedef struct {
	char word[16];
	char text[240];
} sg_error;

/* Where the task file is. A zero takes the default; an existing file keeps its
 * own numbers. */
typedef struct {
	const char *path;   /* required; whoever comes first creates it, mode 0600 */
	uint32_t slots;     /* tasks at once, 1 to 65536; default 1024 */
	uint32_t resources; /* named resources, 1 to 64; default 16 */
	uint32_t kinds;     /* named kinds, up to 4096; default 256 */
	bool poll;          /* no watching thread: the program asks sg_cancelled at its own check points */
} sg_config;

/* Maps the file, creating it if there is none. Returns null and fills error,
 * which may be null, on failure. */
sg_tracer *sg_open(const sg_config *config, sg_error *error);

/* Stops the watching thread and unmaps the file. No task may run. */
void sg_close(sg_tracer *tracer);

/* How a resource is contended for. */
typedef enum { SG_LOCK = 1, SG_MEMORY, SG_QUEUE, SG_SYSTEM } sg_resource_kind;

/* Returns the number of a resource, or -1 if the name is no valid name or the
 * file has no room for it; an event of resource -1 does nothing. Called once
 * for a resource, not for each event. */
int sg_resource(sg_tracer *tracer, const char *name, sg_resource_kind kind);

/* Returns the fingerprint of a kind of task, and makes its name known. Called
 * once for a kind. */
uint64_t sg_kind(sg_tracer *tracer, const char *name);

/* What a task is. */
enum {
	SG_BACKGROUND = 1, /* no latency objective: it is no victim */
	SG_BARRED = 2,     /* must not be cancelled */
	SG_IDLE = 4        /* holds things and runs nothing */
};

/* Returns whether the engine asks that no task of a kind begins at present: the
 * program then refuses the request in its own way. It costs a look at one word
 * while no kind is kept out. Any thread may ask. */
bool sg_kept_out(sg_tracer *tracer, uint64_t kind);

/* Describes a task that begins; all fields may be zero. */
typedef struct {
	uint64_t key;     /* the program's own number for the task */
	uint64_t kind;    /* from sg_kind */
	uint64_t flags;   /* SG_BACKGROUND, ... */
	uint64_t started; /* nanoseconds of CLOCK_MONOTONIC; 0 is now */
	/* Called by the watching thread, at most once, never after sg_end has
	 * returned. It must not call sg_end of this task; it sets a flag, shuts a
	 * socket down, or the like. */
	void (*cancel)(void *arg);
	void *arg;
} sg_info;

/* Begins a task, or returns null if the mode is off or no slot is free. Info may
 * be null. */
sg_task *sg_begin(sg_tracer *tracer, const sg_info *info);

/* Ends a task; what it still holds is forgotten. If its cancel is being called
 * it waits for that. */
void sg_end(sg_task *task);

/* Returns why the engine wants the task cancelled, 0 if it does not. A check
 * point for programs that poll; any thread may ask while the task runs. The
 * task then counts as cancelled. */
enum { SG_CULPRIT = 1, SG_OPERATOR = 2 };
uint64_t sg_cancelled(sg_task *task);

/* The events. Resource is what sg_resource returned. */
void sg_acquire(sg_task *task, int resource, uint64_t units);
void sg_release(sg_task *task, int resource, uint64_t units);
void sg_wait_begin(sg_task *task, int resource);
void sg_wait_end(sg_task *task, int resource);
/* Displaced units of memory, which ends a wait for it. */
void sg_evicted(sg_task *task, int resource, uint64_t units);
/* A wait that is over, in nanoseconds. */
void sg_waited(sg_task *task, int resource, uint64_t nanoseconds);
/* Whether the next hold of a lock, and the wait for it, is a reader's. */
void sg_set_shared(sg_task *task, int resource, bool shared);
/* Done of total units of the work; total 0 is unknown. */
void sg_set_progress(sg_task *task, uint64_t done, uint64_t total);
void sg_set_flags(sg_task *task, uint64_t flags);

/* The helpers below work, untraced, with a null tracer and a null task. Where a
 * task has to wait it looks for its cancel each 20 ms, and then returns
 * ECANCELED without what it waited for. Other results are those of pthreads. */

/* A mutex. */
typedef struct {
	pthread_mutex_t lock;
	int resource;
} sg_mutex;
int sg_mutex_init(sg_mutex *mutex, sg_tracer *tracer, const char *name);
int sg_mutex_lock(sg_mutex *mutex, sg_task *task);
int sg_mutex_unlock(sg_mutex *mutex, sg_task *task);
int sg_mutex_destroy(sg_mutex *mutex);

/* A number of units, such as connections, that tasks take and give back, first
 * come, first served: a task that wants many is not passed by those that want few. */
struct sg_place;
typedef struct {
	pthread_mutex_t lock;
	uint64_t free;
	struct sg_place *first; /* of those that wait */
	int resource;
} sg_pool;
int sg_pool_init(sg_pool *pool, sg_tracer *tracer, const char *name, uint64_t units);
int sg_pool_acquire(sg_pool *pool, sg_task *task, uint64_t units);
int sg_pool_release(sg_pool *pool, sg_task *task, uint64_t units);
int sg_pool_destroy(sg_pool *pool);

/* A lock that readers share, first come, first served: a reader that comes after
 * a writer waits behind it. */
typedef struct {
	sg_pool readers;
	bool writing;
} sg_rwlock;
int sg_rwlock_init(sg_rwlock *rwlock, sg_tracer *tracer, const char *name);
int sg_rwlock_rdlock(sg_rwlock *rwlock, sg_task *task);
int sg_rwlock_wrlock(sg_rwlock *rwlock, sg_task *task);
int sg_rwlock_unlock(sg_rwlock *rwlock, sg_task *task);
int sg_rwlock_destroy(sg_rwlock *rwlock);

/* A bounded queue between threads that accept work and workers that do it. */
typedef struct {
	void *value;
	uint64_t came; /* when it was put, CLOCK_MONOTONIC */
} sg_item;
typedef struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	sg_item *items; /* the caller's, of the given size */
	size_t size, first, count;
	bool closed;
	int resource;
} sg_queue;
int sg_queue_init(sg_queue *queue, sg_tracer *tracer, const char *name, sg_item *items, size_t size);
/* Waits for room. EPIPE: the queue was closed. The task that waits may be null. */
int sg_queue_put(sg_queue *queue, sg_task *task, void *value);
/* Waits for an item. EPIPE: the queue was closed and is empty. */
int sg_queue_take(sg_queue *queue, sg_item *item);
/* Begins the task that does an item: it came when the item did, waited for the
 * queue since, and holds one of the workers until sg_end. */
sg_task *sg_queue_begin(sg_queue *queue, sg_tracer *tracer, const sg_info *info, const sg_item *item);
void sg_queue_close(sg_queue *queue);
int sg_queue_destroy(sg_queue *queue);

/* The accounts of a cache: the program calls sg_cache_miss when an entry is not
 * there, then sg_cache_filled when it is, with its units and how many were
 * displaced for it, and sg_cache_freed when it drops its own entries. */
typedef struct {
	int resource;
} sg_cache;
void sg_cache_init(sg_cache *cache, sg_tracer *tracer, const char *name);
void sg_cache_miss(const sg_cache *cache, sg_task *task);
void sg_cache_filled(const sg_cache *cache, sg_task *task, uint64_t units, uint64_t displaced);
void sg_cache_freed(const sg_cache *cache, sg_task *task, uint64_t units);

#ifdef __cplusplus
}
#endif
#endif
