/* SPDX-License-Identifier: Apache-2.0 */
/* Engines on an ordinary file: each reads the same bytes, works without the features that the
 * kernel refuses, and reports them. Calls of liburing are wrapped (tests/CMakeLists.txt), so that
 * each can be refused separately. Tests on separate disks are in tests/vm. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/ring.h"
#include "engine_fixture.h"

TestSuite(engine, .init = set_up, .fini = tear_down);

static int start(enum rung_engine engine)
{
	reader.args.engine = engine;
	return rung__engine_select(&reader);
}

/* Random reads of one to eight sectors, with up to DEPTH in flight. */
static void check_reads(void)
{
	const uint32_t align = reader.geometry.align, place = 8 * reader.geometry.align;
	struct rung__fetch fetches[DEPTH];
	struct rung__fetched fetched[DEPTH];
	unsigned sent = 0, in_flight = 0;

	for (unsigned t = 0; t < DEPTH; t++)
		fetches[t].bytes = 0;
	while (sent < 200 || in_flight > 0) {
		int count;

		for (uint32_t t = 0; t < DEPTH && sent < 200; t++) {
			uint64_t draw = rung__mix64(sent);

			if (fetches[t].bytes)
				continue;
			fetches[t] = (struct rung__fetch){
				draw % (FILE_BYTES / place) * place, (uint64_t)t * place,
				(uint32_t)(draw >> 40) % 8 * align + align, t
			};
			cr_assert_eq(reader.ops->submit(reader.engine, &fetches[t]), 0);
			sent++;
			in_flight++;
		}
		count = reader.ops->reap(reader.engine, in_flight / 2 + 1, 10000000000u, fetched,
		                         DEPTH);
		cr_assert_gt(count, 0);
		for (int i = 0; i < count; i++) {
			struct rung__fetch *fetch = &fetches[fetched[i].token];

			cr_assert_eq(fetched[i].result, (int32_t)fetch->bytes, "%s",
			             reader.ops->name);
			cr_assert_arr_eq(pool + fetch->to, content + fetch->offset, fetch->bytes);
			fetch->bytes = 0;
			in_flight--;
		}
	}
}

static const struct rung_engine_step *step(const char *name)
{
	for (uint32_t i = 0; i < reader.step_count; i++) {
		if (strcmp(reader.steps[i].name, name) == 0)
			return &reader.steps[i];
	}
	return NULL;
}

Test(engine, pread_reads_and_reports_that_it_was_requested)
{
	cr_assert_eq(start(RUNG_ENGINE_PREAD), 0, "%s", rung_last_error());
	check_reads();
	cr_assert_str_eq(reader.ops->name, "pread");
	cr_assert_str_eq(step("pread")->why, "");
	cr_assert_str_eq(reader.engine_why, "pread was requested");
}

static unsigned count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned count = 0;

	while (readdir(tasks))
		count++;
	closedir(tasks);
	return count - 2;
}

static unsigned pool_threads(void)
{
	const unsigned before = count_threads();
	unsigned count;

	reader.args.queue_depth = reader.args.token_count = 64;
	cr_assert_eq(start(RUNG_ENGINE_PREAD), 0, "%s", rung_last_error());
	count = count_threads() - before;
	close_reader();
	open_reader();
	return count;
}

Test(engine, a_pool_of_threads_leaves_most_of_a_limit_to_others)
{
	char root[256];

	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	support_put(root, "/proc/self/cgroup", "5:pids:/job\n");
	support_put(root, "/sys/fs/cgroup/pids/job/pids.max", "100\n");
	support_put(root, "/sys/fs/cgroup/pids/job/pids.current", "20\n");
	rung__machine_root = root;
	cr_assert_eq(pool_threads(), 10);
	support_put(root, "/sys/fs/cgroup/pids/job/pids.current", "99\n");
	cr_assert_eq(pool_threads(), 1, "one thread is enough");
	support_put(root, "/sys/fs/cgroup/pids/job/pids.max", "max\n");
	cr_assert_eq(pool_threads(), 32);
	support_remove(root);
}

Test(engine, a_read_after_the_end_is_empty_and_one_across_it_short)
{
	const enum rung_engine ids[] = { RUNG_ENGINE_PREAD, RUNG_ENGINE_IO_URING };

	for (unsigned e = 0; e < (fixture_has_io_uring() ? 2 : 1); e++) {
		struct rung__fetch over = { FILE_BYTES - reader.geometry.align, 0,
			                    2 * reader.geometry.align, 1 },
				   behind = { FILE_BYTES, 0, reader.geometry.align, 2 };
		struct rung__fetched fetched[1];

		cr_assert_eq(start(ids[e]), 0, "%s", rung_last_error());
		cr_assert_eq(reader.ops->submit(reader.engine, &over), 0);
		cr_assert_eq(reader.ops->reap(reader.engine, 1, 10000000000u, fetched, 1), 1);
		cr_assert_eq(fetched[0].result, (int32_t)reader.geometry.align);
		cr_assert_eq(reader.ops->submit(reader.engine, &behind), 0);
		cr_assert_eq(reader.ops->reap(reader.engine, 1, 10000000000u, fetched, 1), 1);
		cr_assert_eq(fetched[0].result, 0);
		cr_assert_eq(reader.ops->reap(reader.engine, 1, 1000000, fetched, 1), 0,
		             "with nothing in flight the wait must time out");
		close_reader();
		open_reader();
	}
}

Test(engine, a_file_that_cannot_be_read_is_an_error)
{
	close(reader.fd);
	reader.fd = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert_eq(start(RUNG_ENGINE_AUTO), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), path) && strstr(rung_last_error(), strerror(EBADF)),
	          "%s", rung_last_error());
	cr_assert_null(reader.engine);
}

/* Every read is complete, and nothing is written to the pool. */
static void check_null(enum rung_engine engine, const char *name)
{
	struct rung__fetched fetched[DEPTH];
	unsigned seen = 0;

	memset(pool, 0x5a, POOL_BYTES);
	cr_assert_eq(start(engine), 0, "%s", rung_last_error());
	cr_assert_str_eq(reader.ops->name, name);
	cr_assert(strstr(reader.engine_why, "rows are not valid"), "%s", reader.engine_why);
	for (uint32_t t = 0; t < DEPTH; t++) {
		struct rung__fetch fetch = { t * 4096, t * 4096, (t + 1) * 512, t };

		cr_assert_eq(reader.ops->submit(reader.engine, &fetch), 0);
	}
	while (seen != (1 << DEPTH) - 1) {
		int count = reader.ops->reap(reader.engine, 1, 10000000000u, fetched, 3);

		cr_assert(count > 0 && count <= 3);
		for (int i = 0; i < count; i++) {
			cr_assert_eq(fetched[i].result, (int32_t)(fetched[i].token + 1) * 512);
			cr_assert_not(seen & 1u << fetched[i].token);
			seen |= 1u << fetched[i].token;
		}
	}
	for (uint32_t i = 0; i < POOL_BYTES; i++)
		cr_assert_eq(pool[i], 0x5a);
	close_reader();
	open_reader();
}

Test(engine, null_engines_complete_every_read_without_reading)
{
	check_null(RUNG_ENGINE_NULL_INSTANT, "null_instant");
	if (fixture_has_io_uring())
		check_null(RUNG_ENGINE_NULL, "null");
}

/* ---- io_uring ---- */

#if RUNG_HAVE_IO_URING
static unsigned setup_flags_refused;
static unsigned setup_tries, setup_refused_tries; /* 0: setup_refused applies to every try */
static int setup_refused, buffers_refused, files_refused, ring_refused;
static bool spoil;

int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params);
int __real_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iovecs,
                                     unsigned count);
int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iovecs,
                                     unsigned count);
int __real_io_uring_register_files(struct io_uring *ring, const int *files, unsigned count);
int __wrap_io_uring_register_files(struct io_uring *ring, const int *files, unsigned count);
int __real_io_uring_register_ring_fd(struct io_uring *ring);
int __wrap_io_uring_register_ring_fd(struct io_uring *ring);
int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                            unsigned count, struct __kernel_timespec *ts,
                                            sigset_t *mask);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                            unsigned count, struct __kernel_timespec *ts,
                                            sigset_t *mask);

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params)
{
	setup_tries++;
	if (setup_refused && (!setup_refused_tries || setup_tries <= setup_refused_tries))
		return -setup_refused;
	return params->flags & setup_flags_refused
	               ? -EINVAL
	               : __real_io_uring_queue_init_params(entries, ring, params);
}

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iovecs,
                                     unsigned count)
{
	return buffers_refused ? -buffers_refused
	                       : __real_io_uring_register_buffers(ring, iovecs, count);
}

int __wrap_io_uring_register_files(struct io_uring *ring, const int *files, unsigned count)
{
	return files_refused ? -files_refused : __real_io_uring_register_files(ring, files, count);
}

int __wrap_io_uring_register_ring_fd(struct io_uring *ring)
{
	return ring_refused ? -ring_refused : __real_io_uring_register_ring_fd(ring);
}

int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
                                            unsigned count, struct __kernel_timespec *ts,
                                            sigset_t *mask)
{
	int rc = __real_io_uring_submit_and_wait_timeout(ring, cqe, count, ts, mask);

	if (spoil)
		pool[17] ^= 1;
	return rc;
}

static const char *part_why(const char *name)
{
	for (uint32_t i = 0; i < reader.report.part_count; i++) {
		if (strcmp(reader.report.parts[i].name, name) == 0)
			return reader.report.parts[i].why;
	}
	return NULL;
}

static void need_io_uring(void)
{
	if (!fixture_has_io_uring())
		cr_skip_test("the kernel refuses io_uring");
}

Test(engine, auto_selects_io_uring)
{
	need_io_uring();
	cr_assert_eq(start(RUNG_ENGINE_AUTO), 0, "%s", rung_last_error());
	check_reads();
	cr_assert_str_eq(reader.ops->name, "io_uring");
	cr_assert_eq(reader.step_count, 3);
	cr_assert(strstr(step("nvme")->why, "opt-in"));
	cr_assert(strstr(step("io_uring_poll")->why, "opt-in"));
	cr_assert_str_eq(step("io_uring")->why, "");
	cr_assert_eq(reader.report.part_count, 4);
}

Test(engine, io_uring_works_without_refused_features)
{
	static const struct {
		unsigned flags;
		int buffers, files, ring;
		const char *part, *why;
	} cases[] = {
		{ IORING_SETUP_DEFER_TASKRUN, 0, 0, 0, "deferred completions",
		  "only IORING_SETUP_COOP_TASKRUN" },
		{ IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN, 0, 0, 0,
		  "deferred completions", "has no IORING_SETUP_COOP_TASKRUN" },
		{ 0, ENOMEM, 0, 0, "registered memory", "RLIMIT_MEMLOCK" },
		{ 0, EOPNOTSUPP, 0, 0, "registered memory", "refuses to register" },
		{ 0, 0, EMFILE, 0, "registered file", "refuses" },
		{ 0, 0, 0, EINVAL, "registered ring", "5.18" },
	};

	need_io_uring();
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		setup_flags_refused = cases[i].flags;
		buffers_refused = cases[i].buffers;
		files_refused = cases[i].files;
		ring_refused = cases[i].ring;
		cr_assert_eq(start(RUNG_ENGINE_IO_URING), 0, "%s", rung_last_error());
		check_reads();
		cr_assert(strstr(part_why(cases[i].part), cases[i].why), "%s: %s", cases[i].part,
		          part_why(cases[i].part));
		cr_assert(strstr(reader.engine_why, cases[i].why), "%s", reader.engine_why);
		close_reader();
		open_reader();
	}
}

Test(engine, a_limit_on_locked_memory_leaves_the_pool_unregistered)
{
	struct rlimit limit;
	bool root = geteuid() == 0;

	need_io_uring();
	cr_assert_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* lowered, never raised */
	limit.rlim_cur = limit.rlim_max = RUNG__MIN(limit.rlim_max, 65536);
	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	if (root && seteuid(65534) != 0) /* the limit does not apply to root */
		cr_skip_test("cannot change to another user");
	cr_assert_eq(start(RUNG_ENGINE_IO_URING), 0, "%s", rung_last_error());
	cr_assert(!root || seteuid(0) == 0);
	check_reads();
	cr_assert(strstr(part_why("registered memory"), "RLIMIT_MEMLOCK"), "'%s'",
	          part_why("registered memory"));
}

Test(engine, refused_setup_falls_back_to_pread_or_fails_with_the_reason)
{
	setup_refused = EPERM;
	cr_assert_eq(start(RUNG_ENGINE_AUTO), 0, "%s", rung_last_error());
	check_reads();
	cr_assert_str_eq(reader.ops->name, "pread");
	cr_assert(strstr(step("io_uring")->why, "seccomp"), "%s", step("io_uring")->why);
	cr_assert(strstr(reader.engine_why, "seccomp"));
	cr_assert_null(step("null"));
	close_reader();
	open_reader();
	cr_assert_eq(start(RUNG_ENGINE_IO_URING), RUNG_E_NOSUP);
	cr_assert(strstr(rung_last_error(), "engine io_uring") &&
	                  strstr(rung_last_error(), "seccomp"),
	          "%s", rung_last_error());
	cr_assert_null(reader.engine);
}

/* The kernel frees the memory of a closed ring later, so opening another ring immediately can
 * fail. */
Test(engine, a_ring_that_lacks_memory_is_tried_again)
{
	need_io_uring();
	setup_refused = ENOMEM;
	setup_refused_tries = 3;
	cr_assert_eq(start(RUNG_ENGINE_IO_URING), 0, "%s", rung_last_error());
	cr_assert_geq(setup_tries, 4);
	check_reads();
}

Test(engine, a_ring_that_never_gets_memory_names_the_limit_and_the_remedy)
{
	setup_refused = ENOMEM;
	cr_assert_eq(start(RUNG_ENGINE_AUTO), 0, "%s", rung_last_error());
	check_reads();
	cr_assert_str_eq(reader.ops->name, "pread");
	cr_assert(strstr(reader.engine_why, "RLIMIT_MEMLOCK"), "%s", reader.engine_why);
	close_reader();
	open_reader();
	cr_assert_eq(start(RUNG_ENGINE_IO_URING), RUNG_E_NOSUP);
	cr_assert(strstr(rung_last_error(), "ulimit -l"), "%s", rung_last_error());
}

Test(engine, a_step_that_reads_wrong_bytes_is_not_used)
{
	need_io_uring();
	spoil = true;
	cr_assert_eq(start(RUNG_ENGINE_AUTO), 0, "%s", rung_last_error());
	cr_assert_str_eq(reader.ops->name, "pread");
	cr_assert(strstr(step("io_uring")->why, "differ from the file's"), "%s",
	          step("io_uring")->why);
	check_reads();
}

Test(engine, polling_works_or_reports_the_reason)
{
	need_io_uring();
	if (start(RUNG_ENGINE_IO_URING_POLL) == 0) {
		check_reads();
		return;
	}
	cr_assert(strstr(rung_last_error(), "engine io_uring_poll"), "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), reader.direct ? "no queues for polling" : "page cache"),
	          "%s", rung_last_error());
}

Test(engine, passthrough_works_or_reports_the_reason)
{
	need_io_uring();
	if (start(RUNG_ENGINE_NVME) == 0) { /* the folder is on an NVMe disk */
		check_reads();
		return;
	}
	cr_assert(strstr(rung_last_error(), "engine nvme: "), "%s", rung_last_error());
	cr_assert_null(reader.engine);
}

Test(engine, a_read_across_registered_pieces_uses_none)
{
	struct rung__engine ring = { .piece_count = 3, .piece_shift = 18 };
	struct rung__fetch fetch = { .to = (1 << 18) - 512, .bytes = 512 };

	cr_assert_eq(rung__ring_piece(&ring, &fetch), 0);
	fetch.bytes = 1024;
	cr_assert_eq(rung__ring_piece(&ring, &fetch), -1);
	fetch.to = 2 << 18;
	cr_assert_eq(rung__ring_piece(&ring, &fetch), 2);
	fetch.to = 3 << 18;
	cr_assert_eq(rung__ring_piece(&ring, &fetch), -1);
}

Test(engine, statistics_report_the_step_in_use_and_why_not_the_others)
{
	struct store_fixture f;
	struct rung_store_stats stats = { .size = sizeof(stats) };

	need_io_uring();
	setup_flags_refused = IORING_SETUP_DEFER_TASKRUN;
	fixture_open(&f, 2000, 512, 40 * 4096, NULL, NULL);
	cr_assert_eq(rung_store_stats(f.store, &stats), 0);
	cr_assert_eq(stats.engine_step_count, 3);
	cr_assert_str_eq(stats.engine_steps[0].name, "nvme");
	cr_assert_str_eq(stats.engine_steps[2].name, stats.engine);
	cr_assert_str_eq(stats.engine_steps[2].why, "");
	cr_assert_eq(stats.engine_part_count, 4);
	cr_assert(strstr(stats.engine_parts[0].why, "COOP_TASKRUN"));
	cr_assert(strstr(stats.engine_why, "COOP_TASKRUN"));
	fixture_close(&f);
}
#endif
