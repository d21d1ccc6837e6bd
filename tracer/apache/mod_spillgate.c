/* Apache httpd, as tasks: tells an engine in another process which request holds
 * which worker and how long it waited for one, and cancels the request that the
 * engine names.
 *
 *   LoadModule spillgate_module modules/mod_spillgate.so
 *   SpillgateTaskFile /run/spillgate/apache.tasks
 *
 *   accept ─▶ "(reading)" ─▶ request ─▶ "(keep-alive)" ─▶ request ─▶ …
 *             a task each, which holds one of "workers (8)" (MPM prefork, of 8)
 *
 * The task file is tracer/FORMAT.md's. While no engine asks for tasks, a request
 * costs a look at one word, and no thread runs.
 *
 * A cancel, under prefork, where a process serves one request at a time:
 *
 *   1. The client gets 503 with Retry-After if nothing was answered yet, and its
 *      connection is shut.
 *   2. What else the process has connected since it was forked is shut as well:
 *      the handler waits for an answer there. What it has started, a CGI program
 *      with all that this has started, gets SIGTERM. A PHP script is ended as its
 *      own time limit would end it.
 *   3. What is left of those programs after GRACE_MS gets SIGKILL, and a request
 *      that goes on all the same ends with its process, which httpd replaces.
 *
 * Invariants:
 *   - A cancel reaches the request that the engine named or none: the thread that
 *     acts keeps the end of the request waiting while it does.
 *   - A connection that was inherited from the parent is never shut, so no other
 *     process notices.
 *   - Whatever happens to the task file or to its engine, requests are served.
 *   - A signal reaches a program that the request has started, or none: the number
 *     of one that has ended may be another's.
 *
 *   - A request of a kind that the engine keeps out is answered 503 as soon as its
 *     headers are read, under any MPM. It takes the worker for no longer than that,
 *     whatever ErrorDocument says.
 *   - A page that httpd serves in place of a request that it could not read, as
 *     ErrorDocument says, is a task of its own.
 *
 * What this module does not do: it decides nothing. Under a threaded MPM it cancels
 * nothing: what a process has connected there belongs to many requests. Linux
 * only, as the tracer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <ap_mmn.h>
#include <ap_mpm.h>
#include <apr_optional.h>
#include <apr_portable.h>
#include <apr_strings.h>
#include <http_config.h>
#include <http_connection.h>
#include <http_core.h>
#include <http_log.h>
#include <http_protocol.h>
#include <http_request.h>
#include <httpd.h>
#include <mpm_common.h>

#include "spillgate_tracer.h"

#ifndef SYS_pidfd_open /* in headers from before Linux 5.3; of every architecture but Alpha */
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

extern __attribute__((visibility("default"))) module AP_MODULE_DECLARE_DATA spillgate_module;

APR_DECLARE_OPTIONAL_FN(int, ssl_is_https, (conn_rec *));

/* A test that nothing is ended by force has a longer one: programs on a busy machine end later. */
#ifndef SPILLGATE_GRACE_MS
#define SPILLGATE_GRACE_MS 500
#endif

enum {
	IDLE_MS = 100, /* between two looks of the watching thread; a younger request is not cancelled */
	LONG_MS = 10,  /* while a request lasts longer than that */
	GRACE_MS = SPILLGATE_GRACE_MS,
	MOST_INHERITED = 1024, /* descriptors of the parent; with more, connections are left alone */
	MOST_SEGMENTS = 6,     /* of a path in the name of a kind; as package httpgate has it */
	MOST_SEGMENT = 40,
	MOST_PROGRAMS = 256,   /* of a request; with more, the others are left alone */
	KNOWN = 256,
	STACK = 256 * 1024
};

/* ---- The process ---- */

static sg_tracer *tracer; /* of the parent, mapped by every child */
static int workers = -1;
static int file = -1; /* the task file, to see whether it keeps its size */
static off_t file_size;
static bool threaded;
static APR_OPTIONAL_FN_TYPE(ssl_is_https) * is_https;

/* Whether something was sent to the client, or the watching thread refused. */
enum { UNANSWERED, ANSWERED, REFUSED };

/* A visit is one task: a request, or a connection that has none at present. */
typedef struct {
	sg_task *task;
	server_rec *server;
	int client; /* descriptor */
	_Atomic int answer;
	_Atomic bool php;
	uint64_t began, cancelled; /* CLOCK_MONOTONIC, 0 if it was not */
	char name[96];
} visit;

/* What a child does now. The thread that watches acts only between RUNNING and
 * RUNNING, and whoever ends a visit waits for that. No lock: prefork ends a
 * process from within a signal's handler. */
enum { NOTHING, RUNNING, ACTING };

static struct {
	_Atomic int state;
	visit *_Atomic now;
	_Atomic bool stop;
	bool watching;
	int wake; /* eventfd */
	pthread_t watcher, main;
	uint64_t terminated; /* when the programs of a request got SIGTERM, CLOCK_MONOTONIC, 0 if none did; the watching thread's own */
	bool too_many;
	int inherited_count;
	struct {
		int fd;
		ino_t inode;
	} inherited[MOST_INHERITED];
} child;

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Reports whether the task file can be used. Of one that was truncated, the next
 * event would end the process: it is asked, for a fifth of a microsecond, before
 * each of them. */
static bool intact(void) {
	struct stat st;
	return tracer && workers >= 0 && fstat(file, &st) == 0 && st.st_size == file_size;
}

/* ---- Names of kinds ---- */

/* Reports whether a segment of a path names one thing among many: a number, an
 * identifier, something long or unprintable. */
static bool one_of_many(const char *s, size_t n) {
	size_t digits = 0, letters = 0;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c >= '0' && c <= '9')
			digits++;
		else if (c <= ' ' || c > '~')
			return true;
		else if ((c | 32) >= 'a' && (c | 32) <= 'z')
			letters++;
	}
	return n > MOST_SEGMENT || (digits > 0 && letters == 0) || digits >= 3;
}

static size_t add(char *to, size_t at, size_t size, const char *s, size_t n) {
	if (n > size - 1 - at)
		n = size - 1 - at;
	memcpy(to + at, s, n);
	to[at + n] = 0;
	return at + n;
}

/* Writes the method, the path with a star for each thing among many, and the name
 * of a virtual host. */
static void name_request(const request_rec *r, char *to, size_t size) {
	size_t at = add(to, 0, size, r->method, strnlen(r->method, 16));
	at = add(to, at, size, " ", 1);
	const char *s = r->uri && r->uri[0] ? r->uri : "*";
	if (s[0] != '/')
		at = add(to, at, size, "*", 1);
	for (int n = 0; *s == '/';) {
		const char *end = strchrnul(++s, '/');
		if (++n > MOST_SEGMENTS) {
			at = add(to, at, size, "/*", 2);
			break;
		}
		at = add(to, at, size, "/", 1);
		at = one_of_many(s, (size_t)(end - s)) ? add(to, at, size, "*", 1) : add(to, at, size, s, (size_t)(end - s));
		s = end;
	}
	if (r->server->is_virtual && r->server->server_hostname) {
		at = add(to, at, size, " ", 1);
		add(to, at, size, r->server->server_hostname, strlen(r->server->server_hostname));
	}
}

/* Returns the fingerprint of a kind. The table of names is searched once for
 * each, because clients make up paths. */
static uint64_t kind_of(const char *name) {
	static _Atomic uint64_t known[KNOWN];
	uint64_t h = UINT64_C(14695981039346656037);
	for (const unsigned char *p = (const unsigned char *)name; *p; p++)
		h = (h ^ *p) * UINT64_C(1099511628211);
	_Atomic uint64_t *place = &known[h % KNOWN];
	if (atomic_load_explicit(place, memory_order_relaxed) != h) {
		sg_kind(tracer, name);
		atomic_store_explicit(place, h, memory_order_relaxed);
	}
	return h;
}

/* ---- Cancels ---- */

static const char refusal[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nCache-Control: no-store\r\n"
                              "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 65\r\n\r\n"
                              "cancelled: this request kept others from being served; try later\n";

/* Remembers what the child got from its parent. */
static void remember_inherited(void) {
	child.inherited_count = 0;
	DIR *dir = opendir("/proc/self/fd");
	child.too_many = dir == NULL;
	for (struct dirent *e; dir && (e = readdir(dir));) {
		int fd = atoi(e->d_name);
		struct stat st;
		if (e->d_name[0] == '.' || fd == dirfd(dir) || fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode))
			continue;
		if (child.inherited_count == MOST_INHERITED) {
			child.too_many = true;
			break;
		}
		child.inherited[child.inherited_count].fd = fd;
		child.inherited[child.inherited_count++].inode = st.st_ino;
	}
	if (dir)
		closedir(dir);
}

static bool inherited(ino_t inode) {
	for (int i = 0; i < child.inherited_count; i++)
		if (child.inherited[i].inode == inode)
			return true;
	return false;
}

/* Shuts the streams that this child has connected itself, but for the client's. */
static void shut_connections(int client) {
	DIR *dir = child.too_many ? NULL : opendir("/proc/self/fd");
	for (struct dirent *e; dir && (e = readdir(dir));) {
		int fd = atoi(e->d_name), type = 0, listens = 1;
		socklen_t n = sizeof type, m = sizeof listens;
		struct stat st;
		if (e->d_name[0] == '.' || fd == client || fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode) || inherited(st.st_ino))
			continue;
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &m) == 0 && !listens)
			shutdown(fd, SHUT_RDWR);
	}
	if (dir)
		closedir(dir);
}

/* The programs of a cancelled request, by descriptors of their processes: such a
 * descriptor never stands for another process. The watching thread's own. */
static struct {
	int count;
	struct {
		int fd;
		pid_t pid;
	} program[MOST_PROGRAMS];
} family;

/* Returns the parent of a process, -1 if there is none. */
static pid_t parent_of(pid_t pid) {
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	const char *end = strrchr(text, ')'); /* of the name, which may have any characters */
	int parent = -1;
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

static bool in_family(pid_t pid) {
	for (int i = 0; i < family.count; i++)
		if (family.program[i].pid == pid)
			return true;
	return false;
}

/* Enters a child of one that is held, or of this process. The number was read
 * before the descriptor was opened, so it is asked again whose child it is. Before
 * Linux 5.3, and in containers that forbid what they do not know, there are no such
 * descriptors, and children of this process get the signal at once. */
static void adopt(pid_t pid, pid_t parent, int signal) {
	if (pid <= 1 || family.count == MOST_PROGRAMS || in_family(pid))
		return;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0) {
		if ((errno == ENOSYS || errno == EPERM) && parent == getpid())
			kill(pid, signal);
		return;
	}
	if (parent_of(pid) != parent) {
		close(fd);
		return;
	}
	family.program[family.count].fd = fd;
	family.program[family.count++].pid = pid;
}

/* Enters the children of a process, of all of its threads. */
static void adopt_children(pid_t parent, int signal) {
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, atoi(e->d_name));
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = 0;
		for (char *at = text, *end;; at = end) {
			long pid = strtol(at, &end, 10);
			if (end == at || *end != ' ') /* the last number may be cut off */
				break;
			adopt((pid_t)pid, parent, signal);
		}
	}
	if (dir)
		closedir(dir);
}

/* Reports whether a process that is held has not ended, so that its number is its own. */
static bool there(int fd) { return syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0 || errno == EPERM; }

/* Signals what the handler has started and what that has started in turn, as far
 * as it has not ended, and remembers it: once a program has ended, its children are
 * another process's. Under prefork all children of the process are of the one
 * request that it serves, and httpd ends them with it, but not theirs. */
static void signal_programs(int signal) {
	adopt_children(getpid(), signal);
	for (int i = 0; i < family.count; i++) { /* grows meanwhile */
		int before = family.count;
		adopt_children(family.program[i].pid, signal);
		if (!there(family.program[i].fd)) /* its number may have been another's since */
			while (family.count > before)
				close(family.program[--family.count].fd);
	}
	for (int i = 0; i < family.count; i++)
		syscall(SYS_pidfd_send_signal, family.program[i].fd, signal, NULL, 0);
}

/* Lets go of them. */
static void forget_programs(void) {
	while (family.count > 0)
		close(family.program[--family.count].fd);
}

/* Ends a PHP script as its time limit does: PHP handles SIGPROF, which it does
 * not need to be told of a limit for. */
static void end_script(void) {
	struct sigaction action;
	Dl_info where;
	if (sigaction(SIGPROF, NULL, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
		return;
	if (dladdr((void *)(uintptr_t)action.sa_sigaction, &where) && where.dli_fname && strstr(where.dli_fname, "libphp"))
		pthread_kill(child.main, SIGPROF);
}

/* Does what a cancel does at once. */
static void cancel(visit *v) {
	int none = UNANSWERED;
	if (atomic_compare_exchange_strong(&v->answer, &none, REFUSED))
		(void)!send(v->client, refusal, sizeof refusal - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(v->client, SHUT_RDWR);
	shut_connections(v->client);
	signal_programs(SIGTERM);
	child.terminated = now_ns();
	if (atomic_load(&v->php))
		end_script();
	v->cancelled = now_ns();
}

/* Ends the process with the request that did not end. */
static void end_process(void) {
	static const char text[] = "spillgate: a cancelled request did not end; its process is ended and will be replaced\n";
	(void)!write(STDERR_FILENO, text, sizeof text - 1);
	signal_programs(SIGKILL);
	_exit(0);
}

/* Ends what is left of the programs of a cancelled request, whether or not that has
 * ended itself. */
static void end_programs(void) {
	if (child.terminated == 0 || now_ns() - child.terminated < GRACE_MS * UINT64_C(1000000))
		return;
	for (int i = 0; i < family.count; i++)
		syscall(SYS_pidfd_send_signal, family.program[i].fd, SIGKILL, NULL, 0);
	forget_programs();
	child.terminated = 0;
}

/* Looks once. Returns in how many milliseconds to look again. */
static int look(const visit **before) {
	int running = RUNNING, next = IDLE_MS;
	if (!atomic_compare_exchange_strong(&child.state, &running, ACTING)) {
		*before = NULL;
		return next;
	}
	visit *v = atomic_load(&child.now);
	if (v->cancelled) {
		if (now_ns() - v->cancelled > GRACE_MS * UINT64_C(1000000))
			end_process();
		next = LONG_MS;
	} else if (intact() && sg_cancelled(v->task)) {
		cancel(v);
		next = LONG_MS;
	} else if (v == *before) {
		next = LONG_MS;
	}
	*before = v;
	atomic_store(&child.state, RUNNING);
	return next;
}

static void *watch(void *arg) {
	(void)arg;
	const visit *before = NULL; /* compared alone: a new visit at the same place is looked at more often, no harm */
	struct pollfd wake = {child.wake, POLLIN, 0};
	for (int next = IDLE_MS; !atomic_load(&child.stop);) {
		poll(&wake, 1, next);
		next = look(&before);
		end_programs();
	}
	for (int i = 0; i < family.count; i++) /* the process ends before their time is over */
		syscall(SYS_pidfd_send_signal, family.program[i].fd, SIGKILL, NULL, 0);
	forget_programs();
	return NULL;
}

/* Starts the watching thread, with the first task. */
static void start_watching(void) {
	if (child.watching || threaded)
		return;
	pthread_attr_t attributes;
	sigset_t all, old;
	if ((child.wake = eventfd(0, EFD_CLOEXEC)) < 0 || pthread_attr_init(&attributes) != 0)
		return;
	pthread_attr_setstacksize(&attributes, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are httpd's own */
	child.main = pthread_self();
	child.watching = pthread_create(&child.watcher, &attributes, watch, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
	if (!child.watching)
		close(child.wake);
}

/* The code of a module goes before its threads do, unless they are ended. */
static apr_status_t stop_watching(void *arg) {
	(void)arg;
	if (!child.watching)
		return APR_SUCCESS;
	atomic_store(&child.stop, true);
	uint64_t one = 1;
	(void)!write(child.wake, &one, sizeof one);
	pthread_join(child.watcher, NULL);
	close(child.wake);
	child.watching = false;
	return APR_SUCCESS;
}

/* ---- Tasks ---- */

/* Packs what identifies the client: port, and the address if it is IPv4. */
static uint64_t client_key(const conn_rec *c) {
	const apr_sockaddr_t *a = c->client_addr;
	if (!a)
		return 0;
	uint64_t key = (uint64_t)a->port & 0xffff;
	if (a->family == APR_INET)
		key |= (uint64_t)ntohl(a->sa.sin.sin_addr.s_addr) << 16;
	return key;
}

/* What is known of a connection. */
typedef struct {
	int client;      /* descriptor, -1 if there is none */
	uint64_t waited; /* in the accept queue, of the first request */
	visit idle;
} acquaintance;

static acquaintance *acquaintance_of(const conn_rec *c) { return ap_get_module_config(c->conn_config, &spillgate_module); }

/* Waits until the watching thread does not act, and has it act on nothing. */
static void rest(void) {
	int running = RUNNING;
	while (!atomic_compare_exchange_strong(&child.state, &running, NOTHING) && running == ACTING) {
		running = RUNNING;
		sched_yield();
	}
	atomic_store(&child.now, NULL);
}

static apr_status_t end_visit(void *arg) {
	visit *v = arg;
	if (!threaded && atomic_load(&child.now) == v)
		rest();
	if (v->task && intact())
		sg_end(v->task);
	v->task = NULL;
	return APR_SUCCESS;
}

/* Begins a task that holds a worker. Waited is what it waited for one. */
static bool begin_visit(visit *v, conn_rec *c, uint64_t flags, uint64_t waited) {
	v->began = now_ns();
	const acquaintance *a = acquaintance_of(c); /* none: of HTTP/2, which has many requests on a connection */
	v->client = a ? a->client : -1;
	if (!intact())
		return false;
	bool fixed = threaded || v->client < 0;
	sg_info info = {.key = client_key(c), .kind = kind_of(v->name), .flags = flags | (fixed ? SG_BARRED : 0), .started = v->began - waited};
	if (!(v->task = sg_begin(tracer, &info)))
		return false;
	if (waited)
		sg_waited(v->task, workers, waited);
	sg_acquire(v->task, workers, 1);
	if (!threaded) {
		start_watching();
		rest(); /* of a request before on the same connection, whose answer httpd still keeps */
		atomic_store(&child.now, v);
		atomic_store(&child.state, RUNNING);
	}
	return true;
}

/* Returns for how long a connection that was just accepted had lain there with
 * its request, to a tick of the kernel. */
static uint64_t in_accept_queue(int fd) {
	struct tcp_info info;
	socklen_t n = sizeof info;
	if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 || n < offsetof(struct tcp_info, tcpi_last_ack_recv))
		return 0;
	return (uint64_t)info.tcpi_last_data_recv * 1000000u;
}

/* The worker belongs to a connection that has no request. */
static void begin_idle(conn_rec *c, acquaintance *a, const char *name, uint64_t flags) {
	if (threaded || atomic_load(&child.now))
		return;
	a->idle = (visit){.server = c->base_server, .answer = ANSWERED};
	apr_cpystrn(a->idle.name, name, sizeof a->idle.name);
	begin_visit(&a->idle, c, SG_BACKGROUND | flags, 0);
}

static apr_status_t end_idle(void *arg) {
	acquaintance *a = arg;
	if (a->idle.task)
		end_visit(&a->idle);
	return APR_SUCCESS;
}

/* Reports whether a connection is one of mod_proxy's to a server. Before 2.4.49
 * none says so, and it begins no task all the same: the worker has one. */
static bool outgoing(const conn_rec *c) {
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 116)
	return c->outgoing;
#else
	(void)c;
	return false;
#endif
}

static int pre_connection(conn_rec *c, void *socket) {
	if (!tracer || c->master || workers < 0 || outgoing(c))
		return DECLINED;
	acquaintance *a = apr_pcalloc(c->pool, sizeof *a);
	apr_os_sock_t fd = -1; /* httpd tells it by ap_get_conn_socket only after this hook */
	a->client = socket && apr_os_sock_get(&fd, socket) == APR_SUCCESS ? fd : -1;
	a->waited = in_accept_queue(a->client);
	ap_set_module_config(c->conn_config, &spillgate_module, a);
	apr_pool_cleanup_register(c->pool, a, end_idle, apr_pool_cleanup_null);
	begin_idle(c, a, "(reading)", 0);
	return DECLINED;
}

/* A request's own state. */
typedef struct {
	visit visit;
	conn_rec *connection;
} stay;

static apr_status_t end_request(void *arg) {
	stay *s = arg;
	visit *v = &s->visit;
	acquaintance *a = acquaintance_of(s->connection);
	end_visit(v);
	if (v->cancelled)
		ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, v->server, "cancelled as a culprit after %" APR_UINT64_T_FMT " ms: %s", (apr_uint64_t)((v->cancelled - v->began) / 1000000), v->name);
	else if (a && s->connection->keepalive == AP_CONN_KEEPALIVE && !s->connection->aborted)
		begin_idle(s->connection, a, "(keep-alive)", SG_IDLE);
	return APR_SUCCESS;
}

/* Refuses a request of a kind that is kept out. Its connection ends with it, because
 * a client that tries again at once would hold the worker in between. The text comes
 * before any ErrorDocument: a script there would hold the worker as well. */
static int refuse(request_rec *r) {
	ap_custom_response(r, HTTP_SERVICE_UNAVAILABLE, "a request of this kind kept others from being served; try later\n");
	apr_table_setn(r->err_headers_out, "Retry-After", "1");
	apr_table_setn(r->err_headers_out, "Cache-Control", "no-store");
	apr_table_setn(r->err_headers_out, "Spillgate-Cause", "a request of this kind kept others from a worker");
	r->connection->keepalive = AP_CONN_CLOSE;
	return HTTP_SERVICE_UNAVAILABLE;
}

/* Returns the request that the client sent. */
static request_rec *sent(request_rec *r) {
	while (r->main || r->prev)
		r = r->main ? r->main : r->prev;
	return r;
}

static stay *stay_of(request_rec *r) { return ap_get_module_config(sent(r)->request_config, &spillgate_module); }

static int post_read_request(request_rec *r) {
	if (!tracer || workers < 0 || (r->prev && stay_of(r))) /* httpd redirected it within itself, as mod_rewrite and ErrorDocument do: it is the same request */
		return DECLINED;
	char name[sizeof((visit *)0)->name];
	name_request(r, name, sizeof name);
	if (!r->prev && intact() && sg_kept_out(tracer, kind_of(name)))
		return refuse(r);
	acquaintance *a = acquaintance_of(r->connection);
	uint64_t waited = 0;
	if (a) {
		end_idle(a);
		waited = a->waited;
		a->waited = 0;
	}
	stay *s = apr_pcalloc(r->pool, sizeof *s);
	s->connection = r->connection;
	s->visit.server = r->server;
	/* What waits behind an earlier answer, or is encrypted, is sent by httpd alone. */
	bool plain = !r->connection->data_in_output_filters && !(is_https && is_https(r->connection));
	s->visit.answer = plain ? UNANSWERED : ANSWERED;
	memcpy(s->visit.name, name, sizeof name);
	bool dummy = r->method_number == M_OPTIONS && r->uri && strcmp(r->uri, "*") == 0; /* httpd's to itself */
	if (!begin_visit(&s->visit, r->connection, dummy ? SG_BACKGROUND : 0, waited))
		return DECLINED;
	ap_set_module_config(sent(r)->request_config, &spillgate_module, s);
	apr_pool_cleanup_register(r->pool, s, end_request, apr_pool_cleanup_null);
	ap_add_output_filter("SPILLGATE", s, r, r->connection);
	return DECLINED;
}

/* Runs when it is known which handler a request has. */
static int fixups(request_rec *r) {
	stay *s = tracer && !r->main ? stay_of(r) : NULL;
	if (s)
		atomic_store(&s->visit.php, r->handler && strstr(r->handler, "php"));
	return DECLINED;
}

/* The first bytes of an answer: either httpd's or those of the cancel. */
static apr_status_t answer(ap_filter_t *f, apr_bucket_brigade *brigade) {
	stay *s = f->ctx;
	int none = UNANSWERED;
	atomic_compare_exchange_strong(&s->visit.answer, &none, ANSWERED);
	if (atomic_load(&s->visit.answer) == REFUSED) {
		f->c->aborted = 1;
		apr_brigade_cleanup(brigade);
		return APR_ECONNABORTED;
	}
	ap_remove_output_filter(f);
	return ap_pass_brigade(f->next, brigade);
}

/* ---- The server ---- */

typedef struct {
	const char *path;
} settings;

static void *create_settings(apr_pool_t *pool, server_rec *s) {
	(void)s;
	return apr_pcalloc(pool, sizeof(settings));
}

static const char *set_path(cmd_parms *cmd, void *dir, const char *path) {
	(void)dir;
	const char *wrong = ap_check_cmd_context(cmd, GLOBAL_ONLY);
	if (wrong)
		return wrong;
	settings *all = ap_get_module_config(cmd->server->module_config, &spillgate_module);
	all->path = ap_server_root_relative(cmd->pool, path);
	return all->path ? NULL : apr_pstrcat(cmd->pool, "SpillgateTaskFile: \"", path, "\" is no path, expected one such as /run/spillgate/apache.tasks", NULL);
}

static apr_status_t close_tracer(void *arg) {
	(void)arg;
	sg_close(tracer);
	close(file);
	tracer = NULL;
	file = -1;
	workers = -1;
	return APR_SUCCESS;
}

/* Opens the task file, once for all children. Without it requests are served. */
static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s) {
	(void)plog, (void)ptemp;
	const settings *all = ap_get_module_config(s->module_config, &spillgate_module);
	is_https = APR_RETRIEVE_OPTIONAL_FN(ssl_is_https);
	if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG || !all->path)
		return OK;
	int daemons = 0, threads = 0, is_threaded = 0;
	ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &daemons);
	ap_mpm_query(AP_MPMQ_HARD_LIMIT_THREADS, &threads);
	ap_mpm_query(AP_MPMQ_IS_THREADED, &is_threaded);
	threaded = is_threaded != AP_MPMQ_NOT_SUPPORTED;
	apr_uint64_t slots = (apr_uint64_t)(daemons > 1 ? daemons : 1) * (apr_uint64_t)(threads > 1 ? threads : 1);
	sg_config config = {.path = all->path, .slots = (uint32_t)(slots < 65536 ? slots : 65536), .resources = 16, .poll = true};
	sg_error error;
	if (!(tracer = sg_open(&config, &error))) {
		ap_log_error(APLOG_MARK, APLOG_ERR, 0, s, "the task file is not used (%s), nothing is traced: %s: %s", error.word, all->path, error.text);
		return OK;
	}
	struct stat st;
	file = open(all->path, O_RDONLY | O_CLOEXEC);
	file_size = file >= 0 && fstat(file, &st) == 0 ? st.st_size : -1;
	apr_pool_cleanup_register(pconf, NULL, close_tracer, apr_pool_cleanup_null);
	return OK;
}

/* Names the workers after how many there may be: requests wait for one only while
 * all are taken, which an engine cannot see otherwise. */
static int name_workers(void) {
	const char *what = threaded ? "worker threads" : "workers";
	int daemons = 0, threads = 0;
	ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &daemons);
	ap_mpm_query(AP_MPMQ_MAX_THREADS, &threads);
	char name[64];
	snprintf(name, sizeof name, "%s (%lld)", what, (long long)daemons * (threads > 1 ? threads : 1));
	int resource = sg_resource(tracer, name, SG_QUEUE);
	return resource >= 0 ? resource : sg_resource(tracer, what, SG_QUEUE); /* the file has seen many configurations */
}

static void child_init(apr_pool_t *pool, server_rec *s) {
	(void)s;
	if (!tracer)
		return;
	child.watching = false;
	atomic_store(&child.stop, false);
	atomic_store(&child.state, NOTHING);
	atomic_store(&child.now, NULL);
	workers = 0; /* for intact */
	workers = intact() ? name_workers() : -1;
	remember_inherited();
	apr_pool_cleanup_register(pool, NULL, stop_watching, apr_pool_cleanup_null);
}

static void register_hooks(apr_pool_t *pool) {
	(void)pool;
	ap_hook_post_config(post_config, NULL, NULL, APR_HOOK_MIDDLE);
	ap_hook_child_init(child_init, NULL, NULL, APR_HOOK_LAST);
	ap_hook_pre_connection(pre_connection, NULL, NULL, APR_HOOK_FIRST);
	ap_hook_post_read_request(post_read_request, NULL, NULL, APR_HOOK_REALLY_FIRST);
	ap_hook_fixups(fixups, NULL, NULL, APR_HOOK_LAST);
	ap_register_output_filter("SPILLGATE", answer, NULL, AP_FTYPE_TRANSCODE);
}

static const command_rec commands[] = {
	AP_INIT_TAKE1("SpillgateTaskFile", set_path, NULL, RSRC_CONF, "the file in which an engine sees the requests; its directory must exist and belong to the user that starts httpd"),
	{NULL}
};

AP_DECLARE_MODULE(spillgate) = {STANDARD20_MODULE_STUFF, NULL, NULL, create_settings, NULL, commands, register_hooks,
#if defined(AP_MODULE_HAS_FLAGS) || defined(AP_MODULE_FLAG_NONE)
	AP_MODULE_FLAG_NONE
#endif
};
