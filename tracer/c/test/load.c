/* Serves requests on every thread, and says every 100 ms how many there were:
 *
 *   load FILE THREADS      prints "ready", then "NANOSECONDS REQUESTS" lines, until its
 *                          standard input ends
 *
 * A request is some 13 µs of work with 16 events, as in bench.c. The engine that has
 * FILE switches the mode while it runs. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../spillgate_tracer.h"

enum { MOST_THREADS = 64 };

static struct {
	_Atomic uint64_t served;
	char rest[120]; /* a line of the cache of its own */
} threads[MOST_THREADS];

static sg_tracer *tracer;
static int lock, pool;

static void *serve(void *arg) {
	_Atomic uint64_t *served = arg;
	volatile uint64_t work = 0;
	for (;;) {
		sg_task *request = sg_begin(tracer, NULL);
		sg_acquire(request, pool, 1);
		for (int i = 0; i < 12000; i++)
			work = work * 6364136223846793005u + 1;
		for (int i = 0; i < 3; i++) {
			sg_wait_begin(request, lock);
			sg_wait_end(request, lock);
			sg_acquire(request, lock, 1);
			sg_release(request, lock, 1);
		}
		sg_release(request, pool, 1);
		sg_end(request);
		atomic_fetch_add_explicit(served, 1, memory_order_relaxed);
	}
	return NULL;
}

int main(int argc, char **argv) {
	sg_error error;
	int n = argc == 3 ? atoi(argv[2]) : 0;
	tracer = n > 0 && n <= MOST_THREADS ? sg_open(&(sg_config){.path = argv[1]}, &error) : NULL;
	if (!tracer)
		return 2;
	lock = sg_resource(tracer, "lock", SG_LOCK);
	pool = sg_resource(tracer, "pool", SG_QUEUE);
	for (int i = 0; i < n; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, serve, &threads[i].served) != 0)
			return 2;
	}
	puts("ready");
	fflush(stdout);
	for (struct pollfd in = {.fd = 0}; poll(&in, 1, 100) == 0;) {
		struct timespec t;
		uint64_t sum = 0;
		for (int i = 0; i < n; i++)
			sum += atomic_load_explicit(&threads[i].served, memory_order_relaxed);
		clock_gettime(CLOCK_MONOTONIC, &t);
		printf("%llu %llu\n", (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec, (unsigned long long)sum);
		fflush(stdout);
	}
	return 0;
}
