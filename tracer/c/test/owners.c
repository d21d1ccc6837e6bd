/* Starts processes that trace tasks and kills each at a random instant, until
 * its standard input ends and it has killed FEWEST; then prints how many it killed.
 *
 *   owners FILE SEED FEWEST
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../spillgate_tracer.h"

/* Runs tasks for ever. Units are taken and given back one by one, so that a
 * reader can say at which instruction an event was cut off. */
static void trace(sg_tracer *tracer, unsigned seed) {
	char name[16];
	snprintf(name, sizeof name, "r%u", seed % 3);
	int r = sg_resource(tracer, name, SG_LOCK);
	snprintf(name, sizeof name, "k%u", seed % 5);
	uint64_t kind = sg_kind(tracer, name);
	for (uint64_t n = 0;; n++) {
		sg_task *first = sg_begin(tracer, &(sg_info){.key = n, .kind = kind});
		sg_task *second = sg_begin(tracer, NULL);
		sg_acquire(first, r, 1);
		sg_wait_begin(second, r);
		sg_acquire(first, (int)(n % 3), 1);
		sg_wait_end(second, r);
		sg_set_progress(first, n, n + 1);
		sg_end(second);
		sg_release(first, (int)(n % 3), 1);
		sg_release(first, r, 1);
		sg_end(first);
	}
}

int main(int argc, char **argv) {
	sg_error error;
	/* The children poll: a thread of the killed process would teach nothing. */
	sg_tracer *tracer = argc == 4 ? sg_open(&(sg_config){.path = argv[1], .poll = true}, &error) : NULL;
	if (!tracer)
		return 2;
	unsigned seed = (unsigned)atol(argv[2]);
	long fewest = atol(argv[3]);
	long killed = 0;
	for (struct pollfd input = {.fd = 0, .events = POLLIN}; killed < fewest || poll(&input, 1, 0) == 0;) {
		pid_t child = fork();
		if (child < 0)
			return 1;
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			trace(tracer, seed);
		}
		nanosleep(&(struct timespec){0, rand_r(&seed) % 1500000}, NULL);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		killed++;
	}
	printf("%ld\n", killed);
	return 0;
}
