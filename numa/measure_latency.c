/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the latency from the CPUs of a node to the memory of a node, in nanoseconds per
 * dependent load, alone and while other cores read.
 *
 * One core follows a pointer chase (rung__chase()). For loaded latencies the other cores of the
 * node inject load: they read from the same memory node, with pauses that get shorter from level to
 * level. A level gives both the latency and the bandwidth that was read at the same time.
 */
#include <stdatomic.h>

#include "measure.h"

#define HOPS 65536u /* number of hops in a pass */
/* an injecting core pauses after this many doubles, which are one page */
#define CHUNK_DOUBLES 512u

/* Number of pause instructions of an injecting core after each page that it reads, for level 1 and
 * up; 0: no pauses. A pause takes 10 to 60 ns. */
static const uint32_t pauses[] = { 128, 32, 16, 8, 4, 2, 0 };
static const uint32_t pauses_quick[] = { 32, 8, 0 };

/* Work of a team: thread 0 chases, the others inject. */
struct background_load {
	void *at;                         /* position of the chase, kept for the next run */
	const double *lines;              /* memory that the injecting cores read */
	uint64_t line_count;              /* its size in chunks of a page */
	uint32_t pause_count;             /* number of pauses after each page */
	uint64_t begin_ns, end_ns;        /* begin and end of the chase alone */
	_Atomic(bool) over;               /* set at the end of the chase: stop injecting */
	_Atomic(uint64_t) injected_bytes; /* total of all cores, which add to it when they stop */
};

/* Delay a core without memory traffic. */
static void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#else
	__asm__ volatile("" : : : "memory");
#endif
}

/* Read one of `count` parts of the memory in a loop, page by page, until the chase is over. */
static void inject(struct background_load *load, uint32_t rank, uint32_t count)
{
	const uint64_t begin = load->line_count * rank / count,
		       end = load->line_count * (rank + 1) / count;
	uint64_t at = begin, pages = 0;

	while (!atomic_load_explicit(&load->over, memory_order_relaxed)) {
		rung__stream_pass(RUNG__STREAM_READ, NULL, load->lines + at * CHUNK_DOUBLES, NULL,
		                  CHUNK_DOUBLES);
		for (uint32_t i = 0; i < load->pause_count; i++)
			pause_cpu();
		at = at + 1 < end ? at + 1 : begin;
		pages++;
	}
	atomic_fetch_add(&load->injected_bytes, pages * CHUNK_DOUBLES * sizeof(double));
}

static void load_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	struct background_load *load = ctx;

	if (rank > 0) {
		inject(load, rank - 1, count - 1);
		return;
	}
	/* The time is that of the chase: the injecting cores stop a page later, so the team's time
	 * would be too long. */
	load->begin_ns = rung__now_ns();
	load->at = rung__chase(load->at, passes * HOPS);
	load->end_ns = rung__now_ns();
	atomic_store(&load->over, true);
}

/* Create the cycle of the chase in the first array of the pair's memory. */
static int make_chase(const struct rung__measuring *m, const struct rung__measure_pair *pair,
                      void **at_out)
{
	const uint64_t pages = m->nodes[pair->memory_idx].array_bytes / RUNG__PAGE_BYTES;
	uint32_t *order = rung__malloc_array(pages, sizeof(*order));

	if (!order)
		return rung__measure_out_of_memory();
	*at_out = rung__chase_make(pair->memory->base, pages, order);
	rung__free(order);
	return 0;
}

/* ---- idle ---- */

/* Add the idle latency of a pair and keep it for the gathers. */
static int measure_idle(struct rung__measuring *m, const struct rung__measure_pair *pair)
{
	static const struct rung__measure_pass pass = { .hops = HOPS };
	struct rung_numa_result like = rung__measure_of_pair(m, RUNG_NUMA_LATENCY, pair), *result;
	struct background_load load = { 0 };
	struct rung__team_work work = { NULL, load_work, &load };
	double *seconds;
	int rc;

	like.all_cores = 0;
	if (pair->why)
		return rung__measure_absent(m, &like, 0, pair->why);
	like.threads = 1;
	rc = rung__measure_next(m, &like);
	if (rc == 0)
		rc = make_chase(m, pair, &load.at);
	if (rc == 0)
		rc = rung__measure_team(m, pair->cpu_idx, false, &work.team);
	if (rc == 0)
		rc = rung__measure_passes(m, rung__measure_by_team, &work, &seconds);
	rung__team_stop(work.team);
	if (rc == 0)
		rc = rung__measure_add_values(m, &like, 0, seconds, &pass, &result);
	if (rc == 0)
		*rung__measure_latency_of(m, pair->cpu_idx, pair->memory_idx) =
			result->latency_ns.median;
	return rc;
}

int rung__measure_latency(struct rung__measuring *m)
{
	rung__measure_step(m, m->node_count * m->node_count);
	return rung__measure_each(m, rung__measure_one_array, measure_idle);
}

/* ---- loaded ---- */

/* Number of levels, including level 0, at which nothing is injected. */
static uint32_t level_count(const struct rung__measuring *m)
{
	return 1 +
	       (uint32_t)(m->opts.quick ? RUNG__ARRAY_LEN(pauses_quick) : RUNG__ARRAY_LEN(pauses));
}

/* Take the samples of a level. @param chase_s  seconds per pass of the chase
 * @param byte_s  seconds per byte that the other cores read at the same time */
static void run_level(const struct rung__measuring *m, struct rung__team *team,
                      struct background_load *load, double *chase_s, double *byte_s)
{
	uint64_t passes = 1;

	/* the first sample shows how long a pass takes */
	for (uint32_t i = 0; i < m->opts.samples + 1; i++) {
		double seconds;

		atomic_store(&load->over, false);
		atomic_store(&load->injected_bytes, 0);
		rung__team_run(team, load_work, load, passes);
		seconds = (double)(load->end_ns - load->begin_ns) / 1e9;
		if (i > 0) {
			chase_s[i - 1] = seconds / (double)passes;
			/* at least 1, because level 0 injects no bytes; its rate is not used */
			byte_s[i - 1] =
				seconds / RUNG__MAX((double)atomic_load(&load->injected_bytes), 1);
		} else { /* 10 % more, so that a faster sample is still long enough */
			passes = 1 + (uint64_t)(1.1 * m->opts.sample_seconds / seconds);
		}
	}
}

/* Add the result of a level. Passes are calibrated for each level, because a loaded chase takes
 * longer. Both values are from the same runs. */
static int measure_level(struct rung__measuring *m, const struct rung__measure_pair *pair,
                         struct background_load *load, uint32_t level, struct rung_numa_result like)
{
	static const struct rung__measure_pass pass = { .hops = HOPS };
	const uint32_t samples = m->opts.samples;
	struct rung_numa_result *result;
	struct rung__team *team;
	double *chase_s;
	int rc = rung__measure_samples(m, 2 * (size_t)samples, &chase_s);

	if (rc == 0)
		rc = rung__measure_next(m, &like);
	if (rc == 0) /* level 0 runs the chase alone */
		rc = rung__measure_team(m, pair->cpu_idx, level > 0, &team);
	if (rc < 0)
		return rc;
	if (level > 0)
		load->pause_count = (m->opts.quick ? pauses_quick : pauses)[level - 1];
	run_level(m, team, load, chase_s, chase_s + samples);
	like.level = level;
	like.threads = level ? rung__team_count(team) - 1 : 0; /* number of threads that inject */
	rung__team_stop(team);
	rc = rung__measure_add_values(m, &like, 0, chase_s, &pass, &result);
	if (rc == 0 && level > 0)
		rc = rung__measure_set_rate(m, &result->bytes_per_s, chase_s + samples, 1);
	return rc;
}

/* Add all levels of a pair. The chase uses the first array, the injecting cores the other two. */
static int measure_loaded(struct rung__measuring *m, const struct rung__measure_pair *pair)
{
	const struct rung__measure_node *node = &m->nodes[pair->cpu_idx];
	const uint64_t bytes = m->nodes[pair->memory_idx].array_bytes;
	struct rung__measure_pair here = *pair;
	struct background_load load = { .line_count = 2 * bytes / RUNG__PAGE_BYTES };
	struct rung_numa_result like;
	int rc;

	if (!here.why && node->core_count < 2) {
		here.why = rung__measure_text(m,
		                              "node %" PRIu32 " has only one usable core; a second "
		                              "one is needed to read at the same time",
		                              node->node->node);
		if (!here.why)
			return rung__measure_out_of_memory();
	}
	like = rung__measure_of_pair(m, RUNG_NUMA_LOADED, &here);
	like.all_cores = 1;
	if (here.why)
		return rung__measure_absent(m, &like, 0, here.why);
	load.lines = (const double *)(const void *)(pair->memory->base + bytes);
	rc = make_chase(m, pair, &load.at);
	for (uint32_t level = 0; level < level_count(m) && rc == 0; level++)
		rc = measure_level(m, pair, &load, level, like);
	return rc;
}

int rung__measure_loaded(struct rung__measuring *m)
{
	rung__measure_step(m, m->node_count * m->node_count * level_count(m));
	return rung__measure_each(m, rung__measure_three_arrays, measure_loaded);
}
