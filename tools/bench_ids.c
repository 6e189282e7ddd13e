/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids that rung bench asks for: uniform, zipf, those of sampled batches, or a file's.
 *
 * zipf draws rank r with probability proportional to 1/(r+1) by rejection-inversion (Hörmann, Derflinger, "Rejection-inversion
 * to generate variates from monotone discrete distributions", 1996) for exponent 1, where the integral of the hat is the
 * logarithm.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define ROWS_DEFAULT  (1u << 20)
#define BATCH_DEFAULT 4096u

struct draws {
	uint64_t state;
};

static uint64_t draw(struct draws *draws)
{
	uint64_t x = draws->state += 0x9e3779b97f4a7c15u;   /* splitmix64 (Steele, Lea, Flood 2014) */

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* 0 .. below-1; the bias is below/2^64 */
static uint64_t draw_below(struct draws *draws, uint64_t below)
{
	return (uint64_t)(((unsigned __int128)draw(draws) * below) >> 64);
}

static double draw_unit(struct draws *draws)
{
	return (double)(draw(draws) >> 11) * 0x1p-53;
}

static uint64_t draw_zipf(struct draws *draws, uint64_t count)
{
	const double low = log(1.5) - 1, high = log((double)count + 0.5), near = 2 - exp(log(2.5) - 0.5);

	for (;;) {
		double u = high + draw_unit(draws) * (low - high), x = exp(u), k = floor(x + 0.5);
		if (k < 1)
			k = 1;
		if (k > (double)count)
			k = (double)count;
		if (k - x <= near || u >= log(k + 0.5) - 1 / k) {
			uint64_t rank = (uint64_t)k - 1;   /* for huge counts k may round up to one too many */
			return rank < count ? rank : count - 1;
		}
	}
}

/* Whole requests of `batch`. */
static uint64_t warmup_rows(const struct bench_args *args, uint64_t batch)
{
	return (args->warmup / batch + (args->warmup % batch != 0)) * batch;
}

static int out_of_memory(const char *name)
{
	tool_error(name, TOOL_FAILED, "no memory for the ids; give fewer --rows");
	return RUNG_E_NOMEM;
}

/* Cut `count` ids into requests of `batch`. */
static int cut(const char *name, const struct bench_args *args, struct bench_ids *out, uint64_t batch)
{
	out->warmup_count = warmup_rows(args, batch) / batch;
	out->batch_count = out->count / batch + (out->count % batch != 0);
	out->rows_max = out->count < batch ? out->count : batch;
	out->starts = malloc((out->batch_count + 1) * sizeof(*out->starts));
	if (!out->starts)
		return out_of_memory(name);
	for (uint64_t i = 0; i < out->batch_count; i++)
		out->starts[i] = i * batch;
	out->starts[out->batch_count] = out->count;
	return 0;
}

static int make_drawn(const char *name, const struct bench_args *args, uint64_t vertex_count, int zipf, struct bench_ids *out)
{
	const uint64_t batch = args->batch ? args->batch : BATCH_DEFAULT;
	struct draws draws = { args->seed };

	out->count = warmup_rows(args, batch) + (args->rows ? args->rows : ROWS_DEFAULT);
	out->ids = calloc(out->count, sizeof(*out->ids));
	if (!out->ids)
		return out_of_memory(name);
	for (uint64_t i = 0; i < out->count; i++)
		out->ids[i] = zipf ? draw_zipf(&draws, vertex_count) : draw_below(&draws, vertex_count);
	return cut(name, args, out, batch);
}

/* Ids of any integer dtype, as unsigned: a negative one becomes too large and is refused by the store. */
static uint64_t id_of(const void *data, enum rung_dtype dtype, uint64_t i)
{
	switch (dtype) {
	case RUNG_I32: return (uint64_t)(int64_t)((const int32_t *)data)[i];
	case RUNG_U32: return ((const uint32_t *)data)[i];
	default: return ((const uint64_t *)data)[i];
	}
}

static int check_id(const char *name, const struct bench_args *args, const struct bench_ids *ids, uint64_t i,
		    uint64_t vertex_count)
{
	if (ids->ids[i] < vertex_count)
		return 0;
	tool_error(name, TOOL_FAILED,
		   "%s: element %llu is %lld, vertices go from 0 to %llu; give vertex ids of the graph that was staged",
		   args->ids, (unsigned long long)i, (long long)ids->ids[i], (unsigned long long)vertex_count - 1);
	return RUNG_E_RANGE;
}

static int make_of_file(const char *name, const struct bench_args *args, uint64_t vertex_count, struct bench_ids *out)
{
	const uint64_t batch = args->batch ? args->batch : BATCH_DEFAULT, warmup = warmup_rows(args, batch);
	const struct rung_array_info *info;
	struct rung_source *src;
	void *data = NULL;
	int rc = rung_source_open(args->ids, &src);

	if (rc < 0) {
		tool_fail(name, rc);
		return rc;
	}
	info = rung_source_info(src);
	if (info->dim_count != 1 || info->row_count == 0 ||
	    (info->dtype != RUNG_I32 && info->dtype != RUNG_U32 && info->dtype != RUNG_I64 && info->dtype != RUNG_U64)) {
		tool_error(name, TOOL_FAILED,
			   "%s: %s of %u dimensions, %llu rows; --ids wants a vector of vertex ids as i32, u32, i64 or u64",
			   args->ids, rung_dtype_name(info->dtype), info->dim_count, (unsigned long long)info->row_count);
		rc = RUNG_E_FORMAT;
		goto close_source;
	}
	if (warmup >= info->row_count) {
		tool_error(name, TOOL_FAILED, "%s: has %llu ids, and --warmup takes the first %llu: give fewer, or more ids", args->ids,
			   (unsigned long long)info->row_count, (unsigned long long)warmup);
		rc = RUNG_E_INVAL;
		goto close_source;
	}
	out->space = RUNG_VERTICES;
	out->count = args->rows && args->rows < info->row_count - warmup ? warmup + args->rows : info->row_count;
	data = calloc(out->count, info->row_bytes);
	out->ids = calloc(out->count, sizeof(*out->ids));
	if (!data || !out->ids) {
		rc = out_of_memory(name);
		goto close_source;
	}
	rc = rung_source_read(src, 0, out->count, data);
	if (rc < 0) {
		tool_fail(name, rc);
		goto close_source;
	}
	for (uint64_t i = 0; i < out->count && rc >= 0; i++) {
		out->ids[i] = id_of(data, info->dtype, i);
		rc = check_id(name, args, out, i, vertex_count);
	}
	if (rc < 0)
		goto close_source;
	rc = cut(name, args, out, batch);
close_source:
	free(data);
	rung_source_close(src);
	return rc;
}

/* ---- trace: the batches of shuffled epochs ---- */

struct trace {
	struct rung_graph *graph;
	struct rung_sampler *sampler;
	struct rung_batch *batch;
	uint64_t *seeds;
	uint64_t seed_count;
	uint64_t ids_room, starts_room;
};

static void trace_close(struct trace *trace)
{
	rung_batch_destroy(trace->batch);
	rung_sampler_destroy(trace->sampler);
	rung_graph_destroy(trace->graph);
	free(trace->seeds);
}

static int trace_open(const struct bench_args *args, const struct rung_dataset *ds, struct trace *trace)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct tool_fanouts fanouts;
	int rc = tool_train_ranks(ds, &trace->seed_count, &trace->seeds);

	if (rc >= 0)
		rc = rung_dataset_load_graph(ds, &trace->graph);
	if (rc < 0)
		return rc;
	tool_fanouts_of(&args->fanouts, rung_dataset_info(ds), &fanouts);
	opts.fanouts = fanouts.hops;
	opts.hop_count = fanouts.count;
	opts.seed = args->seed;
	rc = rung_sampler_create(rung_graph_csc(trace->graph), &opts, &trace->sampler);
	if (rc >= 0)
		rc = rung_batch_create(&trace->batch);
	return rc;
}

/* Room for `more` items behind `count`; doubles, so that appending costs the same however long the list is. */
static int make_room(uint64_t **array, uint64_t *room, uint64_t count, uint64_t more)
{
	uint64_t wanted = *room ? *room : 1024, *grown;

	while (wanted < count + more)
		wanted *= 2;
	if (wanted == *room)
		return 0;
	grown = realloc(*array, wanted * sizeof(**array));
	if (!grown)
		return -1;
	*array = grown;
	*room = wanted;
	return 0;
}

static void shuffle(uint64_t *items, uint64_t count, struct draws *draws)
{
	for (uint64_t i = count; i > 1; i--) {
		uint64_t j = draw_below(draws, i), kept = items[i - 1];
		items[i - 1] = items[j];
		items[j] = kept;
	}
}

static int append_batch(const char *name, struct trace *trace, struct bench_ids *out)
{
	uint64_t count;
	const uint64_t *vertices = rung_batch_vertices(trace->batch, &count);

	if (make_room(&out->ids, &trace->ids_room, out->count, count) < 0 ||
	    make_room(&out->starts, &trace->starts_room, out->batch_count, 2) < 0)
		return out_of_memory(name);
	memcpy(out->ids + out->count, vertices, count * sizeof(*vertices));
	out->starts[out->batch_count++] = out->count;
	out->count += count;
	out->starts[out->batch_count] = out->count;
	if (count > out->rows_max)
		out->rows_max = count;
	return 0;
}

/* Whole batches until there are enough rows, for the warm-up and then for the clock. */
static int sample_trace(const char *name, const struct bench_args *args, uint64_t batch, struct trace *trace,
			struct tool_progress *progress, struct bench_ids *out)
{
	struct draws draws = { args->seed };
	uint64_t wanted = args->rows ? args->rows : ROWS_DEFAULT, warmup = 0, from = trace->seed_count;
	int rc;

	while (out->count < warmup + wanted) {
		uint64_t left;
		if (from == trace->seed_count) {
			shuffle(trace->seeds, trace->seed_count, &draws);
			from = 0;
		}
		left = trace->seed_count - from;
		if (left > batch)
			left = batch;
		rc = rung_sampler_sample(trace->sampler, trace->seeds + from, left, out->batch_count, trace->batch);
		if (rc < 0)
			return tool_fail(name, rc), rc;
		rc = append_batch(name, trace, out);
		if (rc < 0)
			return rc;
		from += left;
		if (warmup < args->warmup) {
			warmup = out->count;
			out->warmup_count = out->batch_count;
		}
		if (tool_progress(progress, "sampling", out->count, args->warmup + wanted))
			return tool_error(name, TOOL_FAILED, "canceled while sampling"), RUNG_E_CANCELED;
	}
	return 0;
}

static int make_trace(const char *name, const struct bench_args *args, const struct rung_dataset *ds,
		      struct tool_progress *progress, struct bench_ids *out)
{
	struct trace trace = { 0 };
	uint64_t batch = args->batch ? args->batch : rung_dataset_info(ds)->batch_size;
	int rc = trace_open(args, ds, &trace);

	if (rc < 0) {
		tool_fail(name, rc);
	} else if (trace.seed_count == 0 || batch == 0) {
		tool_error(name, TOOL_FAILED, "%s: the split train is empty; use --ids uniform", rung_dataset_dir(ds));
		rc = RUNG_E_INVAL;
	} else {
		rc = sample_trace(name, args, batch, &trace, progress, out);
	}
	trace_close(&trace);
	return rc;
}

int bench_ids_are_vertices(const struct bench_args *args)
{
	return strcmp(args->ids, "trace") != 0 && strcmp(args->ids, "uniform") != 0 && strcmp(args->ids, "zipf") != 0;
}

int bench_ids_make(const char *name, const struct bench_args *args, const struct rung_dataset *ds, struct tool_progress *progress,
                   struct bench_ids *out)
{
	uint64_t vertex_count = rung_dataset_info(ds)->vertex_count;

	*out = (struct bench_ids){ .space = RUNG_RANKS };
	if (bench_ids_are_vertices(args))
		return make_of_file(name, args, vertex_count, out);
	if (strcmp(args->ids, "trace") == 0)
		return make_trace(name, args, ds, progress, out);
	return make_drawn(name, args, vertex_count, strcmp(args->ids, "zipf") == 0, out);
}

void bench_ids_free(struct bench_ids *ids)
{
	free(ids->ids);
	free(ids->starts);
}
