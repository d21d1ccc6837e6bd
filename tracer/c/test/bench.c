/* Times one event in each mode beside half of an uncontended lock and unlock, and
 * all 16 events of a request in each mode.
 *
 *   bench FILE ROUNDS      prints "name ns" lines
 *
 * It writes the words of the clock and the engine itself, as an engine does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../spillgate_tracer.h"

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static volatile uint64_t *clock_word(const char *path) {
	int fd = open(path, O_RDWR);
	void *header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return header == MAP_FAILED ? NULL : (volatile uint64_t *)((char *)header + 128);
}

/* Each figure is the fastest of so many slices: a busy machine only adds. */
enum { SLICES = 400 };

static sg_tracer *tracer;
static sg_task *task;
static int resource;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void events(long rounds) {
	for (long i = 0; i < rounds; i++) {
		sg_acquire(task, resource, 1);
		sg_release(task, resource, 1);
	}
}

static void tasks(long rounds) {
	for (long i = 0; i < rounds; i++)
		sg_end(sg_begin(tracer, NULL));
}

static void mutex(long rounds) {
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
}

/* Prints what a part of a round costs, in nanoseconds. */
static void fastest(const char *name, void (*run)(long), long rounds, int parts) {
	double best = 1e18;
	task = sg_begin(tracer, NULL);
	for (int i = 0; i < SLICES; i++) {
		double start = now();
		run(rounds / SLICES);
		double took = now() - start;
		best = took < best ? took : best;
	}
	sg_end(task);
	printf("%s %.2f\n", name, best / (double)(rounds / SLICES) / parts);
}

/* Does as a request of load.c does, apart from its work. */
static void requests(long rounds) {
	for (long i = 0; i < rounds; i++) {
		sg_task *request = sg_begin(tracer, NULL);
		sg_acquire(request, resource + 1, 1);
		for (int lock_of = 0; lock_of < 3; lock_of++) {
			sg_wait_begin(request, resource);
			sg_wait_end(request, resource);
			sg_acquire(request, resource, 1);
			sg_release(request, resource, 1);
		}
		sg_release(request, resource + 1, 1);
		sg_end(request);
	}
}

int main(int argc, char **argv) {
	sg_error error;
	tracer = argc == 3 ? sg_open(&(sg_config){.path = argv[1]}, &error) : NULL;
	volatile uint64_t *clock = tracer ? clock_word(argv[1]) : NULL;
	if (!clock)
		return 2;
	long rounds = atol(argv[2]);
	resource = sg_resource(tracer, "bench", SG_LOCK);
	clock[1] = 1; /* an engine: tasks that begin move the clock for it */
	fastest("off", events, rounds, 2);
	*clock = 1000000000000 | 1;
	fastest("coarse", events, rounds, 2);
	fastest("task", tasks, rounds / 4, 1);
	fastest("coarse-request", requests, rounds / 20, 1);
	*clock = 1000000000000 | 2;
	fastest("precise", events, rounds / 4, 2);
	fastest("precise-request", requests, rounds / 40, 1);
	fastest("mutex", mutex, rounds, 2);
	sg_close(tracer);
	return 0;
}
