/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures gathers: random rows of a table are copied to a packed output by the library's own loop
 * (src/gather/gather.c), which each core runs separately.
 *
 * The gathers alternate with copies from the same memory, so that other load on the machine affects
 * both and hardly changes their ratio.
 *
 * By Little's law a core that receives r rows per second with a latency of l seconds has r x l rows
 * in flight. The loop prefetches 8 KiB ahead, at most 16 or 32 rows, and a core has a few tens of
 * fill buffers: one of these two limits applies to small rows.
 *
 * If memory allows, tables are as large as in training. They exceed the reach of the TLB,
 * especially in a virtual machine. bench/README.md has results.
 */

#include "gather/gather.h"
#include "measure.h"

/* Work of a team: the three parts of its memory, and their sizes. */
struct gather {
	unsigned char *table, *out;
	uint64_t *ids; /* [row_count] */
	/* rows of the table; rows gathered by all threads together */
	uint64_t table_rows, row_count;
	uint64_t row_bytes;
	uint64_t copy_bytes; /* bytes of the table that are copied to the output */
	_Atomic(int) failed; /* nonzero: a thread's gather was refused */
};

/* A thread's rows of the output, and their ids: whole blocks of 64, so that each part is aligned
 * for streaming vector stores. */
static void part_of(const struct gather *gather, uint32_t rank, uint32_t count, uint64_t *begin_out,
                    uint64_t *end_out)
{
	const uint64_t blocks = gather->row_count / 64;

	*begin_out = blocks * rank / count * 64;
	*end_out = blocks * (rank + 1) / count * 64;
}

/* Draw the ids, once for all passes and samples. They depend only on their position, so they are
 * the same for any number of threads and in each run. */
static void draw_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	const struct gather *gather = ctx;
	uint64_t begin, end;

	(void)passes;
	part_of(gather, rank, count, &begin, &end);
	for (uint64_t i = begin; i < end; i++)
		gather->ids[i] = rung__mix64(i) % gather->table_rows;
}

/* Gather a thread's rows with the library's loop, which runs on the calling thread. */
static void gather_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	struct gather *gather = ctx;
	const struct rung__view view = { gather->table, (size_t)gather->row_bytes, 0,
		                         gather->table_rows };
	struct rung__misses misses = { 0 }; /* every row is in the view */
	struct rung_ids ids = { .dtype = RUNG_U64 };
	struct rung__gather call = { .view = &view,
		                     .vertex_count = gather->table_rows,
		                     .row_bytes = (size_t)gather->row_bytes,
		                     .out_stride = (size_t)gather->row_bytes };
	uint64_t begin, end;

	part_of(gather, rank, count, &begin, &end);
	ids.data = gather->ids + begin;
	ids.count = end - begin;
	call.out = gather->out + begin * gather->row_bytes;
	for (uint64_t i = 0; i < passes; i++) {
		if (rung__gather_run(&call, &ids, &misses) < 0)
			gather->failed = 1;
	}
}

/* Bytes of a table, an array for the output, and the ids of as many of the smallest rows as fit in
 * an array. */
static uint64_t all_bytes(const struct rung__measuring *m, size_t memory_idx)
{
	const struct rung__measure_node *node = &m->nodes[memory_idx];

	return node->table_bytes + node->array_bytes +
	       rung__measure_ids_bytes(m, node->array_bytes);
}

/* Copy the first part of the table to the output, as much as fits there. Lines of 256 bytes, as
 * rung__stream_pass() requires. */
static void copy_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	const struct gather *gather = ctx;
	const uint64_t blocks = gather->copy_bytes / 256, begin = blocks * rank / count * 32,
		       end = blocks * (rank + 1) / count * 32;
	const double *from = (const double *)(const void *)gather->table;
	double *to = (double *)(void *)gather->out;

	for (uint64_t i = 0; i < passes; i++)
		rung__stream_pass(RUNG__STREAM_COPY, to + begin, from + begin, NULL, end - begin);
}

/* Calibrate both loops, then alternate them for each sample. @param seconds per pass: [samples] of
 * gathers, [samples] of copies, and as much scratch space for of_copy() */
static int interleave_loops(const struct rung__measuring *m, struct rung__team *team,
                            struct gather *gather, double *seconds)
{
	static const rung__work_fn turns[] = { gather_work, copy_work };
	uint64_t passes[2];
	int rc = 0;

	for (unsigned turn = 0; turn < 2 && rc == 0; turn++) {
		struct rung__team_work work = { team, turns[turn], gather };

		rc = rung__measure_calibrate(m, rung__measure_by_team, &work, &passes[turn]);
	}
	for (uint32_t i = 0; i < m->opts.samples && rc == 0; i++) {
		for (unsigned turn = 0; turn < 2; turn++)
			seconds[turn * m->opts.samples + i] =
				rung__team_run(team, turns[turn], gather, passes[turn]) /
				(double)passes[turn];
	}
	return rc;
}

/* Bandwidth of the gathers over that of the copies: median of the ratios of each turn, computed in
 * the scratch space. Both are bytes written: each byte is read and written once. */
static double of_copy(const struct gather *gather, double *seconds, uint32_t samples)
{
	double *ratios = seconds + 2 * (size_t)samples, *sorted = ratios + samples;

	for (uint32_t i = 0; i < samples; i++)
		ratios[i] = (double)(gather->row_count * gather->row_bytes) / seconds[i] /
		            ((double)gather->copy_bytes / seconds[samples + i]);
	return rung__measure_value(ratios, samples, sorted).median;
}

/* Add the result of one row size. `latency_ns` is the idle latency of the pair; it is NaN if
 * latencies were not measured, and then the numbers in flight are NaN too. */
static int add_rows(struct rung__measuring *m, const struct rung_numa_result *like,
                    const struct gather *gather, double *seconds, double latency_ns)
{
	const double bytes = (double)(gather->row_count * gather->row_bytes);
	const struct rung__measure_pass pass = {
		.bytes = 2.0 * bytes, /* counted like a copy */
		.items = (double)gather->row_count,
	};
	const uint64_t line = RUNG__MEASURE_LINE_BYTES, lines = (like->row_bytes + line - 1) / line;
	const uint32_t group = (uint32_t)like->row_bytes;
	struct rung_numa_result *result;
	int rc = rung__measure_add_values(m, like, group, seconds, &pass, &result);

	if (rc < 0)
		return rc;
	result->of_copy = of_copy(gather, seconds, m->opts.samples);
	result->rows_in_flight = result->per_s.median / result->threads * latency_ns / 1e9;
	result->lines_in_flight = result->rows_in_flight * (double)lines;
	return 0;
}

/* Measure one row size by one thread or by all cores. */
static int measure_rows(struct rung__measuring *m, const struct rung__measure_pair *pair,
                        int all_cores, uint64_t row_bytes)
{
	const uint64_t array_bytes = m->nodes[pair->memory_idx].array_bytes;
	const uint64_t table_bytes = m->nodes[pair->memory_idx].table_bytes;
	struct rung_numa_result like = rung__measure_of_pair(m, RUNG_NUMA_GATHER, pair);
	struct gather gather = {
		.table = pair->memory->base,
		.table_rows = table_bytes / row_bytes,
		.row_count = rung__align_down(array_bytes / row_bytes, 64),
		.row_bytes = row_bytes,
		.copy_bytes = array_bytes,
	};
	struct rung__team *team;
	double *seconds;
	int rc;

	like.all_cores = all_cores;
	like.row_bytes = row_bytes;
	like.buffer_bytes = table_bytes;
	/* the smallest table of a node with arrays of the advised size */
	like.advised_bytes = 2 * m->array_bytes_advised;
	if (pair->why)
		return rung__measure_absent(m, &like, (uint32_t)row_bytes, pair->why);
	gather.out = gather.table + table_bytes;
	gather.ids = (uint64_t *)(void *)(gather.out + array_bytes);
	/* seconds of gathers and copies, and two arrays of scratch space */
	rc = rung__measure_samples(m, 4 * (size_t)m->opts.samples, &seconds);
	if (rc == 0)
		rc = rung__measure_next(m, &like);
	if (rc == 0)
		rc = rung__measure_team(m, pair->cpu_idx, all_cores, &team);
	if (rc < 0)
		return rc;
	rung__team_run(team, draw_work, &gather, 1);
	rc = interleave_loops(m, team, &gather, seconds);
	like.threads = rung__team_count(team);
	rung__team_stop(team);
	if (rc == 0 && gather.failed)
		rc = rung__fail(RUNG_E_RANGE,
		                "measuring: the gather rejected an id that is in range");
	if (rc < 0)
		return rc;
	return add_rows(m, &like, &gather, seconds,
	                *rung__measure_latency_of(m, pair->cpu_idx, pair->memory_idx));
}

/* All row sizes, by all cores and by one. The ids are drawn again for each: they depend on the
 * number of rows. */
static int measure(struct rung__measuring *m, const struct rung__measure_pair *pair)
{
	int rc = 0;

	for (size_t i = 0; i < m->row_count && rc == 0; i++) {
		for (int all_cores = 1; all_cores >= 0 && rc == 0; all_cores--)
			rc = measure_rows(m, pair, all_cores, m->rows[i]);
	}
	return rc;
}

int rung__measure_gather(struct rung__measuring *m)
{
	rung__measure_step(m, m->node_count * m->node_count * m->row_count * 2);
	return rung__measure_each(m, all_bytes, measure);
}
