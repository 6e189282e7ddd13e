/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the cost per GiB before memory can be used: the first touch, and pinning it for
 * io_uring. Both occur when a store is opened and depend on the size of the pages.
 *
 * Memory is fresh only until its first touch, so each sample of a touch maps memory again.
 * Registering can be undone, so all samples of registering use the same memory.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "measure.h"
#include "rung_config.h"
#if RUNG_HAVE_IO_URING
#include <liburing.h>
#endif

#define BUFFER_BYTES       (256u << 20)
#define BUFFER_BYTES_QUICK (64u << 20)
#define GIB                1073741824.0
/* least share of huge pages: with fewer the cost is not that of huge pages */
#define HUGE_SHARE_MIN 0.9

static const uint64_t page_sizes[] = { RUNG__PAGE_BYTES, RUNG__MEASURE_HUGE_BYTES };

static uint64_t buffer_bytes(const struct rung__measuring *m)
{
	return m->opts.quick ? BUFFER_BYTES_QUICK : BUFFER_BYTES;
}

/* Reason why touched memory does not have the requested pages; NULL: it has them. The kernel may
 * ignore a request for huge pages, depending on its settings and on free memory. */
static const char *wrong_pages(struct rung__measuring *m, const struct rung__measure_memory *memory,
                               uint64_t page_bytes)
{
	const char *thp = m->report->info.thp;

	if (page_bytes > RUNG__PAGE_BYTES && memory->huge_share < HUGE_SHARE_MIN)
		return rung__measure_text(m,
		                          "%.0f %% of the memory is in huge pages "
		                          "(/sys/kernel/mm/transparent_hugepage/enabled: %s)",
		                          100 * memory->huge_share, thp ? thp : "not known");
	return NULL;
}

/* ---- touching ---- */

/* A result without values; the caller adds the CPU node, since memory may be touched by another
 * node's CPUs. */
static struct rung_numa_result blank(const struct rung__measuring *m, enum rung_numa_matrix matrix,
                                     size_t idx, uint64_t page_bytes)
{
	struct rung_numa_result result = rung__measure_blank(matrix);

	result.memory_node = (int)m->nodes[idx].node->node;
	result.page_bytes = page_bytes;
	result.buffer_bytes = buffer_bytes(m);
	return result;
}

/* Call `measure` for each node and page size. */
static int each_size(struct rung__measuring *m,
                     int (*measure)(struct rung__measuring *m, size_t idx, uint64_t page_bytes))
{
	int rc = 0;

	for (size_t idx = 0; idx < m->node_count; idx++) {
		for (size_t p = 0; p < RUNG__ARRAY_LEN(page_sizes) && rc == 0; p++)
			rc = measure(m, idx, page_sizes[p]);
	}
	return rc;
}

/* Take one sample with fresh memory. The location is checked after the timing; *why_out is set if
 * it is not the requested one. */
static int touch_once(struct rung__measuring *m, size_t idx, uint64_t page_bytes,
                      struct rung__team *team, double *seconds_out,
                      struct rung__measure_memory *memory_out, const char **why_out)
{
	int rc = rung__measure_map(m, idx, buffer_bytes(m), page_bytes, memory_out);

	if (rc < 0)
		return rc;
	*seconds_out = rung__team_run(team, rung__measure_touch_work, memory_out, 1);
	*why_out = rung__measure_check(m, idx, memory_out);
	if (!*why_out)
		*why_out = wrong_pages(m, memory_out, page_bytes);
	rung__measure_release(memory_out);
	return 0;
}

/* Add the result of one thread or of all cores. A CPU that threads cannot be pinned to
 * (RUNG_E_NOSUP) is a property of the machine, so it makes the result absent. */
static int touch_by(struct rung__measuring *m, size_t idx, uint64_t page_bytes, int all_cores)
{
	const struct rung__measure_pass pass = { .gib = (double)buffer_bytes(m) / GIB };
	struct rung_numa_result like = blank(m, RUNG_NUMA_TOUCH, idx, page_bytes);
	struct rung__measure_memory memory;
	struct rung__team *team = NULL;
	const char *why = NULL;
	double *seconds;
	int rc = rung__measure_samples(m, m->opts.samples, &seconds);

	if (rc == 0)
		rc = rung__measure_next(m, &like);
	if (rc == 0)
		rc = rung__measure_team(m, idx, all_cores, &team);
	if (rc == RUNG_E_NOSUP)
		rc = rung__measure_why(m, rc, &why);
	for (uint32_t i = 0; i < m->opts.samples && rc == 0 && !why; i++)
		rc = touch_once(m, idx, page_bytes, team, &seconds[i], &memory, &why);
	if (team) {
		like.all_cores = all_cores;
		like.threads = rung__team_count(team);
	}
	rung__team_stop(team);
	if (rc == 0 && why)
		return rung__measure_absent(m, &like, 0, why);
	if (rc < 0)
		return rc;
	/* if the node has no cores, CPUs of another node touched the memory
	 * (rung__measure_team()) */
	like.cpu_node = m->nodes[idx].core_count ? like.memory_node : -1;
	rung__measure_note(&like, &memory); /* the shares of the last sample */
	return rung__measure_add_values(m, &like, 0, seconds, &pass, NULL);
}

/* One thread, then all cores. Too little memory is one absent result for both. */
static int touch_pages(struct rung__measuring *m, size_t idx, uint64_t page_bytes)
{
	const char *why = rung__measure_no_memory(m, idx, buffer_bytes(m));
	const struct rung_numa_result like = blank(m, RUNG_NUMA_TOUCH, idx, page_bytes);
	int rc;

	if (why)
		return rung__measure_absent(m, &like, 0, why);
	rc = touch_by(m, idx, page_bytes, 0);
	return rc < 0 ? rc : touch_by(m, idx, page_bytes, 1);
}

int rung__measure_touch(struct rung__measuring *m)
{
	rung__measure_step(m, m->node_count * 4); /* two page sizes, one thread and all cores */
	return each_size(m, touch_pages);
}

/* ---- registering ---- */

#if RUNG_HAVE_IO_URING
/* Work of the registering thread. */
struct registering {
	struct io_uring *ring;
	struct iovec memory; /* touched */
	double *seconds;     /* [samples] */
	uint32_t samples;
	int err; /* 0, or errno of the first refusal, which ends the work */
};

/* Take all samples on one thread. Undoing a registration is not timed. */
static void register_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	struct registering *r = ctx;

	(void)rank;
	(void)count;
	(void)passes;
	for (uint32_t i = 0; i < r->samples && r->err == 0; i++) {
		const uint64_t begin_ns = rung__measure_ns();

		r->err = -io_uring_register_buffers(r->ring, &r->memory, 1);
		r->seconds[i] = (double)(rung__measure_ns() - begin_ns) / 1e9;
		if (r->err == 0)
			io_uring_unregister_buffers(r->ring);
	}
}

/* Reason for a refusal. The kernel charges registered memory to RLIMIT_MEMLOCK, which is the usual
 * cause of ENOMEM. */
static const char *why_refused(struct rung__measuring *m, int err)
{
	struct rlimit limit;

	if (err == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY)
		return rung__measure_text(m,
		                          "registering %" PRIu64 " MiB: %s (ulimit -l is %llu KiB)",
		                          buffer_bytes(m) >> 20, strerror(err),
		                          (unsigned long long)limit.rlim_cur / 1024);
	return rung__measure_text(m, "registering %" PRIu64 " MiB: %s", buffer_bytes(m) >> 20,
	                          strerror(err));
}

/* Measure touched memory with a ring of one entry: registering uses no queue. Containers may forbid
 * io_uring; the result is then absent. */
static int register_memory(struct rung__measuring *m, size_t idx, struct rung_numa_result *like,
                           const struct rung__measure_memory *memory)
{
	const struct rung__measure_pass pass = { .gib = (double)memory->bytes / GIB };
	struct io_uring ring;
	struct registering r = { .ring = &ring,
		                 .memory = { memory->base, (size_t)memory->bytes },
		                 .samples = m->opts.samples };
	struct rung__team *team;
	int rc = io_uring_queue_init(1, &ring, 0);

	if (rc < 0)
		return rung__measure_absent(m, like, 0,
		                            rung__measure_text(m, "io_uring: %s", strerror(-rc)));
	rc = rung__measure_samples(m, r.samples, &r.seconds);
	if (rc == 0)
		rc = rung__measure_next(m, like);
	if (rc == 0)
		rc = rung__measure_team(m, idx, false, &team);
	if (rc == 0) {
		rung__team_run(team, register_work, &r, 1);
		rung__team_stop(team);
	}
	io_uring_queue_exit(&ring);
	if (rc < 0)
		return rc;
	if (r.err)
		return rung__measure_absent(m, like, 0, why_refused(m, r.err));
	return rung__measure_add_values(m, like, 0, r.seconds, &pass, NULL);
}
#else
static int register_memory(struct rung__measuring *m, size_t idx, struct rung_numa_result *like,
                           const struct rung__measure_memory *memory)
{
	(void)idx;
	(void)memory;
	return rung__measure_absent(
		m, like, 0,
		rung__measure_text(m, "rung was built without io_uring: %s", RUNG_WHY_IO_URING));
}
#endif

/* The memory is touched first: otherwise pinning would include the cost of the first touch. */
static int register_pages(struct rung__measuring *m, size_t idx, uint64_t page_bytes)
{
	struct rung_numa_result like = blank(m, RUNG_NUMA_REGISTER, idx, page_bytes);
	struct rung__measure_memory memory;
	const char *why;
	int rc = rung__measure_alloc(m, idx, buffer_bytes(m), page_bytes, &memory, &why);

	like.kind = "io_uring";
	if (rc < 0)
		return rc;
	if (!why) {
		why = wrong_pages(m, &memory, page_bytes);
		like.all_cores = 0;
		like.threads = 1;
		like.cpu_node = m->nodes[idx].core_count ? like.memory_node : -1;
		rung__measure_note(&like, &memory);
	}
	rc = why ? rung__measure_absent(m, &like, 0, why) : register_memory(m, idx, &like, &memory);
	rung__measure_release(&memory);
	return rc;
}

int rung__measure_register(struct rung__measuring *m)
{
	rung__measure_step(m, m->node_count * 2);
	return each_size(m, register_pages);
}
