/* Acts out, reads and refuses the vectors of the task file; ../../vectors has
 * them. It includes the library, because it gives it another identity.
 *
 *   vectors play SCRIPT FILE      acts SCRIPT out and writes FILE
 *   vectors dump FILE             says what FILE holds
 *   vectors judge FILE...         prints "ok", or the word of the refusal, for each
 */
#include "../spillgate_tracer.c"

#include <inttypes.h>

static const place vector_place = {{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, 4026531836};

static const uint64_t vector_token = UINT64_C(123456) << PID_BITS | 4242;

static sg_tracer *in_memory(const geometry *g) {
	sg_tracer *t = calloc(1, sizeof *t);
	t->size = *g;
	t->poll = true;
	t->memory = aligned_alloc(PAGE, round_up(file_bytes(g), PAGE));
	memset(t->memory, 0, file_bytes(g));
	encode_header(t->memory, g, &vector_place);
	t->live = (live_words *)(t->memory + FIXED);
	t->process = calloc(1, sizeof *t->process);
	put(&t->process->token, vector_token);
	size_t bytes = g->slots * sizeof(sg_task);
	t->tasks = aligned_alloc(LINE, bytes);
	memset(t->tasks, 0, bytes);
	return t;
}

static int index_of(const char *wanted, const char *const *list) {
	for (int i = 0; list[i]; i++)
		if (strcmp(wanted, list[i]) == 0)
			return i;
	return -1;
}

/* The text after n fields of a line. */
static const char *rest_after(const char *line, int n) {
	while (n-- > 0) {
		line = strchr(line, ' ');
		if (!line)
			return "";
		line++;
	}
	return line;
}

/* Does what is no event of a task; false if the line is one. */
static bool setting(sg_tracer **t, const char *verb, const char *line, const uint64_t *n) {
	static const char *const modes[] = {"off", "coarse", "precise", NULL};
	static const char *const kinds[] = {"lock", "memory", "queue", "system", NULL};
	char text[16];
	if (strcmp(verb, "create") == 0) {
		*t = in_memory(&(geometry){(uint32_t)n[0], (uint32_t)n[1], (uint32_t)n[2]});
	} else if (strcmp(verb, "clock") == 0) {
		sscanf(rest_after(line, 2), "%15s", text);
		put(&(*t)->live->clock, n[0] | (uint64_t)index_of(text, modes));
	} else if (strcmp(verb, "resource") == 0) {
		sscanf(rest_after(line, 1), "%15s", text);
		sg_resource(*t, rest_after(line, 2), (sg_resource_kind)(index_of(text, kinds) + 1));
	} else if (strcmp(verb, "kind") == 0) {
		sg_kind(*t, rest_after(line, 1));
	} else if (strcmp(verb, "keep") == 0) {
		const char *kind = rest_after(line, 3);
		keep_words *k = (keep_words *)((*t)->memory + KEPT) + n[0];
		put(&k->kind, fnv1a(kind, strlen(kind)));
		put(&k->until, n[1]);
	} else if (strcmp(verb, "keeps") == 0) {
		put(&(*t)->live->keeps, n[0]);
	} else if (strcmp(verb, "untraced") == 0) {
		atomic_fetch_add(&(*t)->live->untraced, 1);
	} else if (strcmp(verb, "begin") == 0) {
		const char *kind = rest_after(line, 5);
		sg_info info = {.key = n[1], .flags = n[2], .started = n[3]};
		info.kind = strcmp(kind, "-") == 0 ? 0 : fnv1a(kind, strlen(kind));
		put(&slot_at(*t, n[0])->owner, vector_token);
		begin_in(*t, (uint32_t)n[0], &info, 0);
	} else {
		return false;
	}
	return true;
}

static void event(sg_tracer *t, const char *verb, const uint64_t *n) {
	sg_task *task = &t->tasks[n[0]];
	int r = (int)n[1];
	if (strcmp(verb, "acquire") == 0)
		sg_acquire(task, r, n[2]);
	else if (strcmp(verb, "release") == 0)
		sg_release(task, r, n[2]);
	else if (strcmp(verb, "wait") == 0)
		sg_wait_begin(task, r);
	else if (strcmp(verb, "waitend") == 0)
		sg_wait_end(task, r);
	else if (strcmp(verb, "evicted") == 0)
		sg_evicted(task, r, n[2]);
	else if (strcmp(verb, "waited") == 0)
		sg_waited(task, r, n[2]);
	else if (strcmp(verb, "shared") == 0)
		sg_set_shared(task, r, n[2] == 1);
	else if (strcmp(verb, "progress") == 0)
		sg_set_progress(task, n[1], n[2]);
	else if (strcmp(verb, "flags") == 0)
		sg_set_flags(task, n[1]);
	else if (strcmp(verb, "delivered") == 0)
		sg_cancelled(task);
	else if (strcmp(verb, "end") == 0)
		sg_end(task);
	else if (strcmp(verb, "cancel") == 0) {
		put(&task->words->reason, n[1]);
		put(&task->words->cancel, task->sequence);
		atomic_fetch_add(&t->live->cancels, 1);
	} else {
		fprintf(stderr, "no such line: %s\n", verb);
		exit(2);
	}
}

static int play(const char *script, const char *out) {
	char line[512], verb[16];
	sg_tracer *t = NULL;
	int looks = 0, written = 0;
	FILE *in = fopen(script, "r"), *file = fopen(out, "w");
	while (in && file && fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0] == '#' || sscanf(line, "%15s", verb) != 1)
			continue;
		uint64_t n[4] = {0};
		for (int i = 0; i < 4; i++)
			n[i] = strtoull(rest_after(line, i + 1), NULL, 10);
		if (t && strcmp(verb, "look") == 0) {
			looks++;
			written += fwrite(t->memory, file_bytes(&t->size), 1, file) == 1;
		} else if (!setting(&t, verb, line, n)) {
			event(t, verb, n);
		}
	}
	if (t && looks == 0) {
		looks++;
		written += fwrite(t->memory, file_bytes(&t->size), 1, file) == 1;
	}
	return looks == 0 || written != looks || fclose(file) != 0 ? 2 : 0;
}

/* Reads a file and validates it. */
static unsigned char *load(const char *path, geometry *g, sg_error *error) {
	static unsigned char content[1 << 20];
	FILE *file = fopen(path, "r");
	if (!file)
		exit(2);
	size_t n = fread(content, 1, sizeof content, file);
	fclose(file);
	return parse_header(content, n, &vector_place, g, error) == 0 ? content : NULL;
}

static void dump_names(sg_tracer *t) {
	name_words *e = (name_words *)(t->memory + HEADER);
	for (uint32_t i = 0; i < t->size.resources; i++, e++)
		if (get(&e->state) == NAME_READY)
			printf("resource %u type %" PRIu64 " %.*s\n", i, e->type, (int)e->length, e->text);
	e = (name_words *)(t->memory + kinds_offset(&t->size));
	for (uint32_t i = 0; i < t->size.kinds; i++, e++)
		if (get(&e->state) == NAME_READY) {
			printf("kind %u %016" PRIx64 " %.*s\n", i, e->hash, (int)e->length, e->text);
			if (kept_out(t, e->hash, get(&t->live->clock) & ~(uint64_t)MODE_BITS))
				printf("kind %u is kept out\n", i);
		}
}

static void dump_slot(sg_tracer *t, uint32_t i) {
	slot_words *w = slot_at(t, i);
	cell *c = (cell *)(w + 1);
	if (w->sequence == 0)
		return;
	printf("slot %u owner %" PRIu64 " sequence %" PRIu64 " started %" PRIu64 " key %" PRIu64 " kind %016" PRIx64 " flags %" PRIu64 " done %" PRIu64
	       " total %" PRIu64 " finished %" PRIu64 " delivered %" PRIu64 " cancel %" PRIu64 " reason %" PRIu64 "\n",
	       i, w->owner, w->sequence, w->started, w->key, w->kind, w->flags, w->done, w->total, w->finished, w->delivered, w->cancel, w->reason);
	for (uint32_t r = 0; r < t->size.resources; r++, c++)
		if (w->touched >> r & 1)
			printf("cell %u gets %" PRIu64 " frees %" PRIu64 " waits %" PRIu64 " wait time %" PRIu64 " waiting since %" PRIu64 " hold time %" PRIu64
			       " held since %" PRIu64 " used %" PRIu64 " shared %" PRIu64 "\n",
			       r, c->gets, c->frees, c->waits, c->wait_time, c->waiting_since, c->hold_time, c->held_since, c->used, w->shared >> r & 1);
	const uint32_t *counts = (const uint32_t *)c;
	for (int k = 0; k < LATENCIES; k++)
		if (counts[k])
			printf("latency %d %u\n", k, counts[k]);
}

static int dump(const char *path) {
	static const char *const modes[] = {"off", "coarse", "precise", "off"};
	geometry g;
	sg_error error;
	unsigned char *content = load(path, &g, &error);
	if (!content) {
		printf("%s\n", error.word);
		return 1;
	}
	sg_tracer *t = in_memory(&g);
	memcpy(t->memory, content, file_bytes(&g));
	live_words *l = t->live;
	printf("slots %u resources %u kinds %u bytes %zu\n", g.slots, g.resources, g.kinds, file_bytes(&g));
	printf("mode %s clock %" PRIu64 " engine %" PRIu64 " cancels %" PRIu64 " untraced %" PRIu64 "\n", modes[l->clock & MODE_BITS],
	       l->clock & ~(uint64_t)MODE_BITS, l->engine, l->cancels, l->untraced);
	dump_names(t);
	for (uint32_t i = 0; i < g.slots; i++)
		dump_slot(t, i);
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 4 && strcmp(argv[1], "play") == 0)
		return play(argv[2], argv[3]);
	if (argc == 3 && strcmp(argv[1], "dump") == 0)
		return dump(argv[2]);
	if (argc < 3 || strcmp(argv[1], "judge") != 0)
		return 2;
	for (int i = 2; i < argc; i++) {
		geometry g;
		sg_error error;
		puts(load(argv[i], &g, &error) ? "ok" : error.word);
	}
	return 0;
}
