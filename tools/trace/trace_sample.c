/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epochs of rung trace: batches of shuffled train vertices are sampled in parallel, and their
 * requests are appended to the trace in the order of the batches. Also writes the number of
 * requests of each vertex.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"
#include "base/random.h"

/* The context of append_batch(). */
struct collecting {
	struct rung_trace *trace;
	struct trace_result *result; /* counts batches and edges */
	struct tool_progress *progress;
	uint64_t batches_in_all; /* of all epochs */
	uint32_t hop_count;
};

/* Append the requests of a sampled batch. The sampler calls it for one batch at a time and in their
 * order, on which LRU and Belady depend, so it needs no lock. @return a status */
static int append_batch(void *ctx, const struct rung_batch *batch, uint64_t idx, uint32_t thread)
{
	struct collecting *collecting = ctx;
	uint64_t row_count;
	const uint64_t *rows = rung_batch_vertices(batch, &row_count);
	int rc = rung_trace_add(collecting->trace, rows, row_count);

	(void)idx;
	(void)thread;
	if (rc < 0)
		return rc;
	for (uint32_t hop = 0; hop < collecting->hop_count; hop++)
		collecting->result->edges += rung_batch_block(batch, hop)->edge_count;
	collecting->result->batches++;
	/* the return value is not needed: there is no grace period, so a signal ends the process at
	 * once */
	tool_progress_update(collecting->progress, "sampling", collecting->result->batches,
	                     collecting->batches_in_all);
	return 0;
}

/* A uniform number below `limit`: numbers that would favour some remainders are rejected. */
static uint64_t below(struct rung__rng *stream, uint64_t limit)
{
	uint64_t value;

	while (!rung__bits_modulo(rung__rng_next(stream), limit, &value))
		;
	return value;
}

/* Every epoch shuffles the order of the previous one. @return a status */
static int sample_epochs(const struct trace_args *args, const struct trace_input *input,
                         struct rung_sampler *sampler, struct collecting *collecting)
{
	struct rung_minibatches batches = RUNG_MINIBATCHES_INIT;
	const uint64_t batches_per_epoch = (input->seed_count - 1) / input->batch + 1;
	struct rung__rng stream = { args->seed };
	uint64_t *order = malloc(input->seed_count * sizeof(*order));
	int rc = 0;

	if (!order)
		return RUNG_E_NOMEM;
	memcpy(order, input->seeds, input->seed_count * sizeof(*order));
	collecting->batches_in_all = batches_per_epoch * args->epochs;
	batches.seeds = order;
	batches.seed_count = input->seed_count;
	batches.batch_size = input->batch;
	for (uint32_t epoch = 0; epoch < args->epochs && rc == 0; epoch++) {
		rung__shuffle(order, input->seed_count, below, &stream);
		/* a batch's key determines its draws: each batch of each epoch has a different
		 * one */
		batches.key_first = epoch * batches_per_epoch;
		rc = rung_sampler_run(sampler, &batches, append_batch, collecting);
	}
	free(order);
	return rc;
}

/* @return a status */
static int count_reads(const struct tool_lists *lists, struct trace_result *result)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };
	int rc;

	if (!lists->structure)
		return 0;
	rc = rung_structure_stats(lists->structure, &stats);
	result->lists_in_file = 1;
	result->list_reads = stats.device_reads;
	result->list_read_bytes = stats.device_read_bytes;
	return rc;
}

int trace_sample(const char *name, const struct trace_args *args, const struct trace_input *input,
                 struct rung_trace *trace, struct trace_result *result)
{
	struct collecting collecting = { .trace = trace,
		                         .result = result,
		                         .progress = input->progress,
		                         .hop_count = input->fanouts.count };
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler *sampler;
	uint64_t begun_ns;
	int rc;

	opts.fanouts = input->fanouts.hops;
	opts.hop_count = input->fanouts.count;
	opts.seed = args->seed;
	opts.threads = args->common.threads;
	opts.draws = args->draws;
	rc = rung_sampler_create(tool_lists_for(&input->lists, &opts), &opts, &sampler);
	if (rc < 0)
		return tool_fail(name, rc), rc;
	begun_ns = tool_now_ns();
	rc = sample_epochs(args, input, sampler, &collecting);
	result->seconds = (double)(tool_now_ns() - begun_ns) / 1e9;
	result->requests = rung_trace_requests(trace);
	if (rc >= 0)
		rc = count_reads(&input->lists, result);
	rung_sampler_destroy(sampler);
	tool_progress_end(input->progress);
	if (rc < 0)
		tool_fail(name, rc);
	return rc;
}

int trace_write_counts(const char *name, const struct rung_dataset *ds,
                       const struct rung_trace *trace, struct tool_out *out)
{
	const uint64_t *counts = rung_trace_counts(trace);
	uint64_t count, *by_vertex;
	int rc, code;

	if (!out->file)
		return TOOL_DONE;
	rc = rung_dataset_load_ids(ds, "rank_of_vertex", &count, &by_vertex);
	if (rc < 0)
		return tool_fail(name, rc);
	/* the trace counts by rank; each rank of the map is replaced by its count in place */
	for (uint64_t v = 0; v < count; v++)
		by_vertex[v] = counts[by_vertex[v]];
	code = tool_out_npy(out, RUNG_U64, count, by_vertex);
	rung_free(by_vertex);
	return code;
}
