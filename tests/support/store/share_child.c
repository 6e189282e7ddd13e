/* SPDX-License-Identifier: Apache-2.0 */
/* The sharing or attached program, and the functions that talk to it. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share_child.h"
#include "store_fixture.h"

#define MARK       "--share-child"
#define HOST_BYTES 300000u
#define ASKED      500u
#define AHEAD      6u /* gathers that are announced, and read ahead in a window of some of them */
#define WINDOW     3u
#define NOBODY     65534u

/* ---- the child ---- */

static struct store_fixture f;

static int open_child(const char *role, const char *socket_path, const char *dataset_dir)
{
	struct rung_plan_opts plan_opts;
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1, .window = WINDOW };
	const char *chosen = getenv("RUNG_TEST_ATTACH_GPU");
	uint64_t count;
	int gpus[3], gpu;
	int rc = rung_dataset_open(dataset_dir, &f.ds);

	if (rc < 0)
		return rc;
	f.vertices = rung_dataset_info(f.ds)->vertex_count;
	f.row_bytes = rung_dataset_info(f.ds)->features.row_bytes;
	rc = rung_dataset_load_ids(f.ds, "vertex_of_rank", &count, &f.vertex_of_rank);
	if (rc < 0)
		return rc;
	if (strcmp(role, "create") == 0) {
		plan_opts = fixture_plan_opts(f.vertices * f.row_bytes, HOST_BYTES, gpus);
		rc = rung_plan_create(f.ds, &plan_opts, &f.plan);
		opts.share_path = socket_path;
		return rc < 0 ? rc : rung_store_open(f.ds, f.plan, &opts, &f.store);
	}
	if (strcmp(role, "attach-as-other-user") == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
		return RUNG_E_INVAL;
	if (chosen) {
		gpu = atoi(chosen);
		opts.gpu = &gpu;
	}
	return rung_store_attach(socket_path, &opts, &f.store);
}

/* Announce the gathers after this one; a full window is not a failure. */
static int announce(uint64_t seed)
{
	static uint64_t announced;
	int rc = 0;

	for (; announced < seed + AHEAD && rc == 0; announced += rc == 0) {
		uint64_t ranks[ASKED];
		const struct rung_ids list = { ranks, ASKED, RUNG_U64, RUNG_RANKS };

		fixture_random_ids(&f, ranks, ASKED, announced + 1);
		rc = rung_prefetch(f.store, &list);
	}
	return rc == RUNG_E_AGAIN ? 0 : rc;
}

/* @return rows that were wrong, or the negative status of a gather that failed */
static int64_t wrong_rows(uint64_t seed)
{
	uint64_t ranks[ASKED], vertices[ASKED], wrong = 0;
	int rc = 0;

	fixture_random_ids(&f, ranks, ASKED, seed);
	for (unsigned i = 0; i < ASKED; i++)
		vertices[i] = f.vertex_of_rank[ranks[i]];
	for (unsigned space = RUNG_RANKS; space <= RUNG_VERTICES; space++) {
		struct rung_ids list = fixture_ids(&f, space == RUNG_RANKS ? ranks : vertices,
		                                   ASKED, RUNG_U64, space);
		unsigned char *out = fixture_memory(&f, ASKED * f.row_bytes);

		rc = rung_gather(f.store, &list, out, 0);
		if (rc != 0) {
			fprintf(stderr, "child: %s\n", rung_last_error());
			fixture_free_memories(&f);
			return rc;
		}
		wrong += fixture_wrong_rows(&f, ranks, ASKED, out, f.row_bytes);
		fixture_free_memories(&f);
	}
	return (int64_t)wrong;
}

static struct {
	uint64_t ranks[ASKED];
	unsigned char *out;
	struct rung_request *request;
} flight;

static int64_t submit(uint64_t seed)
{
	struct rung_ids list;

	fixture_random_ids(&f, flight.ranks, ASKED, seed);
	list = fixture_ids(&f, flight.ranks, ASKED, RUNG_U64, RUNG_RANKS);
	flight.out = fixture_memory(&f, ASKED * f.row_bytes);
	return rung_gather_submit(f.store, &list, flight.out, 0, NULL, &flight.request);
}

static int64_t finish(void)
{
	int rc = rung_request_wait(flight.request, -1);

	rung_request_put(flight.request);
	if (rc < 0)
		return rc;
	return (int64_t)fixture_wrong_rows(&f, flight.ranks, ASKED, flight.out, f.row_bytes);
}

static bool told_more(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

/* Reads lines with read(), one at a time: a stdio buffer would hide input from poll(). */
static bool read_line(char *line, size_t bytes)
{
	size_t len = 0;

	while (len + 1 < bytes && read(STDIN_FILENO, line + len, 1) == 1) {
		if (line[len] == '\n') {
			line[len] = 0;
			return true;
		}
		len++;
	}
	return false;
}

static void serve_lines(void)
{
	char line[100];

	while (read_line(line, sizeof(line))) {
		int64_t wrong = 0;

		if (strcmp(line, "go") == 0) {
			printf("0\n");
			fflush(stdout);
			for (uint64_t seed = 1; !told_more(); seed++) {
				if (wrong == 0)
					wrong = announce(seed);
				if (wrong == 0)
					wrong = wrong_rows(seed);
			}
			read_line(line, sizeof(line));
		} else if (strncmp(line, "gather ", 7) == 0) {
			wrong = wrong_rows(strtoull(line + 7, NULL, 10));
		} else if (strncmp(line, "submit ", 7) == 0) {
			wrong = submit(strtoull(line + 7, NULL, 10));
		} else if (strcmp(line, "finish") == 0) {
			wrong = finish();
		} else if (strcmp(line, "gpu") == 0) {
			struct rung_store_info info = { .size = sizeof(info) };

			rung_store_info(f.store, &info);
			wrong = info.gpu;
		}
		printf("%lld\n", (long long)wrong);
		fflush(stdout);
	}
}

typedef void constructor(int argc, char **argv, char **envp);

/* the program's constructors, in the order of their calls (linker) */
extern constructor *__init_array_start[] __attribute__((visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((visibility("hidden")));

/* Call the constructors that come after one of them. */
static void run_constructors_after(constructor *own, int argc, char **argv)
{
	bool after = false;

	for (constructor **each = __init_array_start; each != __init_array_end; each++) {
		if (after)
			(*each)(argc, argv, environ);
		after = after || *each == own;
	}
}

/* Runs before main(), which is Criterion's and cannot be replaced; glibc passes main's arguments to
 * constructors. The order of constructors is that of the linker's command line, so those that
 * register the library's kernels with CUDA have not run yet: without them every kernel is an
 * invalid handle. */
__attribute__((constructor)) static void child_main(int argc, char **argv, char **envp)
{
	int rc;

	(void)envp;
	if (argc != 5 || strcmp(argv[1], MARK) != 0)
		return;
	run_constructors_after(child_main, argc, argv);
	rc = open_child(argv[2], argv[3], argv[4]);
	printf("%d %s\n", rc, rc < 0 ? rung_last_error() : "");
	fflush(stdout);
	if (rc == 0)
		serve_lines();
	rc = rung_store_close(f.store);
	rung_plan_destroy(f.plan);
	rung_dataset_close(f.ds);
	rung_free(f.vertex_of_rank);
	exit(rc < 0 ? 1 : 0);
}

/* ---- its parent ---- */

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

static bool hear(struct share_child *child)
{
	child->line[0] = 0;
	return fgets(child->line, sizeof(child->line), child->from) != NULL;
}

int share_child_start(struct share_child *child, const char *role, const char *socket_path,
                      const char *dataset_dir)
{
	int to[2], from[2];

	need(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, "pipe");
	child->pid = fork();
	need(child->pid >= 0, "fork");
	if (child->pid == 0) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execl("/proc/self/exe", "share-child", MARK, role, socket_path, dataset_dir,
		      (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	child->to = fdopen(to[1], "w");
	child->from = fdopen(from[0], "r");
	need(child->to && child->from, "fdopen");
	need(hear(child), "the child's first line");
	return atoi(child->line);
}

int share_child_ask(struct share_child *child, const char *line)
{
	fprintf(child->to, "%s\n", line);
	return fflush(child->to) == 0 && hear(child) ? atoi(child->line) : -1;
}

static int reap(struct share_child *child)
{
	int status = -1;

	fclose(child->to);
	need(waitpid(child->pid, &status, 0) == child->pid, "waitpid");
	fclose(child->from);
	return status;
}

int share_child_end(struct share_child *child)
{
	return reap(child);
}

void share_child_kill(struct share_child *child)
{
	kill(child->pid, SIGKILL);
	reap(child);
}
