/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures bytes per second between the CPUs of a node and the memory of a node, counted as STREAM
 * does: each array that a loop names counts once per pass.
 *
 * The three arrays are parts of one allocation on the memory's node (rung__measure_three_arrays()).
 * The loops are in measure_kernels.c; they use streaming stores, so that the counted bytes are the
 * transferred ones.
 */
#include "measure.h"

static const struct {
	const char *name;
	unsigned arrays; /* number of arrays that a pass reads or writes, and whose bytes count */
} kinds[RUNG__STREAM_COUNT] = {
	[RUNG__STREAM_READ] = { "read", 1 },
	[RUNG__STREAM_WRITE] = { "write", 1 },
	[RUNG__STREAM_COPY] = { "copy", 2 },
	[RUNG__STREAM_TRIAD] = { "triad", 3 },
};

/* Work of a team; arrays as in rung__stream_pass(). */
struct stream {
	unsigned kind; /* RUNG__STREAM_* */
	double *a, *b, *c;
	/* number of lines per array; a line has 256 bytes: the 32 doubles of an unrolled
	 * iteration */
	uint64_t lines;
};

/* One thread's part of all arrays: whole lines, as rung__stream_pass() requires. */
static void stream_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	const struct stream *stream = ctx;
	const uint64_t begin = stream->lines * rank / count * 32,
		       end = stream->lines * (rank + 1) / count * 32;

	for (uint64_t i = 0; i < passes; i++)
		rung__stream_pass(stream->kind, stream->a + begin, stream->b + begin,
		                  stream->c + begin, end - begin);
}

/* Add the result of one loop. `kind` is also the group by which the results are sorted, so they are
 * in the order of the loops. */
static int measure_kind(struct rung__measuring *m, const struct rung__measure_pair *pair,
                        struct rung__team *team, int all_cores, unsigned kind)
{
	const uint32_t cores = m->nodes[pair->cpu_idx].core_count;
	const uint64_t bytes = m->nodes[pair->memory_idx].array_bytes;
	const struct rung__measure_pass pass = { .bytes = (double)bytes * kinds[kind].arrays };
	struct rung_numa_result like = rung__measure_of_pair(m, RUNG_NUMA_BANDWIDTH, pair);
	struct stream stream = { .kind = kind, .lines = bytes / 256 };
	struct rung__team_work work = { team, stream_work, &stream };
	double *seconds;
	int rc;

	like.kind = kinds[kind].name;
	like.all_cores = all_cores;
	like.threads = all_cores ? cores : RUNG__MIN(cores, 1u);
	if (pair->why) /* no team was started */
		return rung__measure_absent(m, &like, kind, pair->why);
	stream.a = (double *)(void *)pair->memory->base;
	stream.b = (double *)(void *)(pair->memory->base + bytes);
	stream.c = (double *)(void *)(pair->memory->base + 2 * bytes);
	rc = rung__measure_next(m, &like);
	if (rc == 0)
		rc = rung__measure_passes(m, rung__measure_by_team, &work, &seconds);
	return rc < 0 ? rc : rung__measure_add_values(m, &like, kind, seconds, &pass, NULL);
}

/* All loops by all cores, then all loops by one. */
static int measure(struct rung__measuring *m, const struct rung__measure_pair *pair)
{
	int rc = 0;

	for (int all_cores = 1; all_cores >= 0 && rc == 0; all_cores--) {
		struct rung__team *team = NULL;

		if (!pair->why)
			rc = rung__measure_team(m, pair->cpu_idx, all_cores, &team);
		for (unsigned kind = 0; kind < RUNG__STREAM_COUNT && rc == 0; kind++)
			rc = measure_kind(m, pair, team, all_cores, kind);
		rung__team_stop(team);
	}
	return rc;
}

int rung__measure_bandwidth(struct rung__measuring *m)
{
	rung__measure_step(m, m->node_count * m->node_count * RUNG__STREAM_COUNT * 2);
	return rung__measure_each(m, rung__measure_three_arrays, measure);
}
