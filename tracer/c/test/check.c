/* Checks the library in one process and its children; run plainly and under
 * sanitizers. It includes the library, because it plays the engine too.
 *
 *   check FILE      FILE does not exist yet
 */
#include "../spillgate_tracer.c"

#include <sys/wait.h>

#define CHECK(condition)                                                      \
	do {                                                                      \
		if (!(condition)) {                                                   \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);   \
			exit(1);                                                          \
		}                                                                     \
	} while (0)

static sg_tracer *tracer;

static void set_mode(uint64_t mode) { put(&tracer->live->clock, (monotonic() & ~(uint64_t)MODE_BITS) | mode); }

/* Asks for a cancel, as an engine does. */
static void ask_cancel(uint32_t index, uint64_t sequence) {
	slot_words *w = slot_at(tracer, index);
	put(&w->reason, SG_CULPRIT);
	put(&w->cancel, sequence);
	atomic_fetch_add(&tracer->live->cancels, 1);
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static void check_off(void) {
	CHECK(sg_begin(tracer, NULL) == NULL);
	CHECK(sg_begin(NULL, NULL) == NULL && sg_resource(NULL, "x", SG_LOCK) == -1 && sg_kind(NULL, "x") == 0);
	sg_acquire(NULL, 0, 1);
	sg_set_shared(NULL, 0, true);
	sg_set_progress(NULL, 1, 2);
	sg_set_flags(NULL, SG_IDLE);
	CHECK(sg_cancelled(NULL) == 0);
	sg_end(NULL);
	sg_close(NULL);
}

static void check_names(void) {
	CHECK(sg_resource(tracer, "orders", SG_LOCK) == 0 && sg_resource(tracer, "orders", SG_LOCK) == 0);
	CHECK(sg_resource(tracer, "orders", SG_QUEUE) == 1);
	const char *bad[] = {"", "a\nb", "\x7f", "\xc2\x85", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(sg_resource(tracer, bad[i], SG_LOCK) == -1);
	CHECK(sg_resource(tracer, "x", (sg_resource_kind)0) == -1 && sg_resource(tracer, "x", (sg_resource_kind)5) == -1);
}

static void check_kept_out(void) {
	keep_words *k = (keep_words *)(tracer->memory + KEPT);
	CHECK(!sg_kept_out(NULL, 7) && !sg_kept_out(tracer, 7));
	put(&k->kind, 7);
	put(&k->until, monotonic() + LONGEST_KEEP / 2);
	CHECK(!sg_kept_out(tracer, 7)); /* no entry counts */
	put(&tracer->live->keeps, 1);
	CHECK(sg_kept_out(tracer, 7) && !sg_kept_out(tracer, 8));
	put(&k->until, monotonic() - 1);
	CHECK(!sg_kept_out(tracer, 7));
	put(&k->until, UINT64_MAX);
	put(&tracer->live->keeps, UINT64_MAX);
	CHECK(!sg_kept_out(tracer, 7) && !sg_kept_out(tracer, 0) && !sg_kept_out(tracer, 8));
	put(&tracer->live->keeps, 0);
}

static void check_wild_resources(void) {
	sg_task *task = sg_begin(tracer, NULL);
	CHECK(task);
	const int wild[] = {-1, 16, 64, INT32_MAX, INT32_MIN};
	for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
		sg_acquire(task, wild[i], 1);
		sg_wait_begin(task, wild[i]);
		sg_set_shared(task, wild[i], true);
	}
	CHECK(get(&task->words->touched) == 0 && get(&task->words->shared) == 0);
	sg_end(task);
	sg_acquire(task, 0, 1); /* after its end: nothing */
	sg_end(task);
}

/* Fork: the child's view of its parent's tasks is empty, it has slots of its
 * own, and it sees the mode change. */
static void check_fork(void) {
	set_mode(COARSE);
	sg_task *task = sg_begin(tracer, NULL);
	sg_acquire(task, 0, 1);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		sg_acquire(task, 0, 1);
		sg_end(task);
		while ((get(&tracer->live->clock) & MODE_BITS) != PRECISE)
			sched_yield();
		sg_task *own = sg_begin(tracer, NULL);
		bool good = own && own != task && get(&own->words->owner) == own_token() && own->words->owner != 0;
		for (int i = 0; good && i < 500 && !sg_cancelled(own); i++)
			pause_ms(10);
		good = good && sg_cancelled(own) == SG_CULPRIT;
		sg_end(own);
		_exit(good ? 0 : 1);
	}
	set_mode(PRECISE);
	uint64_t sequence = 0;
	for (uint32_t i = 0; sequence == 0; i = (i + 1) % tracer->size.slots) {
		slot_words *w = slot_at(tracer, i);
		if (get(&w->owner) != 0 && get(&w->owner) != own_token() && get(&w->sequence) % 2 == 1) {
			sequence = get(&w->sequence);
			ask_cancel(i, sequence);
		}
		sched_yield();
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(get(&task->cells[0].gets) == 1 && get(&task->words->sequence) % 2 == 1);
	sg_end(task);
}

static void count(void *arg) { atomic_fetch_add((_Atomic int *)arg, 1); }

/* A cancel reaches its task once, and not the next one in its slot. */
static void check_cancel(void) {
	_Atomic int calls = 0, others = 0;
	sg_task *task = sg_begin(tracer, &(sg_info){.cancel = count, .arg = &calls});
	uint32_t index = task->index;
	uint64_t sequence = task->sequence;
	ask_cancel(index, sequence - 2);
	pause_ms(50);
	CHECK(atomic_load(&calls) == 0 && sg_cancelled(task) == 0);
	ask_cancel(index, sequence);
	while (atomic_load(&calls) == 0)
		sched_yield();
	atomic_fetch_add(&tracer->live->cancels, 1); /* looked at again */
	pause_ms(50);
	CHECK(atomic_load(&calls) == 1 && sg_cancelled(task) == SG_CULPRIT);
	uint64_t finished = get(&task->words->finished);
	sg_end(task);
	CHECK(get(&slot_at(tracer, index)->finished) == finished);
	task = sg_begin(tracer, &(sg_info){.cancel = count, .arg = &others});
	CHECK(task->index == index); /* a thread takes its last slot again */
	atomic_fetch_add(&tracer->live->cancels, 1);
	pause_ms(50);
	CHECK(atomic_load(&others) == 0);
	sg_end(task);
}

/* The helpers: who waits is cancelled, the lock stays with its holder. */
typedef struct {
	sg_mutex mutex;
	sg_rwlock rwlock;
	sg_pool pool;
	sg_queue queue;
	int which;
} helpers;

static void *wait_for_it(void *arg) {
	helpers *h = arg;
	sg_task *task = sg_begin(tracer, &(sg_info){.key = 77});
	intptr_t result = h->which == 0   ? sg_mutex_lock(&h->mutex, task)
	                  : h->which == 1 ? sg_rwlock_wrlock(&h->rwlock, task)
	                  : h->which == 2 ? sg_rwlock_rdlock(&h->rwlock, task)
	                  : h->which == 3 ? sg_pool_acquire(&h->pool, task, 2)
	                                  : sg_queue_put(&h->queue, task, h);
	sg_end(task);
	return (void *)result;
}

static void cancel_waiter(void) {
	for (uint32_t i = 0;; i = (i + 1) % tracer->size.slots) {
		slot_words *w = slot_at(tracer, i);
		cell *cells = (cell *)(w + 1);
		uint64_t sequence = get(&w->sequence);
		for (uint32_t r = 0; get(&w->owner) && get(&w->key) == 77 && r < tracer->size.resources; r++) {
			if (get(&w->touched) >> r & 1 && get(&cells[r].waiting_since)) {
				ask_cancel(i, sequence);
				return;
			}
		}
		sched_yield();
	}
}

static void check_helpers(void) {
	helpers h;
	sg_item items[1];
	CHECK(sg_mutex_init(&h.mutex, tracer, "m") == 0 && sg_rwlock_init(&h.rwlock, tracer, "rw") == 0);
	CHECK(sg_pool_init(&h.pool, tracer, "p", 3) == 0 && sg_queue_init(&h.queue, tracer, "q", items, 1) == 0);
	for (h.which = 0; h.which < 5; h.which++) {
		sg_task *task = sg_begin(tracer, NULL);
		CHECK(sg_mutex_lock(&h.mutex, task) == 0 && sg_pool_acquire(&h.pool, task, 2) == 0 && sg_queue_put(&h.queue, NULL, &h) == 0);
		CHECK((h.which == 1 ? sg_rwlock_rdlock : sg_rwlock_wrlock)(&h.rwlock, task) == 0);
		pthread_t thread_of;
		void *result;
		CHECK(pthread_create(&thread_of, NULL, wait_for_it, &h) == 0);
		cancel_waiter();
		pthread_join(thread_of, &result);
		CHECK((intptr_t)result == ECANCELED);
		sg_item item;
		CHECK(sg_queue_take(&h.queue, &item) == 0 && item.value == &h);
		sg_task *work = sg_queue_begin(&h.queue, tracer, NULL, &item);
		CHECK(get(&work->words->started) == item.came && get(&work->cells[h.queue.resource].used) == 1);
		sg_end(work);
		CHECK(sg_rwlock_unlock(&h.rwlock, task) == 0 && sg_mutex_unlock(&h.mutex, task) == 0 && sg_pool_release(&h.pool, task, 2) == 0);
		CHECK(get(&task->cells[h.mutex.resource].used) == 0 && get(&task->cells[h.pool.resource].frees) == 2);
		sg_end(task);
	}
	sg_queue_close(&h.queue);
	sg_item item;
	CHECK(sg_queue_put(&h.queue, NULL, NULL) == EPIPE && sg_queue_take(&h.queue, &item) == EPIPE);
	sg_queue_destroy(&h.queue), sg_pool_destroy(&h.pool), sg_rwlock_destroy(&h.rwlock), sg_mutex_destroy(&h.mutex);
}

static int in_line(sg_pool *p) {
	int n = 0;
	pthread_mutex_lock(&p->lock);
	for (struct sg_place *at = p->first; at; at = at->next)
		n++;
	pthread_mutex_unlock(&p->lock);
	return n;
}

static void *read_it(void *lock) {
	intptr_t result = sg_rwlock_rdlock(lock, NULL);
	if (result == 0)
		result = sg_rwlock_unlock(lock, NULL);
	return (void *)result;
}

/* One that asks for few units waits behind one that asks for more than are free, and has its turn when that one
 * is cancelled, which that one hears of although something is given back all the time. */
static void *take_one(void *arg) {
	sg_task *task = sg_begin(tracer, &(sg_info){.key = 78});
	intptr_t result = sg_pool_acquire(arg, task, 1);
	if (result == 0)
		result = sg_pool_release(arg, task, 1);
	sg_end(task);
	return (void *)result;
}

static void check_order(void) {
	helpers h = {.which = 3};
	CHECK(sg_pool_init(&h.pool, tracer, "p", 2) == 0 && sg_pool_acquire(&h.pool, NULL, 1) == 0);
	pthread_t many, one;
	void *result;
	CHECK(pthread_create(&many, NULL, wait_for_it, &h) == 0);
	while (in_line(&h.pool) < 1)
		sched_yield();
	CHECK(pthread_create(&one, NULL, take_one, &h.pool) == 0);
	while (in_line(&h.pool) < 2)
		sched_yield();
	cancel_waiter();
	while (in_line(&h.pool) > 0) {
		CHECK(sg_pool_release(&h.pool, NULL, 0) == 0);
		sched_yield();
	}
	pthread_join(many, &result);
	CHECK((intptr_t)result == ECANCELED);
	pthread_join(one, &result);
	CHECK(result == NULL && sg_pool_release(&h.pool, NULL, 1) == 0 && h.pool.free == 2);
	sg_pool_destroy(&h.pool);

	sg_rwlock *l = &h.rwlock;
	CHECK(sg_rwlock_init(l, tracer, "rw") == 0 && sg_rwlock_rdlock(l, NULL) == 0);
	h.which = 1;
	pthread_t writer, reader;
	CHECK(pthread_create(&writer, NULL, wait_for_it, &h) == 0);
	while (in_line(&l->readers) < 1)
		sched_yield();
	CHECK(pthread_create(&reader, NULL, read_it, l) == 0);
	while (in_line(&l->readers) < 2)
		sched_yield();
	CHECK(sg_rwlock_unlock(l, NULL) == 0);
	pthread_join(writer, &result);
	CHECK(result == NULL && in_line(&l->readers) == 1 && sg_rwlock_unlock(l, NULL) == 0);
	pthread_join(reader, &result);
	CHECK(result == NULL);
	sg_rwlock_destroy(l);
}

/* Threads begin and end tasks while an engine cancels at random, until so many
 * cancels were delivered. */
enum { THREADS = 4, CANCELS = 100 };

typedef struct {
	sg_mutex *lock;
	_Atomic bool *stop;
	_Atomic int *delivered;
} shared_things;

static void *run_tasks(void *arg) {
	shared_things *s = arg;
	for (int i = 0; atomic_load(s->delivered) < CANCELS; i++) {
		/* The callback writes to this frame: it must not run after sg_end. */
		_Atomic int calls = 0;
		sg_task *task = sg_begin(tracer, &(sg_info){.key = (uint64_t)i, .cancel = count, .arg = &calls});
		if (sg_mutex_lock(s->lock, task) == 0)
			sg_mutex_unlock(s->lock, task);
		sg_set_progress(task, (uint64_t)i, CANCELS);
		if (i % 16 == 0)
			sched_yield();
		sg_end(task);
		CHECK(atomic_load(&calls) <= 1);
		atomic_fetch_add(s->delivered, atomic_load(&calls));
	}
	return NULL;
}

static void *play_engine(void *arg) {
	shared_things *s = arg;
	for (uint64_t n = 0; !atomic_load(s->stop); n++) {
		uint32_t i = (uint32_t)(n * 7 % tracer->size.slots);
		uint64_t sequence = get(&slot_at(tracer, i)->sequence);
		if (sequence % 2 == 1)
			ask_cancel(i, sequence);
		set_mode(n % 5 == 0 ? PRECISE : COARSE);
		if (n % 64 == 0)
			pause_ms(1);
	}
	return NULL;
}

static void check_threads(void) {
	sg_mutex lock;
	_Atomic bool stop = false;
	_Atomic int delivered = 0;
	CHECK(sg_mutex_init(&lock, tracer, "stress") == 0);
	shared_things s = {&lock, &stop, &delivered};
	pthread_t threads[THREADS], engine;
	CHECK(pthread_create(&engine, NULL, play_engine, &s) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, run_tasks, &s) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop, true);
	pthread_join(engine, NULL);
	for (uint32_t i = 0; i < tracer->size.slots; i++)
		CHECK(get(&slot_at(tracer, i)->owner) == 0 && get(&slot_at(tracer, i)->sequence) % 2 == 0);
	sg_mutex_destroy(&lock);
}

/* Another process writes anything into the slots. Counts become wrong, nothing
 * else: no crash, and no cancel outside its task. */
static void *write_junk(void *arg) {
	shared_things *s = arg;
	unsigned seed = 1;
	size_t first = slots_offset(&tracer->size), words = (file_bytes(&tracer->size) - first) / 8;
	while (atomic_load(s->stop) == false) {
		uint64_t junk = rand_r(&seed) % 3 == 0 ? 0 : (uint64_t)rand_r(&seed) << 33 | (uint64_t)rand_r(&seed);
		put((word *)(tracer->memory + first) + (size_t)rand_r(&seed) % words, junk);
		slot_words *w = slot_at(tracer, (size_t)rand_r(&seed) % tracer->size.slots);
		put(&w->owner, 0);
		put(&w->cancel, get(&w->sequence));
		atomic_fetch_add(&tracer->live->cancels, 1);
		if (rand_r(&seed) % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void check_junk(void) {
	sg_mutex lock;
	_Atomic bool stop = false;
	_Atomic int delivered = CANCELS / 2;
	CHECK(sg_mutex_init(&lock, tracer, "stress") == 0);
	shared_things s = {&lock, &stop, &delivered};
	pthread_t threads[THREADS], enemy;
	CHECK(pthread_create(&enemy, NULL, write_junk, &s) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, run_tasks, &s) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop, true);
	pthread_join(enemy, NULL);
	for (uint32_t i = 0; i < tracer->size.slots; i++) {
		CHECK(get(&tracer->tasks[i].state) == 0);
		put(&slot_at(tracer, i)->owner, 0);
	}
	sg_mutex_destroy(&lock);
}

/* A truncated file: the watcher lets go of it, and the program goes on. */
static void check_truncation(const char *path) {
	sg_task *task = sg_begin(tracer, NULL);
	CHECK(task && truncate(path, 0) == 0);
	pause_ms(200); /* touches nothing until the watcher has looked */
	while (!atomic_load(&tracer->process->detached))
		sched_yield();
	sg_acquire(task, 0, 1);
	sg_end(task);
	CHECK(sg_begin(tracer, NULL) == NULL);
}

int main(int argc, char **argv) {
	sg_error error;
	if (argc != 2)
		return 2;
	alarm(100); /* a check that hangs fails */
	CHECK(sg_open(&(sg_config){0}, &error) == NULL && strcmp(error.word, "system") == 0);
	tracer = sg_open(&(sg_config){.path = argv[1], .slots = 8}, &error);
	if (!tracer) {
		fprintf(stderr, "%s: %s\n", error.word, error.text);
		return 1;
	}
	check_off();
	check_names();
	set_mode(COARSE);
	check_kept_out();
	check_wild_resources();
	check_fork();
	check_cancel();
	check_helpers();
	check_order();
	check_threads();
	check_junk();
	check_truncation(argv[1]);
	sg_close(tracer);
	CHECK(sg_open(&(sg_config){.path = argv[1]}, &error) == NULL && strcmp(error.word, "short") == 0);
	CHECK(sg_open(&(sg_config){.path = "/"}, &error) == NULL && strcmp(error.word, "type") == 0);
	return 0;
}
