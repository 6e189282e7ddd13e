/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds from the CPUs of a node to the memory of a node: of one dependent load, alone and while other cores read. */
#include <stdatomic.h>

#include "measure.h"

#define HOPS 65536u              /* of a pass */
#define CHUNK_DOUBLES 512u       /* that an injecting core reads between two pauses: a page */

/* How often an injecting core says "pause" behind each page it reads; 0: never. A pause takes 10 to 60 ns. */
static const uint32_t pauses[] = { 128, 32, 16, 8, 4, 2, 0 };
static const uint32_t pauses_quick[] = { 32, 8, 0 };

struct background_load {
	void *at;                       /* of the chase */
	const double *lines;            /* that are injected from */
	uint64_t line_count;            /* of pages */
	uint32_t pause_count;
	uint64_t begin_ns, end_ns;
	_Atomic(bool) over;
	_Atomic(uint64_t) injected_bytes;
};

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

static void inject(struct background_load *load, uint32_t rank, uint32_t count)
{
	const uint64_t begin = load->line_count * rank / count, end = load->line_count * (rank + 1) / count;
	uint64_t at = begin, pages = 0;

	while (!atomic_load_explicit(&load->over, memory_order_relaxed)) {
		rung__stream_pass(RUNG__STREAM_READ, NULL, load->lines + at * CHUNK_DOUBLES, NULL, CHUNK_DOUBLES);
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
	load->begin_ns = rung__now_ns();
	load->at = rung__chase(load->at, passes * HOPS);
	load->end_ns = rung__now_ns();
	atomic_store(&load->over, true);
}

static struct rung_numa_result blank(const struct rung__measuring *m, enum rung_numa_matrix matrix, size_t cpu_idx, size_t memory_idx)
{
	struct rung_numa_result result = rung__measure_blank(matrix);

	result.cpu_node = (int)m->nodes[cpu_idx].node->node;
	result.memory_node = (int)m->nodes[memory_idx].node->node;
	result.all_cores = matrix == RUNG_NUMA_LOADED;
	result.buffer_bytes = m->nodes[memory_idx].array_bytes;
	result.advised_bytes = m->array_bytes_advised;
	return result;
}

/* The chase's circle, in the first array. */
static int make_chase(const struct rung__measuring *m, const struct rung__measure_place *place,
                      void **at_out)
{
	const uint64_t pages = m->nodes[place->memory_idx].array_bytes / RUNG__PAGE_BYTES;
	uint32_t *order = rung__malloc_array(pages, sizeof(*order));

	if (!order)
		return rung__fail(RUNG_E_NOMEM, "measuring: out of memory");
	*at_out = rung__chase_make(place->memory->base, pages, order);
	rung__free(order);
	return 0;
}

/* ---- idle ---- */

static int measure_idle(struct rung__measuring *m, const struct rung__measure_place *place)
{
	struct rung_numa_result like = blank(m, RUNG_NUMA_LATENCY, place->cpu_idx, place->memory_idx), *result;
	struct background_load load = { 0 };
	struct rung__team *team;
	double *seconds;
	int rc = make_chase(m, place, &load.at);

	if (rc == 0)
		rc = rung__team_start(m->nodes[place->cpu_idx].cores, 1, &team);
	if (rc < 0)
		return rc;
	rc = rung__measure_passes(m, team, load_work, &load, &seconds);
	rung__team_stop(team);
	like.threads = 1;
	like.placed_share = place->memory->placed_share;
	like.huge_share = place->memory->huge_share;
	if (rc == 0)
		rc = rung__measure_add(m, &like, 0, &result);
	if (rc == 0)
		rc = rung__measure_set(m, &result->latency_ns, seconds, HOPS / 1e9, true);
	if (rc == 0)
		*rung__measure_latency_of(m, place->cpu_idx, place->memory_idx) = result->latency_ns.median;
	return rc;
}

static int absent_idle(struct rung__measuring *m, size_t cpu_idx, size_t memory_idx, const char *why)
{
	const struct rung_numa_result like = blank(m, RUNG_NUMA_LATENCY, cpu_idx, memory_idx);

	return rung__measure_absent(m, &like, 0, why);
}

static uint64_t one_array(const struct rung__measuring *m, size_t memory_idx)
{
	return m->nodes[memory_idx].array_bytes;
}

int rung__measure_latency(struct rung__measuring *m)
{
	const struct rung__measure_pairs pairs = { one_array, measure_idle, absent_idle };

	rung__measure_step(m, RUNG_NUMA_LATENCY, m->node_count * m->node_count);
	return rung__measure_each(m, &pairs);
}

/* ---- loaded ---- */

static uint32_t level_count(const struct rung__measuring *m)
{
	return 1 + (uint32_t)(m->opts.quick ? RUNG__ARRAY_LEN(pauses_quick) : RUNG__ARRAY_LEN(pauses));
}

/* Passes are calibrated anew, because a loaded chase takes longer; both values come from the same runs. */
static int measure_level(struct rung__measuring *m, const struct rung__measure_place *place, struct background_load *load, uint32_t level)
{
	const struct rung__measure_node *node = &m->nodes[place->cpu_idx];
	struct rung_numa_result like = blank(m, RUNG_NUMA_LOADED, place->cpu_idx, place->memory_idx), *result = NULL;
	const uint32_t samples = m->opts.samples;
	double *chase_s = rung__malloc_array(2 * (uint64_t)samples, sizeof(*chase_s)), *byte_s = chase_s + samples;
	struct rung__team *team;
	uint64_t passes = 1;
	int rc;

	if (!chase_s)
		return rung__fail(RUNG_E_NOMEM, "measuring: out of memory");
	rc = rung__team_start(node->cores, level ? node->core_count : 1, &team);
	if (rc < 0)
		goto free_samples;
	load->pause_count = level == 0 ? 0 : m->opts.quick ? pauses_quick[level - 1] : pauses[level - 1];
	for (uint32_t i = 0; i < samples + 1; i++) {   /* the first says how long a pass takes */
		double seconds;

		atomic_store(&load->over, false);
		atomic_store(&load->injected_bytes, 0);
		rung__team_run(team, load_work, load, passes);
		seconds = (double)(load->end_ns - load->begin_ns) / 1e9;
		if (i > 0) {
			chase_s[i - 1] = seconds / (double)passes;
			byte_s[i - 1] = seconds / RUNG__MAX((double)atomic_load(&load->injected_bytes), 1);
		} else {
			passes = 1 + (uint64_t)(1.1 * m->opts.sample_seconds / seconds);
		}
	}
	rung__team_stop(team);
	like.level = level;
	like.threads = level ? node->core_count - 1 : 0;
	like.placed_share = place->memory->placed_share;
	like.huge_share = place->memory->huge_share;
	rc = rung__measure_add(m, &like, 0, &result);
	if (rc == 0)
		rc = rung__measure_set(m, &result->latency_ns, chase_s, HOPS / 1e9, true);
	if (rc == 0 && level > 0)
		rc = rung__measure_set(m, &result->bytes_per_s, byte_s, 1, false);
free_samples:
	rung__free(chase_s);
	return rc;
}

static int absent_loaded(struct rung__measuring *m, size_t cpu_idx, size_t memory_idx, const char *why)
{
	const struct rung_numa_result like = blank(m, RUNG_NUMA_LOADED, cpu_idx, memory_idx);

	return rung__measure_absent(m, &like, 0, why);
}

static int measure_loaded(struct rung__measuring *m, const struct rung__measure_place *place)
{
	const struct rung__measure_node *node = &m->nodes[place->cpu_idx];
	const uint64_t bytes = m->nodes[place->memory_idx].array_bytes;
	struct background_load load = {
		.lines = (const double *)(const void *)(place->memory->base + bytes),
		.line_count = 2 * bytes / RUNG__PAGE_BYTES,
	};
	int rc = 0;

	if (node->core_count < 2)
		return absent_loaded(m, place->cpu_idx, place->memory_idx,
		                     rung__measure_text(m, "node %" PRIu32 " has one core that may be used: none is left to read meanwhile",
		                                        node->node->node));
	rc = make_chase(m, place, &load.at);
	for (uint32_t level = 0; level < level_count(m) && rc == 0; level++)
		rc = measure_level(m, place, &load, level);
	return rc;
}

static uint64_t three_arrays(const struct rung__measuring *m, size_t memory_idx)
{
	return 3 * m->nodes[memory_idx].array_bytes;
}

int rung__measure_loaded(struct rung__measuring *m)
{
	const struct rung__measure_pairs pairs = { three_arrays, measure_loaded, absent_loaded };

	rung__measure_step(m, RUNG_NUMA_LOADED, m->node_count * m->node_count * level_count(m));
	return rung__measure_each(m, &pairs);
}
