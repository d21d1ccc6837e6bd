/* Serves requests on every thread, and says every 20 ms how many there were, and what
 * processor time the process has used:
 *
 *   load FILE THREADS STEPS   prints "ready", then "NANOSECONDS REQUESTS" lines, until
 *                             its standard input ends
 *
 * A request is so many steps of work, through more memory than the first cache has, with
 * the 16 events of request() in bench.c. The engine that has FILE switches the mode while
 * it runs. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../spillgate_tracer.h"

enum { MOST_THREADS = 64 };

static struct load_thread {
	_Atomic uint64_t served;
	char rest[120]; /* a line of the cache of its own */
	uint64_t memory[1 << 15];
} threads[MOST_THREADS];

static sg_tracer *tracer;
static int lock, pool, steps;

static uint64_t work(uint64_t *memory, uint64_t x) {
	for (int i = 0; i < steps; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		memory[x >> 49] += x;
	}
	return x;
}

static void *serve(void *arg) {
	struct load_thread *thread = arg;
	uint64_t *memory = thread->memory, x = 1;
	for (;;) {
		sg_task *request = sg_begin(tracer, NULL);
		sg_acquire(request, pool, 1);
		x = work(memory, x);
		for (int i = 0; i < 3; i++) {
			sg_wait_begin(request, lock);
			sg_wait_end(request, lock);
			sg_acquire(request, lock, 1);
			sg_release(request, lock, 1);
		}
		sg_release(request, pool, 1);
		sg_end(request);
		atomic_fetch_add_explicit(&thread->served, 1, memory_order_relaxed);
	}
	return NULL;
}

int main(int argc, char **argv) {
	sg_error error;
	int n = argc == 4 ? atoi(argv[2]) : 0;
	tracer = n > 0 && n <= MOST_THREADS ? sg_open(&(sg_config){.path = argv[1]}, &error) : NULL;
	if (!tracer || (steps = atoi(argv[3])) <= 0)
		return 2;
	lock = sg_resource(tracer, "lock", SG_LOCK);
	pool = sg_resource(tracer, "pool", SG_QUEUE);
	for (int i = 0; i < n; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, serve, &threads[i]) != 0)
			return 2;
	}
	puts("ready");
	fflush(stdout);
	for (struct pollfd in = {.fd = 0}; poll(&in, 1, 20) == 0;) {
		struct timespec t;
		uint64_t sum = 0;
		for (int i = 0; i < n; i++)
			sum += atomic_load_explicit(&threads[i].served, memory_order_relaxed);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
		printf("%llu %llu\n", (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec, (unsigned long long)sum);
		fflush(stdout);
	}
	return 0;
}
