/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes a second between the CPUs of a node and the memory of a node, counted as STREAM does. */
#include "measure.h"

static const struct {
	const char *name;
	unsigned arrays;   /* that a pass reads or writes */
} kinds[RUNG__STREAM_COUNT] = {
	[RUNG__STREAM_READ] = { "read", 1 },
	[RUNG__STREAM_WRITE] = { "write", 1 },
	[RUNG__STREAM_COPY] = { "copy", 2 },
	[RUNG__STREAM_TRIAD] = { "triad", 3 },
};

struct stream {
	unsigned kind;
	double *a, *b, *c;
	uint64_t lines;   /* of each, of 256 bytes */
};

static void stream_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	const struct stream *stream = ctx;
	const uint64_t begin = stream->lines * rank / count * 32, end = stream->lines * (rank + 1) / count * 32;

	for (uint64_t i = 0; i < passes; i++)
		rung__stream_pass(stream->kind, stream->a + begin, stream->b + begin, stream->c + begin, end - begin);
}

static struct rung_numa_result blank(const struct rung__measuring *m, size_t cpu_idx, size_t memory_idx, unsigned kind, int all_cores)
{
	const struct rung__measure_node *node = &m->nodes[cpu_idx];
	struct rung_numa_result result = rung__measure_blank(RUNG_NUMA_BANDWIDTH);

	result.kind = kinds[kind].name;
	result.cpu_node = (int)node->node->node;
	result.memory_node = (int)m->nodes[memory_idx].node->node;
	result.all_cores = all_cores;
	result.threads = all_cores ? node->core_count : RUNG__MIN(node->core_count, 1u);
	result.buffer_bytes = m->nodes[memory_idx].array_bytes;
	result.advised_bytes = m->array_bytes_advised;
	return result;
}

static int measure_kind(struct rung__measuring *m, const struct rung__measure_place *place, struct rung__team *team, int all_cores, unsigned kind)
{
	const uint64_t bytes = m->nodes[place->memory_idx].array_bytes;
	struct stream stream = {
		.kind = kind,
		.a = (double *)(void *)place->memory->base,
		.b = (double *)(void *)(place->memory->base + bytes),
		.c = (double *)(void *)(place->memory->base + 2 * bytes),
		.lines = bytes / 256,
	};
	struct rung_numa_result like = blank(m, place->cpu_idx, place->memory_idx, kind, all_cores), *result;
	double *seconds;
	int rc = rung__measure_passes(m, team, stream_work, &stream, &seconds);

	like.placed_share = place->memory->placed_share;
	like.huge_share = place->memory->huge_share;
	if (rc == 0)
		rc = rung__measure_add(m, &like, kind, &result);
	if (rc == 0)
		rc = rung__measure_set(m, &result->bytes_per_s, seconds,
		                       (double)bytes * kinds[kind].arrays, false);
	return rc;
}

static int measure(struct rung__measuring *m, const struct rung__measure_place *place)
{
	const struct rung__measure_node *node = &m->nodes[place->cpu_idx];
	int rc = 0;

	for (int all_cores = 1; all_cores >= 0 && rc == 0; all_cores--) {
		struct rung__team *team;

		rc = rung__team_start(node->cores, all_cores ? node->core_count : 1, &team);
		if (rc < 0)
			return rc;
		for (unsigned kind = 0; kind < RUNG__STREAM_COUNT && rc == 0; kind++)
			rc = measure_kind(m, place, team, all_cores, kind);
		rung__team_stop(team);
	}
	return rc;
}

static int absent(struct rung__measuring *m, size_t cpu_idx, size_t memory_idx, const char *why)
{
	int rc = 0;

	for (int all_cores = 1; all_cores >= 0; all_cores--) {
		for (unsigned kind = 0; kind < RUNG__STREAM_COUNT && rc == 0; kind++) {
			struct rung_numa_result like = blank(m, cpu_idx, memory_idx, kind, all_cores);

			rc = rung__measure_absent(m, &like, kind, why);
		}
	}
	return rc;
}

static uint64_t three_arrays(const struct rung__measuring *m, size_t memory_idx)
{
	return 3 * m->nodes[memory_idx].array_bytes;
}

int rung__measure_bandwidth(struct rung__measuring *m)
{
	const struct rung__measure_pairs pairs = { three_arrays, measure, absent };

	rung__measure_step(m, RUNG_NUMA_BANDWIDTH, m->node_count * m->node_count * RUNG__STREAM_COUNT * 2);
	return rung__measure_each(m, &pairs);
}
