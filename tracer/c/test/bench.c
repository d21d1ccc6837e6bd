/* Times one event in each mode beside half of an uncontended lock and unlock.
 *
 *   bench FILE ROUNDS      prints "name ns" lines
 *
 * It writes the clock word itself, as an engine does. */
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

static void time_events(sg_tracer *tracer, const char *name, long rounds) {
	int r = sg_resource(tracer, "bench", SG_LOCK);
	sg_task *task = sg_begin(tracer, NULL);
	double start = now();
	for (long i = 0; i < rounds; i++) {
		sg_acquire(task, r, 1);
		sg_release(task, r, 1);
	}
	printf("%s %.2f\n", name, (now() - start) / (double)rounds / 2);
	sg_end(task);
}

static void time_mutex(long rounds) {
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	double start = now();
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	printf("mutex %.2f\n", (now() - start) / (double)rounds / 2);
}

static void time_tasks(sg_tracer *tracer, long rounds) {
	double start = now();
	for (long i = 0; i < rounds; i++)
		sg_end(sg_begin(tracer, NULL));
	printf("task %.2f\n", (now() - start) / (double)rounds);
}

int main(int argc, char **argv) {
	sg_error error;
	sg_tracer *tracer = argc == 3 ? sg_open(&(sg_config){.path = argv[1]}, &error) : NULL;
	volatile uint64_t *clock = tracer ? clock_word(argv[1]) : NULL;
	if (!clock)
		return 2;
	long rounds = atol(argv[2]);
	time_events(tracer, "off", rounds);
	*clock = 1000000000000 | 1;
	time_events(tracer, "coarse", rounds);
	time_tasks(tracer, rounds / 4);
	*clock = 1000000000000 | 2;
	time_events(tracer, "precise", rounds / 4);
	time_mutex(rounds);
	sg_close(tracer);
	return 0;
}
