/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of ids: generated once, written to a file and read from it, so that every program and
 * strategy requests the same rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cold.h"

struct writer {
	uint64_t *starts, *ranks;
	uint64_t batch_count, room; /* room: allocated ranks */
};

static void add_batch(struct writer *writer, const uint64_t *ranks, uint64_t count)
{
	uint64_t first = writer->starts[writer->batch_count], wanted = first + count;

	if (wanted > writer->room) {
		writer->room = wanted * 2;
		writer->ranks = realloc(writer->ranks, writer->room * sizeof(*writer->ranks));
		if (!writer->ranks)
			bench_die("out of memory");
	}
	memcpy(writer->ranks + first, ranks, count * sizeof(*ranks));
	writer->starts[++writer->batch_count] = wanted;
}

static void start(struct writer *writer, uint64_t batch_count)
{
	*writer = (struct writer){ .starts = calloc(batch_count + 1, sizeof(uint64_t)) };
	if (!writer->starts)
		bench_die("out of memory");
}

static void finish(struct writer *writer, const char *path)
{
	FILE *file = fopen(path, "wb");
	uint64_t count = writer->batch_count;

	if (!file || fwrite(&count, 8, 1, file) != 1 ||
	    fwrite(writer->starts, 8, count + 1, file) != count + 1 ||
	    fwrite(writer->ranks, 8, writer->starts[count], file) != writer->starts[count] ||
	    fclose(file) != 0)
		bench_die("%s: cannot be written", path);
	free(writer->starts);
	free(writer->ranks);
}

void cold_trace_read(const char *path, struct cold_trace *trace_out)
{
	FILE *file = fopen(path, "rb");
	uint64_t count;
	struct cold_trace trace;

	if (!file || fread(&count, 8, 1, file) != 1 || count == 0 || count > UINT32_MAX)
		bench_die("%s: not a trace, or truncated", path);
	trace.batch_count = count;
	trace.starts = calloc(count + 1, 8);
	if (!trace.starts || fread(trace.starts, 8, count + 1, file) != count + 1)
		bench_die("%s: not a trace, or truncated", path);
	trace.ranks = calloc(trace.starts[count] + 1, 8);
	if (!trace.ranks || fread(trace.ranks, 8, trace.starts[count], file) != trace.starts[count])
		bench_die("%s: not a trace, or truncated", path);
	fclose(file);
	*trace_out = trace;
}

void cold_trace_sample(const char *dir, const char *path, const char *fanouts, uint64_t batch,
                       uint64_t count, uint64_t seed)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	uint32_t hops[RUNG_HOPS_MAX];
	struct rung_dataset *ds;
	struct rung_graph *graph;
	struct rung_sampler *sampler;
	struct rung_batch *sampled;
	struct writer writer;
	uint64_t *seeds, seed_count, at = 0;

	bench_need(rung_dataset_open(dir, &ds), "opening the dataset");
	bench_need(rung_dataset_load_graph(ds, &graph), "loading the graph");
	bench_need(rung_dataset_load_ids(ds, "split_train", &seed_count, &seeds),
	           "loading the train split");
	opts.fanouts = hops;
	opts.hop_count = bench_fanouts(fanouts, hops);
	opts.seed = seed;
	bench_need(rung_sampler_create(rung_graph_csc(graph), &opts, &sampler),
	           "creating a sampler");
	bench_need(rung_batch_create(&sampled), "creating a batch");
	start(&writer, count);
	for (uint64_t b = 0; b < count; b++) {
		const uint64_t *vertices;
		uint64_t taken;

		if (at == 0) /* a new epoch */
			bench_shuffle(seeds, seed_count, seed + b);
		taken = seed_count - at < batch ? seed_count - at : batch;
		bench_need(rung_sampler_sample(sampler, seeds + at, taken, b, sampled), "sampling");
		vertices = rung_batch_vertices(sampled, &taken);
		add_batch(&writer, vertices, taken);
		at = at + batch < seed_count ? at + batch : 0;
	}
	finish(&writer, path);
	rung_batch_destroy(sampled);
	rung_sampler_destroy(sampler);
	rung_graph_destroy(graph);
	rung_free(seeds);
	rung_dataset_close(ds);
}

void cold_trace_spans(const char *dir, const char *path, uint64_t first, uint64_t rows,
                      uint64_t span, uint64_t count, uint64_t seed)
{
	struct bench_features features;
	struct rung_dataset *ds;
	struct writer writer;
	uint64_t *ranks = calloc(rows + 1, sizeof(*ranks)), draws = 0;

	bench_need(rung_dataset_open(dir, &ds), "opening the dataset");
	bench_features_find(ds, &features);
	rung_dataset_close(ds);
	if (!ranks || span == 0 || first + span > features.row_count)
		bench_die("%" PRIu64 " rows: no span of %" PRIu64
		          " rows fits after the first %" PRIu64,
		          features.row_count, span, first);
	start(&writer, count);
	for (uint64_t b = 0; b < count; b++) {
		uint64_t begin =
			first + bench_draw(seed, draws++) % (features.row_count - first - span + 1);

		for (uint64_t i = 0; i < rows; i++)
			ranks[i] = begin + bench_draw(seed, draws++) % span;
		add_batch(&writer, ranks, rows);
	}
	finish(&writer, path);
	free(features.path);
	free(ranks);
}
