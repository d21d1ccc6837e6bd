/* A shop whose orders and whose report lock one table: one report keeps every
 * order waiting. Spillgate's engine finds it and cancels it at a check point.
 *
 *   GET /order   locks the table for a millisecond
 *   GET /report  locks the table and walks it, for minutes
 *
 *   culprit /dev/shm/shop
 *
 * What tracing takes is sg_begin and sg_end for each request, and sg_mutex for
 * pthread_mutex_t. It is built by CMake, see CMakeLists.txt, or by
 *
 *   cc -Itracer/c examples/culprit-c/culprit.c tracer/c/spillgate_tracer.c -pthread
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "spillgate_tracer.h"

static sg_tracer *tracer;
static sg_mutex table;
static uint64_t orders, reports; /* the kinds */

static void work_for_a_millisecond(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

/* Writes one row. */
static int order(sg_task *task) {
	int result = sg_mutex_lock(&table, task);
	if (result != 0)
		return result;
	work_for_a_millisecond();
	return sg_mutex_unlock(&table, task);
}

/* Reads every row; each is a check point. */
static int report(sg_task *task) {
	enum { ROWS = 100000 };
	int result = sg_mutex_lock(&table, task);
	if (result != 0)
		return result;
	for (int row = 0; row < ROWS && result == 0; row++) {
		work_for_a_millisecond();
		sg_set_progress(task, (uint64_t)row, ROWS);
		if (sg_cancelled(task))
			result = ECANCELED;
	}
	sg_mutex_unlock(&table, task);
	return result;
}

/* Reads a request up to its empty line; returns 0 if there is none. */
static size_t read_request(int fd, char *request, size_t size) {
	size_t length = 0;
	while (length < size - 1) {
		ssize_t n = recv(fd, request + length, size - 1 - length, 0);
		if (n <= 0)
			return 0;
		length += (size_t)n;
		request[length] = 0;
		if (strstr(request, "\r\n\r\n"))
			return length;
	}
	return 0;
}

static void answer(int fd, int result) {
	const char *status = result == 0 ? "200 OK" : result == ECANCELED ? "503 Service Unavailable\r\nRetry-After: 1" : "500 Internal Server Error";
	char response[256];
	int n = snprintf(response, sizeof response, "HTTP/1.0 %s\r\nConnection: close\r\n\r\n%s\n", status, strerror(result));
	send(fd, response, (size_t)n, MSG_NOSIGNAL);
}

static void *serve(void *arg) {
	int fd = (int)(intptr_t)arg;
	char request[4096];
	if (read_request(fd, request, sizeof request) != 0) {
		int is_report = strncmp(request, "GET /report ", 12) == 0;
		sg_task *task = sg_begin(tracer, &(sg_info){.kind = is_report ? reports : orders});
		int result = is_report ? report(task) : order(task);
		sg_end(task);
		answer(fd, result);
	}
	close(fd);
	return NULL;
}

/* Listens on a free port of the loopback interface. */
static int listen_somewhere(void) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 128) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		return -1;
	printf("listening on http://127.0.0.1:%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

int main(int argc, char **argv) {
	sg_error error;
	if (argc != 2) {
		fprintf(stderr, "usage: culprit taskfile\n");
		return 2;
	}
	tracer = sg_open(&(sg_config){.path = argv[1]}, &error);
	if (!tracer) {
		fprintf(stderr, "%s: %s: %s\n", argv[1], error.word, error.text);
		return 1;
	}
	sg_mutex_init(&table, tracer, "orders");
	orders = sg_kind(tracer, "GET /order");
	reports = sg_kind(tracer, "GET /report");
	int listener = listen_somewhere();
	if (listener < 0) {
		perror("listen");
		return 1;
	}
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pthread_t thread;
		if (fd >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0)
			pthread_detach(thread);
		else if (fd >= 0)
			close(fd);
	}
}
