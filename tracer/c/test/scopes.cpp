// Checks the RAII wrapper: what a scope took it gives back, also by exception.
//
//   scopes FILE      FILE does not exist yet
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "spillgate_tracer.hpp"

static volatile uint64_t *header; // of the file, in words

#define CHECK(condition)                                              \
	do {                                                              \
		if (!(condition)) {                                           \
			std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			std::exit(1);                                             \
		}                                                             \
	} while (0)

// The words of slot 0 of a file with one slot, one resource and one kind.
static volatile uint64_t *slot() { return header + 8192 / 8; }

static void map(const char *path) {
	int fd = open(path, O_RDWR);
	void *memory = mmap(nullptr, 8192 + 1088, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(fd >= 0 && memory != MAP_FAILED);
	close(fd);
	header = static_cast<volatile uint64_t *>(memory);
}

static spillgate::Task moved(const spillgate::Tracer &tracer) {
	spillgate::Task task(tracer);
	return task;
}

int main(int argc, char **argv) {
	CHECK(argc == 2);
	sg_config config = {};
	config.path = argv[1], config.slots = 1, config.resources = 1, config.kinds = 1;
	spillgate::Tracer tracer(config);
	map(argv[1]);
	header[16] = 1000000000 | 1; // coarse
	spillgate::Mutex orders(tracer, "orders");
	try {
		spillgate::Task task = moved(tracer);
		CHECK(task.get() && slot()[1] % 2 == 1);
		spillgate::Lock<spillgate::Mutex> lock(orders, task);
		task.progress(1, 3);
		CHECK(slot()[32 + 7] == 1 && slot()[6] == 1 && slot()[7] == 3); // used, done, total
		task.check_point();
		slot()[17] = 1;         // reason
		slot()[16] = slot()[1]; // cancel
		task.check_point();
		CHECK(false);
	} catch (const spillgate::Cancelled &) {
	}
	CHECK(slot()[0] == 0 && slot()[1] % 2 == 0 && slot()[32 + 1] == 1); // freed, ended, given back
	spillgate::Task untraced(tracer), second(tracer);
	CHECK(untraced.get() && !second.get());
	spillgate::SharedMutex table(tracer, "no room for this name");
	spillgate::SharedLock read(table, second);
	try {
		spillgate::Tracer refused("/");
		CHECK(false);
	} catch (const spillgate::Refused &) {
	}
	return 0;
}
