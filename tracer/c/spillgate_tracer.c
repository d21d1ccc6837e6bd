/* The implementation of spillgate_tracer.h. FORMAT.md is normative for all that
 * happens to the file; the order of stores is its order.
 *
 * In this file, from top to bottom: the layout; who this process is; the file;
 * names; kinds that are kept out; tasks; events; cancels; helpers.
 */
#define _GNU_SOURCE
#include "spillgate_tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- The layout ---- */

enum {
	HEADER = 4096,
	FIXED = 128, /* bytes of the header that never change */
	CHECK = 120, /* offset of the check */
	NAME = 128,
	LONGEST_NAME = 96,
	CELL = 64,
	SLOT_HEAD = 256,
	LATENCIES = 192,
	LINE = 128,
	PAGE = 4096,
	PID_BITS = 22,
	VERSION = 1,
	MODE_BITS = 3,
	COARSE = 1,
	PRECISE = 2,
	MOST_SLOTS = 65536,
	MOST_RESOURCES = 64,
	MOST_KINDS = 4096,
	KEPT = 512, /* offset of the kinds that are kept out */
	MOST_KEPT = 64
};

#define LONGEST_KEEP UINT64_C(60000000000) /* an instant further ahead is damage */

#define NAME_READY (UINT64_C(1) << 63)

static const char MAGIC[9] = "sgtasks\n";

typedef _Atomic uint64_t word;

typedef struct {
	word clock, engine, cancels, keeps, moves, unused[11], untraced;
} live_words;

typedef struct {
	word kind, until;
} keep_words;

typedef struct {
	word owner, sequence, started, key, kind, flags, done, total;
	word thread, touched, finished, delivered, shared, unused0[3];
	word cancel, reason, unused1[14];
} slot_words;

typedef struct {
	word gets, frees, waits, wait_time, waiting_since, hold_time, held_since, used;
} cell;

typedef struct {
	word state;
	uint64_t type, hash, length;
	char text[LONGEST_NAME];
} name_words;

_Static_assert(sizeof(slot_words) == SLOT_HEAD, "slot");
_Static_assert(sizeof(cell) == CELL, "cell");
_Static_assert(sizeof(name_words) == NAME, "name");
_Static_assert(offsetof(live_words, untraced) == 128, "header");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics without locks");

typedef struct {
	uint32_t slots, resources, kinds;
} geometry;

static size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

static size_t slot_bytes(const geometry *g) { return round_up(SLOT_HEAD + (size_t)CELL * g->resources + 4 * LATENCIES, LINE); }

static size_t kinds_offset(const geometry *g) { return HEADER + (size_t)NAME * g->resources; }

static size_t slots_offset(const geometry *g) { return round_up(kinds_offset(g) + (size_t)NAME * g->kinds, PAGE); }

static size_t file_bytes(const geometry *g) { return slots_offset(g) + (size_t)g->slots * slot_bytes(g); }

static bool geometry_valid(const geometry *g) {
	return g->slots >= 1 && g->slots <= MOST_SLOTS && g->resources >= 1 && g->resources <= MOST_RESOURCES && g->kinds <= MOST_KINDS;
}

static uint64_t fnv1a(const void *bytes, size_t n) {
	uint64_t h = UINT64_C(14695981039346656037);
	for (const unsigned char *p = bytes; n > 0; n--)
		h = (h ^ *p++) * UINT64_C(1099511628211);
	return h;
}

static uint64_t get(const word *w) { return atomic_load_explicit(w, memory_order_relaxed); }

static void put(word *w, uint64_t v) { atomic_store_explicit(w, v, memory_order_release); }

/* The counter of an age. */
static int latency(uint64_t ns) {
	uint64_t v = ns >> 13;
	if (v < 8)
		return (int)v;
	int e = 63 - __builtin_clzll(v);
	int i = 8 * (e - 2) + (int)(v >> (e - 3) & 7);
	return i < LATENCIES ? i : LATENCIES - 1;
}

/* ---- Who this process is ---- */

typedef struct {
	unsigned char boot[16];
	uint64_t pid_namespace;
} place;

static int fail(sg_error *error, const char *reason, const char *format, ...) {
	if (error) {
		snprintf(error->word, sizeof error->word, "%s", reason);
		va_list args;
		va_start(args, format);
		vsnprintf(error->text, sizeof error->text, format, args);
		va_end(args);
	}
	return -1;
}

/* Reads a small file of /proc; returns its length, -1 if it cannot. */
static ssize_t slurp(const char *path, char *buffer, size_t size) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buffer, size - 1);
	close(fd);
	if (n >= 0)
		buffer[n] = 0;
	return n;
}

static int hex_digit(char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int find_place(place *p, sg_error *error) {
	char text[64];
	if (slurp("/proc/sys/kernel/random/boot_id", text, sizeof text) < 0)
		return fail(error, "system", "cannot read the boot id, which tells old files from new ones: %s", strerror(errno));
	size_t digits = 0;
	for (const char *c = text; *c && digits < 32; c++) {
		int d = hex_digit(*c);
		if (d < 0)
			continue;
		p->boot[digits / 2] = (unsigned char)(p->boot[digits / 2] << 4 | d);
		digits++;
	}
	if (digits != 32)
		return fail(error, "system", "the boot id is \"%s\", expected a UUID", text);
	ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	if (sscanf(text, "pid:[%llu]", (unsigned long long *)&p->pid_namespace) != 1)
		return fail(error, "system", "the pid namespace is \"%s\", expected pid:[number]", text);
	return 0;
}

/* Returns the token of this process, 0 if /proc does not tell. */
static uint64_t own_token(void) {
	char text[1024];
	if (slurp("/proc/self/stat", text, sizeof text) < 0)
		return 0;
	/* The command's name may hold parentheses: fields count from the last one. */
	const char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? (uint64_t)strtoull(at, NULL, 10) << PID_BITS | (uint64_t)getpid() : 0;
}

static uint64_t monotonic(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- The file ---- */

/* What fork must not share lies in pages that the kernel zeroes in the child:
 * the process and its tasks. A task that was zeroed does nothing. */
typedef struct {
	word token;          /* 0: not known yet */
	_Atomic int starting; /* one thread finds the token and starts the watcher */
	_Atomic uint32_t threads;
	_Atomic bool stop, watching, detached;
	pthread_t watcher;
	word noticed;               /* cancels that the watcher was told of, or saw */
	_Atomic uint32_t knocks;    /* what the watcher sleeps on */
	_Alignas(LINE) word begun; /* when a task began last, to MOVED_AFTER; each reads it, so nothing else is beside it */
} process;

/* Phases of a task; its state is sequence * 4 + phase, 0 for none. Whatever
 * another process writes into the file, one thread at a time begins or ends a
 * task here, and no cancel is called outside of it. */
enum { CHANGING = 0, RUNNING = 1, DELIVERING = 2, DELIVERED = 3 };

#define BEGINNING (UINT64_MAX << 2 | CHANGING)

struct sg_task {
	_Alignas(LINE) cell *cells; /* null: not traced */
	slot_words *words;
	sg_tracer *tracer;
	uint64_t touched, sequence;
	uint32_t resources, index;
	void (*cancel)(void *);
	void *arg;
	word state;
};

struct sg_tracer {
	geometry size;
	unsigned char *memory;
	live_words *live;
	process *process;
	sg_task *tasks;
	size_t private_bytes;
	int fd;
	bool poll;
};

/* Wakes the watcher. */
static void knock(process *p) {
	atomic_fetch_add(&p->knocks, 1);
	syscall(SYS_futex, &p->knocks, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleeps for a time, or until there are more knocks than those heard. */
static void await_knock(process *p, uint32_t heard, const struct timespec *pause) {
#ifdef SYS_futex_time64 /* of machines of 32 bits */
	if (sizeof pause->tv_sec == 8) {
		syscall(SYS_futex_time64, &p->knocks, FUTEX_WAIT_PRIVATE, heard, pause, NULL, 0);
		return;
	}
#endif
	syscall(SYS_futex, &p->knocks, FUTEX_WAIT_PRIVATE, heard, pause, NULL, 0);
}

static slot_words *slot_at(const sg_tracer *t, size_t i) {
	return (slot_words *)(t->memory + slots_offset(&t->size) + i * slot_bytes(&t->size));
}

static void put32(unsigned char *at, uint32_t v) { memcpy(at, &v, sizeof v); }
static void put64(unsigned char *at, uint64_t v) { memcpy(at, &v, sizeof v); }

static uint32_t get32(const unsigned char *at) {
	uint32_t v;
	memcpy(&v, at, sizeof v);
	return v;
}

static uint64_t get64(const unsigned char *at) {
	uint64_t v;
	memcpy(&v, at, sizeof v);
	return v;
}

static void encode_header(unsigned char *b, const geometry *g, const place *p) {
	memset(b, 0, FIXED);
	memcpy(b, MAGIC, 8);
	const uint32_t numbers[] = {VERSION, HEADER, g->slots, g->resources, g->kinds, (uint32_t)slot_bytes(g)};
	for (int i = 0; i < 6; i++)
		put32(b + 8 + 4 * i, numbers[i]);
	put64(b + 32, slots_offset(g));
	put64(b + 40, file_bytes(g));
	memcpy(b + 48, p->boot, sizeof p->boot);
	put64(b + 64, p->pid_namespace);
	put64(b + CHECK, fnv1a(b, CHECK));
}

/* Validates the start of a file of the given size. */
static int parse_header(const unsigned char *b, uint64_t size, const place *p, geometry *g, sg_error *error) {
	if (size < HEADER)
		return fail(error, "short", "%llu bytes; a header has %d", (unsigned long long)size, HEADER);
	if (memcmp(b, MAGIC, 8) != 0)
		return fail(error, "magic", "it does not begin as a task file does");
	if (get32(b + 8) != VERSION)
		return fail(error, "version", "version %u; this program reads version %d; use tracer and engine of one release", get32(b + 8), VERSION);
	if (get64(b + CHECK) != fnv1a(b, CHECK))
		return fail(error, "check", "its check does not fit its header; the file is damaged, remove it");
	*g = (geometry){get32(b + 16), get32(b + 20), get32(b + 24)};
	if (!geometry_valid(g))
		return fail(error, "geometry", "%u slots (1 to %d), %u resources (1 to %d), %u kinds (0 to %d)", g->slots, MOST_SLOTS, g->resources,
		            MOST_RESOURCES, g->kinds, MOST_KINDS);
	if (get32(b + 12) != HEADER || get32(b + 28) != slot_bytes(g) || get64(b + 32) != slots_offset(g) || get64(b + 40) != file_bytes(g))
		return fail(error, "geometry", "its sizes and offsets do not follow from its %u slots, %u resources, %u kinds", g->slots, g->resources,
		            g->kinds);
	if (size != file_bytes(g))
		return fail(error, "size", "%llu bytes; its header says %zu", (unsigned long long)size, file_bytes(g));
	if (memcmp(b + 48, p->boot, sizeof p->boot) != 0)
		return fail(error, "boot", "written before the last boot; remove it, and keep task files where a boot empties the directory");
	if (get64(b + 64) != p->pid_namespace)
		return fail(error, "namespace", "made in another pid namespace; run tracer and engine in one");
	return 0;
}

/* Writes a whole new file and links it to path; -1 with errno EEXIST if there is
 * one by then. */
static int create_file(const char *path, const geometry *g, const place *p) {
	char temp[4096];
	if (snprintf(temp, sizeof temp, "%s.XXXXXX.new", path) >= (int)sizeof temp) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int fd = mkostemps(temp, 4, O_CLOEXEC);
	if (fd < 0)
		return -1;
	unsigned char *content = calloc(1, file_bytes(g));
	int result = content ? 0 : -1;
	if (content)
		encode_header(content, g, p);
	for (size_t at = 0; result == 0 && at < file_bytes(g);) {
		ssize_t n = write(fd, content + at, file_bytes(g) - at);
		if (n > 0)
			at += (size_t)n;
		else if (errno != EINTR)
			result = -1;
	}
	free(content);
	if (result == 0)
		result = link(temp, path);
	int saved = errno;
	close(fd);
	unlink(temp);
	errno = saved;
	return result;
}

/* Opens an existing file and validates it; -1 with error->word "none" if there
 * is none. */
static int open_file(const char *path, const place *p, geometry *g, sg_error *error) {
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return fail(error, "none", "no such file");
	if (fd < 0 && (errno == ELOOP || errno == EISDIR))
		return fail(error, "type", "it is a symbolic link or a directory, expected a regular file");
	if (fd < 0)
		return fail(error, "system", "cannot open %s: %s", path, strerror(errno));
	struct stat st;
	unsigned char header[HEADER] = {0};
	int result = -1;
	if (fstat(fd, &st) != 0)
		fail(error, "system", "cannot examine %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		fail(error, "type", "its type is %#o, expected a regular file", (unsigned)(st.st_mode & S_IFMT));
	else if (st.st_uid != geteuid())
		fail(error, "owner", "it belongs to user %u, this process runs as %u", (unsigned)st.st_uid, (unsigned)geteuid());
	else if (st.st_mode & 077)
		fail(error, "mode", "its permissions are %#o, expected 0600", (unsigned)(st.st_mode & 0777));
	else if (pread(fd, header, sizeof header, 0) < (ssize_t)sizeof header)
		fail(error, "short", "%lld bytes; a header has %d", (long long)st.st_size, HEADER);
	else
		result = parse_header(header, (uint64_t)st.st_size, p, g, error);
	if (result != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Opens or creates. Somebody may create or remove the file in between. */
static int open_or_create(const sg_config *c, const place *p, geometry *g, sg_error *error) {
	geometry wish = {c->slots ? c->slots : 1024, c->resources ? c->resources : 16, c->kinds ? c->kinds : 256};
	if (!geometry_valid(&wish))
		return fail(error, "geometry", "%u slots (1 to %d), %u resources (1 to %d), %u kinds (0 to %d)", wish.slots, MOST_SLOTS, wish.resources,
		            MOST_RESOURCES, wish.kinds, MOST_KINDS);
	sg_error local;
	for (int tries = 0; tries < 3; tries++) {
		int fd = open_file(c->path, p, g, &local);
		if (fd >= 0)
			return fd;
		if (strcmp(local.word, "none") != 0)
			return fail(error, local.word, "%s", local.text);
		if (create_file(c->path, &wish, p) != 0 && errno != EEXIST)
			return fail(error, "system", "cannot create %s: %s", c->path, strerror(errno));
	}
	return fail(error, "system", "%s vanishes as soon as it is created", c->path);
}

/* Maps what is shared and what is private. */
static sg_tracer *map_tracer(int fd, const geometry *g, bool poll, sg_error *error) {
	sg_tracer *t = calloc(1, sizeof *t);
	if (!t) {
		fail(error, "system", "no memory");
		return NULL;
	}
	size_t tasks_at = round_up(sizeof(process), LINE);
	*t = (sg_tracer){.size = *g, .fd = fd, .poll = poll, .private_bytes = round_up(tasks_at + g->slots * sizeof(sg_task), PAGE)};
	void *shared = mmap(NULL, file_bytes(g), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char *own = mmap(NULL, t->private_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* glibc of the year 2017 lacks the name. */
	const int wipe_on_fork = 18;
	if (shared == MAP_FAILED || own == MAP_FAILED || madvise(own, t->private_bytes, wipe_on_fork) != 0) {
		fail(error, "system", "cannot map the file, or memory that fork does not copy: %s", strerror(errno));
		if (shared != MAP_FAILED)
			munmap(shared, file_bytes(g));
		if (own != MAP_FAILED)
			munmap(own, t->private_bytes);
		free(t);
		return NULL;
	}
	t->memory = shared;
	t->live = (live_words *)(t->memory + FIXED);
	t->process = (process *)own;
	t->tasks = (sg_task *)(own + tasks_at);
	return t;
}

sg_tracer *sg_open(const sg_config *config, sg_error *error) {
	place here = {{0}, 0};
	geometry size;
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
	fail(error, "system", "this machine is big-endian; task files are little-endian");
	return NULL;
#endif
	if (!config || !config->path) {
		fail(error, "system", "no path; expected that of the task file, which is the engine's as well");
		return NULL;
	}
	if (find_place(&here, error) != 0)
		return NULL;
	int fd = open_or_create(config, &here, &size, error);
	if (fd < 0)
		return NULL;
	sg_tracer *t = map_tracer(fd, &size, config->poll, error);
	if (!t)
		close(fd);
	return t;
}

void sg_close(sg_tracer *t) {
	if (!t)
		return;
	if (atomic_load(&t->process->watching)) {
		atomic_store(&t->process->stop, true);
		knock(t->process);
		pthread_join(t->process->watcher, NULL);
	}
	munmap(t->memory, file_bytes(&t->size));
	munmap(t->process, t->private_bytes);
	close(t->fd);
	free(t);
}

/* ---- Names ---- */

/* Reads one character of UTF-8 and returns its length, 0 if there is none. */
static int decode(const unsigned char *s, size_t n, uint32_t *c) {
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	int length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
	if (length == 0 || (size_t)length > n)
		return 0;
	*c = length == 1 ? s[0] : s[0] & (0x7f >> length);
	for (int i = 1; i < length; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		*c = *c << 6 | (s[i] & 0x3f);
	}
	return *c < least[length] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) ? 0 : length;
}

static bool name_valid(const char *name, size_t n) {
	const unsigned char *s = (const unsigned char *)name;
	for (size_t at = 0; at < n;) {
		uint32_t c;
		int length = decode(s + at, n - at, &c);
		if (length == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
			return false;
		at += (size_t)length;
	}
	return n > 0;
}

/* The length to which a name is cut. */
static size_t name_length(const char *name) {
	size_t n = strnlen(name, LONGEST_NAME + 1);
	if (n <= LONGEST_NAME)
		return n;
	for (n = LONGEST_NAME; n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80;)
		n--;
	return n;
}

static bool name_is(name_words *e, const char *name, size_t n, uint64_t type) {
	return atomic_load_explicit(&e->state, memory_order_acquire) == NAME_READY && e->length == n && e->type == type && e->hash == fnv1a(name, n) &&
	       memcmp(e->text, name, n) == 0;
}

static uint64_t process_token(sg_tracer *t);

static int intern(sg_tracer *t, size_t offset, uint32_t entries, const char *name, uint64_t type) {
	size_t n = name_length(name);
	name_words *table = (name_words *)(t->memory + offset);
	if (!name_valid(name, n))
		return -1;
	for (uint32_t i = 0; i < entries; i++)
		if (name_is(&table[i], name, n, type))
			return (int)i;
	uint64_t token = process_token(t);
	for (uint32_t i = 0; token && i < entries; i++) {
		uint64_t free_entry = 0;
		name_words *e = &table[i];
		if (get(&e->state) != 0 || !atomic_compare_exchange_strong(&e->state, &free_entry, token))
			continue;
		e->type = type;
		e->hash = fnv1a(name, n);
		e->length = n;
		memset(e->text, 0, sizeof e->text);
		memcpy(e->text, name, n);
		put(&e->state, NAME_READY);
		return (int)i;
	}
	return -1;
}

int sg_resource(sg_tracer *t, const char *name, sg_resource_kind kind) {
	if (!t || !name || kind < SG_LOCK || kind > SG_SYSTEM)
		return -1;
	return intern(t, HEADER, t->size.resources, name, kind);
}

uint64_t sg_kind(sg_tracer *t, const char *name) {
	if (!t || !name)
		return 0;
	intern(t, kinds_offset(&t->size), t->size.kinds, name, 0);
	return fnv1a(name, name_length(name));
}

/* ---- Kinds that are kept out ---- */

/* Returns whether a kind is kept out at an instant. */
static bool kept_out(const sg_tracer *t, uint64_t kind, uint64_t now) {
	uint64_t n = get(&t->live->keeps);
	const keep_words *k = (const keep_words *)(t->memory + KEPT);
	for (uint64_t i = 0; i < n && i < MOST_KEPT; i++, k++) {
		uint64_t until = atomic_load_explicit(&k->until, memory_order_acquire); /* before the kind: the engine writes it last */
		if (until > now && until - now <= LONGEST_KEEP && get(&k->kind) == kind)
			return kind != 0;
	}
	return false;
}

bool sg_kept_out(sg_tracer *t, uint64_t kind) { return t && get(&t->live->keeps) != 0 && kept_out(t, kind, monotonic()); }

/* ---- Tasks ---- */

static void *watch(void *tracer);

static void start_watcher(sg_tracer *t) {
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's own */
	if (pthread_create(&t->process->watcher, NULL, watch, t) == 0)
		atomic_store(&t->process->watching, true);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Returns the token of this process. The first caller of a process, which may
 * be a child of fork, finds it and starts the watcher. */
static uint64_t process_token(sg_tracer *t) {
	process *p = t->process;
	uint64_t token = atomic_load_explicit(&p->token, memory_order_acquire);
	if (token)
		return token;
	int idle = 0;
	if (!atomic_compare_exchange_strong(&p->starting, &idle, 1)) {
		while (!(token = atomic_load_explicit(&p->token, memory_order_acquire)) && atomic_load(&p->starting))
			sched_yield();
		return token;
	}
	token = own_token();
	put(&p->token, token);
	if (!token)
		atomic_store(&p->starting, 0); /* /proc is not there: the next task tries again */
	else if (!t->poll)
		start_watcher(t);
	return token;
}

/* What a thread remembers; it is checked against the token because a child of
 * fork inherits it. */
static _Thread_local struct {
	uint64_t token, id;
	uint32_t next; /* where the search for a slot begins: at the last one */
} thread;

static void know_thread(sg_tracer *t, uint64_t token) {
	if (thread.token == token)
		return;
	thread.token = token;
	thread.id = (uint64_t)syscall(SYS_gettid);
	thread.next = atomic_fetch_add_explicit(&t->process->threads, 1, memory_order_relaxed);
}

static uint64_t now(const sg_tracer *t) {
	uint64_t clock = get(&t->live->clock);
	return (clock & MODE_BITS) == PRECISE ? monotonic() : clock & ~(uint64_t)MODE_BITS;
}

static uint64_t elapsed(uint64_t since, uint64_t until) { return (int64_t)(until - since) > 0 ? until - since : 0; }

/* How old the clock must be for a task that begins to move it. */
#define MOVED_AFTER UINT64_C(1000000)

/* The instant at which a task begins. If there is an engine, the clock is moved there, so that the engine need not wake up
 * for that. */
static uint64_t begins(sg_tracer *t) {
	uint64_t clock = get(&t->live->clock);
	if ((clock & MODE_BITS) == COARSE && get(&t->live->engine) == 0)
		return clock & ~(uint64_t)MODE_BITS;
	uint64_t present = monotonic();
	if (elapsed(get(&t->process->begun), present) >= MOVED_AFTER)
		put(&t->process->begun, present);
	if ((clock & MODE_BITS) == COARSE && elapsed(clock, present) >= MOVED_AFTER &&
	    atomic_compare_exchange_strong(&t->live->clock, &clock, (present & ~(uint64_t)MODE_BITS) | COARSE))
		atomic_fetch_add_explicit(&t->live->moves, 1, memory_order_relaxed);
	return present;
}

static void clear_cells(cell *cells, uint64_t touched, uint32_t resources) {
	for (uint32_t r = 0; r < resources; r++)
		if (touched >> r & 1)
			for (word *w = &cells[r].gets; w <= &cells[r].used; w++)
				put(w, 0);
}

/* Wakes the watcher if there are cancels that it has not seen. */
static void notice(sg_tracer *t) {
	uint64_t seen = get(&t->process->noticed), cancels = get(&t->live->cancels);
	if (cancels == seen || t->poll || !atomic_compare_exchange_strong(&t->process->noticed, &seen, cancels))
		return;
	knock(t->process);
}

/* Starts a task in a slot that was claimed. */
static sg_task *begin_in(sg_tracer *t, uint32_t index, const sg_info *info, uint64_t thread_id) {
	slot_words *w = slot_at(t, index);
	sg_task *task = &t->tasks[index];
	cell *cells = (cell *)((unsigned char *)w + SLOT_HEAD);
	clear_cells(cells, get(&w->touched), t->size.resources);
	put(&w->touched, 0);
	put(&w->shared, 0);
	put(&w->done, 0);
	put(&w->total, 0);
	uint64_t present = begins(t);
	put(&w->started, info->started ? info->started : present);
	put(&w->key, info->key);
	put(&w->kind, info->kind);
	put(&w->flags, info->flags);
	put(&w->thread, thread_id);
	uint64_t sequence = (get(&w->sequence) + 1) | 1;
	put(&w->sequence, sequence);
	task->cells = cells;
	task->words = w;
	task->tracer = t;
	task->touched = 0;
	task->sequence = sequence;
	task->resources = t->size.resources;
	task->index = index;
	task->cancel = info->cancel;
	task->arg = info->arg;
	put(&task->state, sequence << 2 | RUNNING);
	notice(t);
	return task;
}

sg_task *sg_begin(sg_tracer *t, const sg_info *info) {
	static const sg_info nothing;
	if (!t)
		return NULL;
	uint64_t mode = get(&t->live->clock) & MODE_BITS;
	if (mode != COARSE && mode != PRECISE)
		return NULL;
	uint64_t token = process_token(t);
	if (!token)
		return NULL;
	know_thread(t, token);
	for (uint32_t i = 0; i < t->size.slots; i++) {
		uint32_t index = (thread.next + i) % t->size.slots;
		uint64_t free_slot = 0;
		word *owner = &slot_at(t, index)->owner;
		if (get(owner) == 0 && atomic_compare_exchange_strong(owner, &free_slot, token)) {
			uint64_t none = 0;
			if (!atomic_compare_exchange_strong(&t->tasks[index].state, &none, BEGINNING))
				continue; /* somebody else freed a slot of ours */
			thread.next = index;
			return begin_in(t, index, info ? info : &nothing, thread.id);
		}
	}
	atomic_fetch_add_explicit(&t->live->untraced, 1, memory_order_relaxed);
	return NULL;
}

void sg_end(sg_task *task) {
	if (!task || !task->cells)
		return;
	uint64_t state = get(&task->state);
	do { /* the watcher may be calling cancel */
		while ((state & 3) == DELIVERING) {
			sched_yield();
			state = atomic_load_explicit(&task->state, memory_order_acquire);
		}
	} while (!atomic_compare_exchange_weak(&task->state, &state, task->sequence << 2 | CHANGING));
	slot_words *w = task->words;
	if (!(get(&w->flags) & SG_BACKGROUND) && get(&w->delivered) != task->sequence) {
		_Atomic uint32_t *counts = (_Atomic uint32_t *)(task->cells + task->resources);
		int i = latency(elapsed(get(&w->started), now(task->tracer)));
		atomic_store_explicit(&counts[i], atomic_load_explicit(&counts[i], memory_order_relaxed) + 1, memory_order_release);
		put(&w->finished, get(&w->finished) + 1);
	}
	put(&w->sequence, task->sequence + 1);
	task->cells = NULL;
	put(&task->state, 0);
	put(&w->owner, 0);
}

/* ---- Events ---- */

/* Returns the task's cell of a resource, null if there is none. */
static cell *cell_of(sg_task *task, int resource) {
	if (!task || !task->cells || (uint32_t)resource >= task->resources)
		return NULL;
	uint64_t bit = UINT64_C(1) << resource;
	if (!(task->touched & bit)) {
		task->touched |= bit;
		put(&task->words->touched, task->touched);
	}
	return &task->cells[resource];
}

void sg_acquire(sg_task *task, int resource, uint64_t units) {
	cell *c = cell_of(task, resource);
	if (!c)
		return;
	uint64_t used = get(&c->used);
	put(&c->gets, get(&c->gets) + units);
	if (used == 0)
		put(&c->held_since, now(task->tracer));
	put(&c->used, used + units);
}

void sg_release(sg_task *task, int resource, uint64_t units) {
	cell *c = cell_of(task, resource);
	if (!c)
		return;
	uint64_t used = get(&c->used);
	uint64_t left = used - (units < used ? units : used);
	if (left == 0 && used > 0) {
		uint64_t since = get(&c->held_since);
		put(&c->held_since, 0);
		uint64_t held = elapsed(since, now(task->tracer));
		if (held > 0) /* a store of what is there already would say nothing */
			put(&c->hold_time, get(&c->hold_time) + held);
	}
	put(&c->used, left);
	put(&c->frees, get(&c->frees) + units);
}

void sg_wait_begin(sg_task *task, int resource) {
	cell *c = cell_of(task, resource);
	if (c)
		put(&c->waiting_since, now(task->tracer));
}

static void end_wait(const sg_task *task, cell *c, uint64_t count) {
	uint64_t since = get(&c->waiting_since);
	if (since != 0) {
		put(&c->waiting_since, 0);
		uint64_t waited = elapsed(since, now(task->tracer));
		if (waited > 0)
			put(&c->wait_time, get(&c->wait_time) + waited);
	}
	put(&c->waits, get(&c->waits) + count);
}

void sg_wait_end(sg_task *task, int resource) {
	cell *c = cell_of(task, resource);
	if (c && get(&c->waiting_since) != 0)
		end_wait(task, c, 1);
}

void sg_evicted(sg_task *task, int resource, uint64_t units) {
	cell *c = cell_of(task, resource);
	if (c)
		end_wait(task, c, units);
}

void sg_waited(sg_task *task, int resource, uint64_t nanoseconds) {
	cell *c = cell_of(task, resource);
	if (!c)
		return;
	put(&c->wait_time, get(&c->wait_time) + nanoseconds);
	put(&c->waits, get(&c->waits) + 1);
}

void sg_set_shared(sg_task *task, int resource, bool shared) {
	if (!cell_of(task, resource))
		return;
	uint64_t old = get(&task->words->shared), bit = UINT64_C(1) << resource;
	uint64_t mask = shared ? old | bit : old & ~bit;
	if (mask != old)
		put(&task->words->shared, mask);
}

void sg_set_progress(sg_task *task, uint64_t done, uint64_t total) {
	if (!task || !task->cells)
		return;
	put(&task->words->total, total);
	put(&task->words->done, done);
}

void sg_set_flags(sg_task *task, uint64_t flags) {
	if (task && task->cells)
		put(&task->words->flags, flags);
}

/* ---- Cancels ---- */

uint64_t sg_cancelled(sg_task *task) {
	if (!task || !task->cells || atomic_load_explicit(&task->words->cancel, memory_order_acquire) != task->sequence)
		return 0;
	put(&task->words->delivered, task->sequence);
	return get(&task->words->reason);
}

/* Calls the cancel of a task if the engine asked for it. The state keeps sg_end
 * waiting meanwhile. */
static void deliver(sg_task *task, slot_words *w) {
	uint64_t state = atomic_load_explicit(&task->state, memory_order_acquire);
	uint64_t sequence = state >> 2;
	if ((state & 3) != RUNNING || atomic_load_explicit(&w->cancel, memory_order_acquire) != sequence)
		return;
	if (!atomic_compare_exchange_strong(&task->state, &state, sequence << 2 | DELIVERING))
		return; /* it has ended */
	if (task->cancel) {
		task->cancel(task->arg);
		put(&w->delivered, sequence);
	}
	put(&task->state, sequence << 2 | DELIVERED);
}

/* Puts private memory, whose mode is off, in place of a file that lost its
 * pages; else the next event would end the program. */
static bool lost(sg_tracer *t) {
	struct stat st;
	if (fstat(t->fd, &st) == 0 && (uint64_t)st.st_size == file_bytes(&t->size))
		return false;
	mmap(t->memory, file_bytes(&t->size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	atomic_store(&t->process->detached, true);
	return true;
}

/* How long the watcher sleeps: FORMAT.md asks for 20 ms or less, and each look wakes a thread; seldom in mode off, and while
 * tasks begin, which see a cancel first. Where tasks begin at random and one was seen to begin within BEGUN_LATELY, the next
 * seldom takes WATCH_EVERY. */
enum { WATCH_EVERY_MS = 16, WATCH_SELDOM_MS = 100, BEGUN_LATELY_MS = 4 };

static struct timespec watch_pause(const sg_tracer *t, bool again) {
	uint64_t mode = get(&t->live->clock) & MODE_BITS;
	bool seldom = (mode != COARSE && mode != PRECISE) || elapsed(get(&t->process->begun), monotonic()) < BEGUN_LATELY_MS * UINT64_C(1000000);
	return (struct timespec){0, (seldom && !again ? WATCH_SELDOM_MS : WATCH_EVERY_MS) * 1000 * 1000};
}

/* The watching thread. A task whose cancel comes while it begins is not in the
 * list yet, therefore each change is looked at twice. */
static void *watch(void *tracer) {
	sg_tracer *t = tracer;
	process *p = t->process;
	bool again = false;
	uint32_t knocks = 0;
	while (!atomic_load(&p->stop)) {
		struct timespec pause = watch_pause(t, again);
		await_knock(p, knocks, &pause);
		if (lost(t))
			break;
		uint32_t heard = atomic_load(&p->knocks);
		uint64_t cancels = atomic_load_explicit(&t->live->cancels, memory_order_acquire);
		bool changed = atomic_exchange(&p->noticed, cancels) != cancels || heard != knocks;
		knocks = heard;
		if (!changed && !again)
			continue;
		again = changed;
		for (uint32_t i = 0; i < t->size.slots; i++)
			deliver(&t->tasks[i], slot_at(t, i));
	}
	return NULL;
}

/* ---- Helpers ---- */

/* How long a wait goes on before it looks for its cancel. */
enum { PATIENCE_NS = 20 * 1000 * 1000 };

static struct timespec soon(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_nsec += PATIENCE_NS;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

int sg_mutex_init(sg_mutex *m, sg_tracer *t, const char *name) {
	m->resource = sg_resource(t, name, SG_LOCK);
	return pthread_mutex_init(&m->lock, NULL);
}

int sg_mutex_lock(sg_mutex *m, sg_task *task) {
	int result = pthread_mutex_trylock(&m->lock);
	if (result == EBUSY) {
		sg_wait_begin(task, m->resource);
		do {
			struct timespec until = soon(CLOCK_REALTIME);
			result = pthread_mutex_timedlock(&m->lock, &until);
		} while (result == ETIMEDOUT && !sg_cancelled(task));
		sg_wait_end(task, m->resource);
		if (result == ETIMEDOUT)
			result = ECANCELED;
	}
	if (result == 0)
		sg_acquire(task, m->resource, 1);
	return result;
}

int sg_mutex_unlock(sg_mutex *m, sg_task *task) {
	sg_release(task, m->resource, 1);
	return pthread_mutex_unlock(&m->lock);
}

int sg_mutex_destroy(sg_mutex *m) { return pthread_mutex_destroy(&m->lock); }

static int condition_init(pthread_cond_t *condition) {
	pthread_condattr_t attributes;
	int result = pthread_condattr_init(&attributes);
	if (result != 0)
		return result;
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	result = pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
	return result;
}

static int monitor_init(pthread_mutex_t *lock, pthread_cond_t *condition) {
	int result = condition_init(condition);
	return result != 0 ? result : pthread_mutex_init(lock, NULL);
}

/* Waits for a change; 0: look again, ECANCELED: the task is cancelled. It asks
 * each time: where something changes all the time no wait lasts. */
static int monitor_wait(pthread_mutex_t *lock, pthread_cond_t *condition, sg_task *task) {
	struct timespec until = soon(CLOCK_MONOTONIC);
	pthread_cond_timedwait(condition, lock, &until);
	return sg_cancelled(task) ? ECANCELED : 0;
}

/* The place of one that waits for units, in its own frame. Each is called by
 * itself: a call to all would wake the whole line for each that leaves it. */
struct sg_place {
	struct sg_place *next;
	pthread_cond_t called;
};

/* Has the first in line look whether enough is free. The lock is held. */
static void call_first(sg_pool *p) {
	if (p->first)
		pthread_cond_signal(&p->first->called);
}

int sg_pool_init(sg_pool *p, sg_tracer *t, const char *name, uint64_t units) {
	*p = (sg_pool){.free = units, .resource = sg_resource(t, name, SG_QUEUE)};
	return pthread_mutex_init(&p->lock, NULL);
}

/* Waits in line until it is the first and enough is free. */
static int await_turn(sg_pool *p, sg_task *task, uint64_t units) {
	struct sg_place mine = {.next = NULL}, **at = &p->first;
	int result = condition_init(&mine.called);
	if (result != 0)
		return result;
	while (*at)
		at = &(*at)->next;
	*at = &mine;
	sg_wait_begin(task, p->resource);
	while ((p->first != &mine || p->free < units) && result == 0)
		result = monitor_wait(&p->lock, &mine.called, task);
	sg_wait_end(task, p->resource);
	if (p->first == &mine && p->free >= units)
		result = 0;
	for (at = &p->first; *at != &mine;)
		at = &(*at)->next;
	*at = mine.next;
	pthread_cond_destroy(&mine.called);
	call_first(p);
	return result;
}

/* Takes units, of which it records count. */
static int enter(sg_pool *p, sg_task *task, uint64_t units, uint64_t count) {
	int result = pthread_mutex_lock(&p->lock);
	if (result != 0)
		return result;
	if (p->first || p->free < units)
		result = await_turn(p, task, units);
	if (result == 0) {
		p->free -= units;
		sg_acquire(task, p->resource, count);
	}
	pthread_mutex_unlock(&p->lock);
	return result;
}

static int leave(sg_pool *p, sg_task *task, uint64_t units, uint64_t count) {
	sg_release(task, p->resource, count);
	int result = pthread_mutex_lock(&p->lock);
	if (result != 0)
		return result;
	p->free += units;
	call_first(p);
	return pthread_mutex_unlock(&p->lock);
}

int sg_pool_acquire(sg_pool *p, sg_task *task, uint64_t units) { return enter(p, task, units, units); }

int sg_pool_release(sg_pool *p, sg_task *task, uint64_t units) { return leave(p, task, units, units); }

int sg_pool_destroy(sg_pool *p) { return pthread_mutex_destroy(&p->lock); }

/* How many may hold an rwlock at once. */
enum { READERS = 1 << 30 };

int sg_rwlock_init(sg_rwlock *l, sg_tracer *t, const char *name) {
	l->writing = false;
	l->readers = (sg_pool){.free = READERS, .resource = sg_resource(t, name, SG_LOCK)};
	return pthread_mutex_init(&l->readers.lock, NULL);
}

int sg_rwlock_rdlock(sg_rwlock *l, sg_task *task) {
	sg_set_shared(task, l->readers.resource, true);
	return enter(&l->readers, task, 1, 1);
}

int sg_rwlock_wrlock(sg_rwlock *l, sg_task *task) {
	sg_set_shared(task, l->readers.resource, false);
	int result = enter(&l->readers, task, READERS, 1);
	if (result == 0)
		l->writing = true; /* nobody else has it */
	return result;
}

int sg_rwlock_unlock(sg_rwlock *l, sg_task *task) {
	uint64_t units = 1;
	if (l->writing) {
		l->writing = false;
		units = READERS;
	}
	return leave(&l->readers, task, units, 1);
}

int sg_rwlock_destroy(sg_rwlock *l) { return sg_pool_destroy(&l->readers); }

int sg_queue_init(sg_queue *q, sg_tracer *t, const char *name, sg_item *items, size_t size) {
	*q = (sg_queue){.items = items, .size = size, .resource = sg_resource(t, name, SG_QUEUE)};
	return size == 0 ? EINVAL : monitor_init(&q->lock, &q->changed);
}

int sg_queue_put(sg_queue *q, sg_task *task, void *value) {
	int result = pthread_mutex_lock(&q->lock);
	if (result != 0)
		return result;
	if (q->count == q->size && !q->closed) {
		sg_wait_begin(task, q->resource);
		while (q->count == q->size && !q->closed && result == 0)
			result = monitor_wait(&q->lock, &q->changed, task);
		sg_wait_end(task, q->resource);
	}
	if (q->closed) {
		result = EPIPE;
	} else if (q->count < q->size) {
		q->items[(q->first + q->count++) % q->size] = (sg_item){value, monotonic()};
		pthread_cond_broadcast(&q->changed);
		result = 0;
	}
	pthread_mutex_unlock(&q->lock);
	return result;
}

int sg_queue_take(sg_queue *q, sg_item *item) {
	int result = pthread_mutex_lock(&q->lock);
	if (result != 0)
		return result;
	while (q->count == 0 && !q->closed)
		pthread_cond_wait(&q->changed, &q->lock);
	if (q->count == 0) {
		result = EPIPE;
	} else {
		*item = q->items[q->first];
		q->first = (q->first + 1) % q->size;
		q->count--;
		pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return result;
}

sg_task *sg_queue_begin(sg_queue *q, sg_tracer *t, const sg_info *info, const sg_item *item) {
	sg_info came = info ? *info : (sg_info){0};
	came.started = item->came;
	sg_task *task = sg_begin(t, &came);
	if (task) {
		sg_waited(task, q->resource, elapsed(item->came, now(t)));
		sg_acquire(task, q->resource, 1);
	}
	return task;
}

void sg_queue_close(sg_queue *q) {
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

int sg_queue_destroy(sg_queue *q) {
	pthread_cond_destroy(&q->changed);
	return pthread_mutex_destroy(&q->lock);
}

void sg_cache_init(sg_cache *c, sg_tracer *t, const char *name) { c->resource = sg_resource(t, name, SG_MEMORY); }

void sg_cache_miss(const sg_cache *c, sg_task *task) { sg_wait_begin(task, c->resource); }

void sg_cache_filled(const sg_cache *c, sg_task *task, uint64_t units, uint64_t displaced) {
	sg_evicted(task, c->resource, displaced);
	sg_acquire(task, c->resource, units);
}

void sg_cache_freed(const sg_cache *c, sg_task *task, uint64_t units) { sg_release(task, c->resource, units); }
