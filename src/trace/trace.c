/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: counting requests, keeping their order, and the hits of tiers that do not change.
 *
 * The counts are all that static tiers need: a tier with the first n rows of an order has the
 * requests of these rows as hits. The order of the requests is kept for LRU and Belady's rule only,
 * and only up to opts.kept_max.
 */
#include <string.h>

#include "trace/state.h"

#define KEPT_DEFAULT (UINT64_C(1) << 26) /* requests */
#define KEPT_FIRST   (UINT64_C(1) << 16) /* capacity of the first allocation */
#define DIGIT_BITS   11u                 /* bits per pass of sort_descending() */
#define DIGIT_VALUES (1u << DIGIT_BITS)

int rung_trace_create(const struct rung_trace_opts *caller_opts, struct rung_trace **trace_out)
{
	struct rung_trace_opts opts = RUNG_TRACE_OPTS_INIT;
	struct rung_trace *trace;
	int rc = rung__opts_copy_in(&opts, sizeof(opts), caller_opts, "rung_trace_opts");

	if (rc < 0)
		return rc;
	if (opts.vertex_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "trace: vertex_count is 0; set it to the number of rows");
	if (opts.kept_max == 0)
		opts.kept_max = KEPT_DEFAULT;
	trace = rung__zalloc(sizeof(*trace));
	if (!trace)
		return rung__fail(RUNG_E_NOMEM, "trace: no memory");
	trace->opts = opts;
	/* the largest value of a time is reserved and means "never" */
	trace->id_bytes = opts.vertex_count <= UINT32_MAX && opts.kept_max <= UINT32_MAX ? 4 : 8;
	trace->counts = rung__zalloc_array(opts.vertex_count, sizeof(*trace->counts));
	if (!trace->counts) {
		rung_trace_destroy(trace);
		return rung__fail(RUNG_E_NOMEM, "trace over %" PRIu64 " rows: no memory",
		                  opts.vertex_count);
	}
	*trace_out = trace;
	return 0;
}

void rung_trace_destroy(struct rung_trace *trace)
{
	if (!trace)
		return;
	rung__free(trace->counts);
	rung__free(trace->kept);
	rung__free(trace);
}

/* Grow `kept` for this many more requests, by doubling, up to kept_max. */
static int reserve(struct rung_trace *trace, uint64_t more)
{
	uint64_t wanted = RUNG__MAX(trace->kept_capacity, KEPT_FIRST);
	void *grown;

	while (wanted < trace->kept_count + more)
		wanted *= 2;
	wanted = RUNG__MIN(wanted, RUNG__MAX(trace->opts.kept_max, trace->kept_count + more));
	if (wanted <= trace->kept_capacity)
		return 0;
	grown = rung__realloc_array(trace->kept, wanted, trace->id_bytes);
	if (!grown)
		return rung__fail(RUNG_E_NOMEM,
		                  "trace: no memory for %" PRIu64 " requests; reduce kept_max",
		                  wanted);
	trace->kept = grown;
	trace->kept_capacity = wanted;
	return 0;
}

int rung_trace_add(struct rung_trace *trace, const uint64_t *rows, uint64_t row_count)
{
	const uint64_t kept = RUNG__MIN(row_count, trace->opts.kept_max - trace->kept_count);
	int rc;

	/* all checks and allocations come first, so that after a failure nothing has been
	 * appended */
	for (uint64_t i = 0; i < row_count; i++) {
		if (rows[i] >= trace->opts.vertex_count)
			return rung__fail(RUNG_E_RANGE,
			                  "trace: request %" PRIu64
			                  " of a batch is for row %" PRIu64
			                  ", but the trace has only %" PRIu64 " rows",
			                  i, rows[i], trace->opts.vertex_count);
	}
	rc = reserve(trace, kept);
	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < kept; i++)
		rung__id_set(trace->kept, trace->id_bytes, trace->kept_count + i, rows[i]);
	for (uint64_t i = 0; i < row_count; i++)
		trace->counts[rows[i]]++;
	trace->kept_count += kept;
	trace->requests += row_count;
	return 0;
}

const uint64_t *rung_trace_counts(const struct rung_trace *trace)
{
	return trace->counts;
}

uint64_t rung_trace_requests(const struct rung_trace *trace)
{
	return trace->requests;
}

uint64_t rung_trace_kept(const struct rung_trace *trace)
{
	return trace->kept_count;
}

int rung__trace_check_sizes(const struct rung_trace *trace, const uint64_t *sizes,
                            uint32_t size_count)
{
	for (uint32_t s = 0; s < size_count; s++) {
		if (sizes[s] > trace->opts.vertex_count || (s && sizes[s] < sizes[s - 1]))
			return rung__fail(
				RUNG_E_INVAL,
				"trace: sizes[%" PRIu32 "] is %" PRIu64
				"; sizes must not decrease or exceed the row count %" PRIu64,
				s, sizes[s], trace->opts.vertex_count);
	}
	return 0;
}

int rung_trace_static_hits(const struct rung_trace *trace, const void *order, unsigned index_bytes,
                           const uint64_t *sizes, uint32_t size_count, uint64_t *hits_out)
{
	uint64_t hits = 0, i = 0;
	int rc = rung__trace_check_sizes(trace, sizes, size_count);

	if (rc < 0)
		return rc;
	/* sizes ascend, so each tier continues where the previous one ended */
	for (uint32_t s = 0; s < size_count; s++) {
		for (; i < sizes[s]; i++) {
			const uint64_t row = order ? rung__id_get(order, index_bytes, i) : i;

			if (row >= trace->opts.vertex_count)
				return rung__fail(RUNG_E_RANGE,
				                  "trace: order[%" PRIu64 "] is %" PRIu64
				                  ", but the trace has only %" PRIu64 " rows",
				                  i, row, trace->opts.vertex_count);
			hits += trace->counts[row];
		}
		hits_out[s] = hits;
	}
	return 0;
}

/* Sort counts in descending order: a radix sort that skips digits above those of the largest. Only
 * the counts are sorted, because the oracle's hits do not need the rows. @param other  [row_count]
 * scratch space */
static void sort_descending(uint64_t *counts, uint64_t *other, uint64_t row_count, uint64_t largest)
{
	uint64_t starts[DIGIT_VALUES];

	for (unsigned shift = 0; shift < 64 && largest >> shift; shift += DIGIT_BITS) {
		uint64_t sum = 0;

		memset(starts, 0, sizeof(starts));
		for (uint64_t i = 0; i < row_count; i++)
			starts[counts[i] >> shift & (DIGIT_VALUES - 1)]++;
		for (unsigned digit = DIGIT_VALUES; digit-- > 0;) {
			const uint64_t here = starts[digit];

			starts[digit] = sum;
			sum += here;
		}
		for (uint64_t i = 0; i < row_count; i++)
			other[starts[counts[i] >> shift & (DIGIT_VALUES - 1)]++] = counts[i];
		memcpy(counts, other, row_count * sizeof(*counts));
	}
}

int rung_trace_oracle_hits(const struct rung_trace *trace, const uint64_t *sizes,
                           uint32_t size_count, uint64_t *hits_out)
{
	const uint64_t row_count = trace->opts.vertex_count;
	uint64_t *counts, *other, hits = 0, i = 0, largest = 0;
	int rc = rung__trace_check_sizes(trace, sizes, size_count);

	if (rc < 0)
		return rc;
	counts = rung__malloc_array(row_count, sizeof(*counts));
	other = rung__malloc_array(row_count, sizeof(*other));
	if (!counts || !other) {
		rc = rung__fail(RUNG_E_NOMEM, "oracle of %" PRIu64 " rows: no memory", row_count);
		goto out;
	}
	memcpy(counts, trace->counts, row_count * sizeof(*counts));
	for (uint64_t row = 0; row < row_count; row++)
		largest = RUNG__MAX(largest, counts[row]);
	sort_descending(counts, other, row_count, largest);
	for (uint32_t s = 0; s < size_count; s++) {
		for (; i < sizes[s]; i++)
			hits += counts[i];
		hits_out[s] = hits;
	}
out:
	rung__free(counts);
	rung__free(other);
	return rc;
}
