/* Does each event once, slowly enough to be watched: it stops, and whoever
 * traces it goes on instruction by instruction. Before each event it writes the
 * event's number into bytes of the header that have no name.
 *
 *   steps FILE      FILE exists, its mode is coarse
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../spillgate_tracer.h"

static volatile uint64_t *marker;

static void next(void) { ++*marker; }

int main(int argc, char **argv) {
	sg_tracer *tracer = argc == 2 ? sg_open(&(sg_config){.path = argv[1], .poll = true}, NULL) : NULL;
	int fd = tracer ? open(argv[1], O_RDWR) : -1;
	char *header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (header == MAP_FAILED)
		return 2;
	marker = (volatile uint64_t *)(header + 4088);
	sg_task *task = sg_begin(tracer, NULL); /* the first one finds out who this process is */
	if (!task)
		return 2;
	sg_acquire(task, 2, 9);
	sg_wait_begin(task, 2);
	sg_set_shared(task, 2, true);
	sg_set_progress(task, 1, 2);
	sg_end(task);

	raise(SIGSTOP);
	next(), sg_resource(tracer, "orders", SG_LOCK);
	next(), task = sg_begin(tracer, &(sg_info){.key = 7, .kind = 8, .flags = SG_IDLE, .started = 1000000000});
	next(), sg_acquire(task, 0, 2);
	next(), sg_release(task, 0, 1);
	next(), sg_release(task, 0, 5);
	next(), sg_wait_begin(task, 0);
	next(), sg_wait_end(task, 0);
	next(), sg_set_shared(task, 1, true);
	next(), sg_waited(task, 1, 5);
	next(), sg_wait_begin(task, 1);
	next(), sg_evicted(task, 1, 3);
	next(), sg_set_progress(task, 3, 4);
	next(), sg_set_flags(task, 0);
	next(), sg_end(task);
	next();
	raise(SIGSTOP);
	return 0;
}
