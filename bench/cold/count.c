/* SPDX-License-Identifier: Apache-2.0 */
/* The hits that are possible on a trace: by the static order, and by a cache that knows the whole
 * trace (rung_trace_belady_hits()). The rows of a batch are counted in ascending order, each once,
 * because rung deduplicates and sorts a batch before it reads. */
#include <stdlib.h>
#include <string.h>

#include "cold.h"

static int by_rank(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Moves the distinct ranks to the front, ascending. @return their number */
static uint64_t sort_each_once(uint64_t *ranks, uint64_t count)
{
	uint64_t kept = 0;

	qsort(ranks, count, sizeof(*ranks), by_rank);
	for (uint64_t i = 0; i < count; i++) {
		if (kept == 0 || ranks[kept - 1] != ranks[i])
			ranks[kept++] = ranks[i];
	}
	return kept;
}

static struct rung_trace *create_trace(const struct cold_batch *batches, uint64_t batch_count,
                                       uint64_t capacity, uint64_t *rank_end_out)
{
	struct rung_trace_opts opts = RUNG_TRACE_OPTS_INIT;
	struct rung_trace *trace;

	opts.vertex_count = capacity + 1; /* a trace needs at least as many rows as its tiers */
	for (uint64_t b = 0; b < batch_count; b++) {
		opts.kept_max += batches[b].count;
		for (uint64_t i = 0; i < batches[b].count; i++) {
			if (batches[b].ranks[i] >= opts.vertex_count)
				opts.vertex_count = batches[b].ranks[i] + 1;
		}
	}
	bench_need(rung_trace_create(&opts, &trace), "creating the trace");
	*rank_end_out = opts.vertex_count;
	return trace;
}

void cold_count(const struct cold_batch *batches, uint64_t batch_count, uint64_t from,
                uint64_t resident, uint64_t capacity, struct cold_counts *counts_out)
{
	uint64_t rank_end, room = 1, before = 0;
	struct rung_trace *trace = create_trace(batches, batch_count, capacity, &rank_end);
	uint64_t *ranks;

	for (uint64_t b = 0; b < batch_count; b++)
		room = batches[b].count > room ? batches[b].count : room;
	ranks = malloc(room * sizeof(*ranks));
	if (!ranks)
		bench_die("out of memory");
	*counts_out = (struct cold_counts){ 0 };
	for (uint64_t b = 0; b < batch_count; b++) {
		uint64_t count;

		if (b == from)
			before = rung_trace_requests(trace);
		memcpy(ranks, batches[b].ranks, batches[b].count * sizeof(*ranks));
		count = sort_each_once(ranks, batches[b].count);
		for (uint64_t i = 0; i < count && b >= from; i++)
			counts_out->static_hits += ranks[i] < resident + capacity;
		bench_need(rung_trace_add(trace, ranks, count), "adding to the trace");
	}
	free(ranks);
	counts_out->rows = rung_trace_requests(trace) - before;
	/* over the whole trace, also before `from` */
	for (uint64_t rank = 0; rank < rank_end; rank++)
		counts_out->distinct_rows += rung_trace_counts(trace)[rank] > 0;
	bench_need(rung_trace_belady_hits(trace, before, &capacity, 1, &counts_out->belady_hits),
	           "computing Belady's hits");
	rung_trace_destroy(trace);
}
