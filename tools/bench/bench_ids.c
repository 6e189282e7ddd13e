/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids that rung bench requests: uniform, zipf, from sampled batches, or from a file. They are
 * generated in rounds, between which no request is in flight, so that a run of any length holds the
 * ids of one round only. The ids do not depend on the rounds.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/bench_draws.h"
#include "interrupt.h"

#define BATCH_DEFAULT 4096u
/* 32 MiB of ids. In-memory gathers of that many rows take 0.2 s or more; stopping and starting the
   threads takes 0.1 ms. Tests use shorter rounds. */
#ifndef ROUND_ROWS
#define ROUND_ROWS (1u << 22)
#endif
#define ROUND_FIRST (ROUND_ROWS / 64) /* rows of the first round if there are several */
#define READ_ROWS   (1u << 16)        /* rows of a file per read */

enum kind { UNIFORM, ZIPF, FILE_IDS, TRACE };

struct bench_source {
	const char *name;
	const struct bench_args *args;
	enum kind kind;
	uint64_t vertex_count;
	uint64_t batch;                        /* rows of a request; of a trace: seeds */
	uint64_t generated, generated_batches; /* rows and requests generated since the beginning */
	struct rung__rng draws;                /* random numbers; their state begins as the seed */
	uint64_t ids_capacity, starts_room;

	struct rung_source *file;
	void *data; /* [READ_ROWS] of the file, from data_first on */
	uint64_t data_first, data_count;

	struct tool_lists lists; /* of a trace */
	struct rung_sampler *sampler;
	struct rung_batch *sampled;
	uint64_t *seeds;                 /* [seed_count] of an epoch, shuffled */
	uint64_t seed_count, seeds_from; /* the next batch begins at seeds_from */
	struct tool_progress *progress;  /* until the first round is generated, then NULL */
};

static int out_of_memory(const char *name)
{
	tool_error(name, TOOL_FAILED,
	           "no memory for the ids; give fewer --rows or a smaller --batch");
	return RUNG_E_NOMEM;
}

/* Make room for `more` items after `count`. It doubles, so that appending stays linear. */
static int reserve(uint64_t **array, uint64_t *capacity, uint64_t count, uint64_t more)
{
	uint64_t wanted = *capacity ? *capacity : 1024, bytes, *grown;

	while (wanted < count + more)
		wanted *= 2;
	if (wanted == *capacity)
		return 0;
	if (__builtin_mul_overflow(wanted, sizeof(**array), &bytes))
		return -1;
	grown = realloc(*array, bytes);
	if (!grown)
		return -1;
	*array = grown;
	*capacity = wanted;
	return 0;
}

static uint64_t rows_in_memory(const struct bench_ids *ids)
{
	return ids->end > ids->first ? ids->starts[ids->end - ids->first] : 0;
}

/* Append a batch of `count` rows. @return the place for its ids; NULL without memory, printed */
static uint64_t *append_batch(struct bench_ids *ids, uint64_t count)
{
	struct bench_source *source = ids->source;
	const uint64_t batches = ids->end - ids->first;
	const uint64_t rows = rows_in_memory(ids);

	if (reserve(&ids->ids, &source->ids_capacity, rows, count) < 0 ||
	    reserve(&ids->starts, &source->starts_room, batches, 2) < 0) {
		out_of_memory(source->name);
		return NULL;
	}
	ids->starts[batches] = rows;
	ids->starts[batches + 1] = rows + count;
	ids->end++;
	source->generated += count;
	source->generated_batches++;
	return ids->ids + rows;
}

/* Drop the batches before `first`. */
static void forget_batches(struct bench_ids *ids, uint64_t first)
{
	const uint64_t dropped = first - ids->first, left = ids->end - first;
	uint64_t row;

	if (dropped == 0)
		return;
	row = ids->starts[dropped];
	memmove(ids->ids, ids->ids + row, (ids->starts[dropped + left] - row) * sizeof(*ids->ids));
	for (uint64_t i = 0; i <= left; i++)
		ids->starts[i] = ids->starts[dropped + i] - row;
	ids->first = first;
}

/* ---- uniform, zipf ---- */

static int draw_batch(struct bench_ids *ids, uint64_t count)
{
	struct bench_source *source = ids->source;
	uint64_t *to = append_batch(ids, count);

	if (!to)
		return RUNG_E_NOMEM;
	for (uint64_t i = 0; i < count; i++)
		to[i] = source->kind == ZIPF
		                ? bench_draw_zipf(&source->draws, source->vertex_count)
		                : rung__rng_below(&source->draws, source->vertex_count);
	return 0;
}

/* ---- a file ---- */

/* Ids of any integer dtype, as unsigned numbers: a negative id becomes too large and is refused. */
static uint64_t id_of(const void *data, enum rung_dtype dtype, uint64_t i)
{
	switch (dtype) {
	case RUNG_I32:
		return (uint64_t)(int64_t)((const int32_t *)data)[i];
	case RUNG_U32:
		return ((const uint32_t *)data)[i];
	default:
		return ((const uint64_t *)data)[i];
	}
}

/* Id `i` of the file, which is read in order. It is checked each time it is read, because the file
 * can change. */
static int read_id(struct bench_source *source, uint64_t i, uint64_t *id_out)
{
	const struct rung_array_info *info = rung_source_info(source->file);
	uint64_t id;

	if (i - source->data_first >= source->data_count) {
		const uint64_t left = info->row_count - i,
			       count = left < READ_ROWS ? left : READ_ROWS;
		int rc = rung_source_read(source->file, i, count, source->data);

		if (rc < 0) {
			tool_fail(source->name, rc);
			return rc;
		}
		source->data_first = i;
		source->data_count = count;
		if (source->progress &&
		    tool_progress_update(source->progress, "checking ids", i, info->row_count))
			return RUNG_E_CANCELED;
	}
	id = id_of(source->data, info->dtype, i - source->data_first);
	if (id >= source->vertex_count) {
		tool_error(source->name, TOOL_FAILED,
		           "%s: element %llu is %lld, but vertex ids are 0 to %llu; give ids of "
		           "the staged graph",
		           source->args->ids, (unsigned long long)i, (long long)id,
		           (unsigned long long)source->vertex_count - 1);
		return RUNG_E_RANGE;
	}
	*id_out = id;
	return 0;
}

static int read_batch(struct bench_ids *ids, uint64_t count)
{
	const uint64_t first = ids->source->generated;
	uint64_t *to = append_batch(ids, count);
	int rc = to ? 0 : RUNG_E_NOMEM;

	for (uint64_t i = 0; i < count && rc == 0; i++)
		rc = read_id(ids->source, first + i, &to[i]);
	return rc;
}

static int open_file(struct bench_source *source)
{
	const struct bench_args *args = source->args;
	const struct rung_array_info *info;
	int rc = rung_source_open(args->ids, &source->file);

	if (rc < 0) {
		tool_fail(source->name, rc);
		return rc;
	}
	info = rung_source_info(source->file);
	if (info->dim_count != 1 || info->row_count == 0 ||
	    (info->dtype != RUNG_I32 && info->dtype != RUNG_U32 && info->dtype != RUNG_I64 &&
	     info->dtype != RUNG_U64)) {
		tool_error(source->name, TOOL_FAILED,
		           "%s: has dtype %s, %u dimensions and %llu rows, but --ids needs a "
		           "vector of i32, u32, i64 or u64 vertex ids",
		           args->ids, rung_dtype_name(info->dtype), info->dim_count,
		           (unsigned long long)info->row_count);
		return RUNG_E_FORMAT;
	}
	source->data = calloc(READ_ROWS, info->row_bytes);
	return source->data ? 0 : out_of_memory(source->name);
}

/* ---- trace: the batches of shuffled epochs ---- */

/* Upper bound of the rows of a batch: each vertex adds as many neighbours as are drawn for it. */
static uint64_t most_rows(const struct bench_source *source, const struct tool_fanouts *fanouts)
{
	uint64_t most = source->vertex_count < UINT32_MAX ? source->vertex_count : UINT32_MAX;
	uint64_t rows = source->batch < source->seed_count ? source->batch : source->seed_count;

	for (uint32_t hop = 0; hop < fanouts->count && rows < most; hop++)
		rows *= 1 + (uint64_t)fanouts->hops[hop]; /* both below 2^32 */
	return rows < most ? rows : most;
}

/*
 * The warm-up and the timed part each consist of as many whole batches as it takes to have enough
 * rows. The number of batches is known only after the last one has been sampled.
 */
static void begin_trace(struct bench_ids *ids, const struct tool_fanouts *fanouts)
{
	const struct bench_args *args = ids->source->args;

	ids->warmup_count = args->warmup ? UINT64_MAX : 0;
	ids->warmup_rows = args->warmup;
	ids->count = ids->warmup_rows + (bench_rows(args));
	ids->rows_bound = most_rows(ids->source, fanouts);
}

static int open_trace(struct bench_ids *ids, const struct tool_data *data)
{
	const struct rung_dataset *ds = data->ds;
	struct bench_source *source = ids->source;
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct tool_fanouts fanouts;
	int rc = tool_train_ranks(ds, &source->seed_count, &source->seeds);

	if (rc >= 0)
		rc = tool_lists_open(&source->args->store, ds, data->lists, &source->lists);
	if (rc >= 0) {
		tool_fanouts_of(&source->args->fanouts, rung_dataset_info(ds), &fanouts);
		opts.fanouts = fanouts.hops;
		opts.hop_count = fanouts.count;
		opts.seed = source->args->seed;
		rc = rung_sampler_create(tool_lists_for(&source->lists, &opts), &opts,
		                         &source->sampler);
	}
	if (rc >= 0)
		rc = rung_batch_create(&source->sampled);
	if (rc < 0) {
		tool_fail(source->name, rc);
	} else if (source->seed_count == 0 || source->batch == 0) {
		tool_error(source->name, TOOL_FAILED,
		           "%s: the split train is empty; use --ids uniform", rung_dataset_dir(ds));
		rc = RUNG_E_INVAL;
	} else {
		begin_trace(ids, &fanouts);
	}
	return rc;
}

static void count_batch(struct bench_ids *ids, uint64_t rows)
{
	struct bench_source *source = ids->source;

	if (rows > ids->rows_max)
		ids->rows_max = rows;
	if (ids->warmup_count == UINT64_MAX && source->generated >= ids->warmup_rows) {
		ids->count += source->generated - ids->warmup_rows;
		ids->warmup_rows = source->generated;
		ids->warmup_count = source->generated_batches;
	}
	if (source->generated >= ids->count) {
		ids->count = source->generated;
		ids->batch_count = source->generated_batches;
		ids->counted = 1;
	}
}

static int sample_batch(struct bench_ids *ids)
{
	struct bench_source *source = ids->source;
	const uint64_t *vertices;
	uint64_t left, count, *to;
	int rc;

	if (source->seeds_from == source->seed_count) {
		rung__shuffle(source->seeds, source->seed_count, rung__rng_below, &source->draws);
		source->seeds_from = 0;
	}
	left = source->seed_count - source->seeds_from;
	left = left < source->batch ? left : source->batch;
	rc = rung_sampler_sample(source->sampler, source->seeds + source->seeds_from, left,
	                         source->generated_batches, source->sampled);
	if (rc < 0)
		return tool_fail(source->name, rc), rc;
	source->seeds_from += left;
	vertices = rung_batch_vertices(source->sampled, &count);
	to = append_batch(ids, count);
	if (!to)
		return RUNG_E_NOMEM;
	memcpy(to, vertices, count * sizeof(*vertices));
	count_batch(ids, count);
	return 0;
}

/* ---- all kinds ---- */

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Restart at the beginning: the same ids follow. */
static void rewind_ids(struct bench_ids *ids)
{
	struct bench_source *source = ids->source;

	ids->first = ids->end = 0;
	source->generated = source->generated_batches = 0;
	source->draws.state = source->args->seed;
	if (source->kind == TRACE) { /* the first shuffle starts from ascending seeds */
		qsort(source->seeds, source->seed_count, sizeof(*source->seeds), compare_ids);
		source->seeds_from = source->seed_count;
	}
}

static int make_batch(struct bench_ids *ids)
{
	struct bench_source *source = ids->source;
	const uint64_t left = ids->count - source->generated,
		       count = left < source->batch ? left : source->batch;

	switch (source->kind) {
	case TRACE:
		return sample_batch(ids);
	case FILE_IDS:
		return read_batch(ids, count);
	default:
		return draw_batch(ids, count);
	}
}

/* Totals of requests of `batch` rows each, which are known at once. @return a status, printed */
static int count_cut(struct bench_ids *ids)
{
	struct bench_source *source = ids->source;
	const struct bench_args *args = source->args;
	const uint64_t file_rows = source->file ? rung_source_info(source->file)->row_count : 0;
	uint64_t rows = bench_rows(args), id;
	int rc = 0;

	ids->warmup_count = args->warmup / source->batch + (args->warmup % source->batch != 0);
	ids->warmup_rows = ids->warmup_count * source->batch;
	if (source->file && ids->warmup_rows >= file_rows) {
		tool_error(source->name, TOOL_FAILED,
		           "%s: has %llu ids, but --warmup alone uses %llu; use a smaller "
		           "--warmup, or give more ids",
		           args->ids, (unsigned long long)file_rows,
		           (unsigned long long)ids->warmup_rows);
		return RUNG_E_INVAL;
	}
	if (source->file && (args->rows == 0 || rows > file_rows - ids->warmup_rows))
		rows = file_rows - ids->warmup_rows;
	ids->count = ids->warmup_rows + rows;
	ids->batch_count = ids->count / source->batch + (ids->count % source->batch != 0);
	ids->counted = 1;
	ids->rows_max = ids->count < source->batch ? ids->count : source->batch;
	ids->rows_bound = ids->rows_max;
	/* all ids are read once, so that a wrong one is reported before the run */
	for (uint64_t i = 0; source->file && i < ids->count && rc == 0; i++)
		rc = read_id(source, i, &id);
	return rc;
}

/* Rows of the next round. They double from ROUND_FIRST on, so that a long run has its first results
 * soon. */
static uint64_t round_rows(const struct bench_ids *ids)
{
	const uint64_t before = ids->source->generated - rows_in_memory(ids);

	if (ids->count <= ROUND_ROWS || before >= ROUND_ROWS)
		return ROUND_ROWS;
	return before > ROUND_FIRST ? before : ROUND_FIRST;
}

int bench_ids_round(struct bench_ids *ids, uint64_t batch, uint64_t *end_out)
{
	struct bench_source *source = ids->source;
	const uint64_t ahead = source->args->look_ahead;
	uint64_t rows;

	if (batch < ids->first)
		rewind_ids(ids);
	else
		forget_batches(ids, batch);
	rows = round_rows(ids);
	while (!bench_ids_over(ids, ids->end) &&
	       (ids->end <= batch + ahead || rows_in_memory(ids) < rows)) {
		int rc = tool_interrupted() ? RUNG_E_CANCELED : make_batch(ids);

		if (rc < 0)
			return rc;
		if (source->progress && source->kind == TRACE) /* main() reports a signal */
			tool_progress_update(source->progress, "sampling", source->generated,
			                     ids->count < rows ? ids->count : rows);
	}
	*end_out = bench_ids_over(ids, ids->end) ? ids->end : ids->end - ahead;
	return 0;
}

int bench_ids_are_sampled(const struct bench_args *args)
{
	return strcmp(args->ids, "trace") == 0;
}

int bench_ids_are_vertices(const struct bench_args *args)
{
	return !bench_ids_are_sampled(args) && strcmp(args->ids, "uniform") != 0 &&
	       strcmp(args->ids, "zipf") != 0;
}

static enum kind kind_of(const struct bench_args *args)
{
	if (bench_ids_are_vertices(args))
		return FILE_IDS;
	return bench_ids_are_sampled(args)      ? TRACE
	       : strcmp(args->ids, "zipf") == 0 ? ZIPF
	                                        : UNIFORM;
}

int bench_ids_make(const char *name, const struct bench_args *args, const struct tool_data *data,
                   struct tool_progress *progress, struct bench_ids *out)
{
	const struct rung_dataset *ds = data->ds;
	struct bench_source *source = calloc(1, sizeof(*source));
	uint64_t end;
	int rc = 0;

	*out = (struct bench_ids){ .space = RUNG_RANKS, .source = source };
	if (!source)
		return out_of_memory(name);
	source->name = name;
	source->args = args;
	source->progress = progress;
	source->kind = kind_of(args);
	source->vertex_count = rung_dataset_info(ds)->vertex_count;
	source->batch = args->batch             ? args->batch
	                : source->kind == TRACE ? rung_dataset_info(ds)->batch_size
	                                        : BATCH_DEFAULT;
	if (source->kind == FILE_IDS) {
		out->space = RUNG_VERTICES;
		rc = open_file(source);
	} else if (source->kind == TRACE) {
		rc = open_trace(out, data);
	}
	if (rc < 0)
		return rc;
	rewind_ids(out);
	rc = source->kind == TRACE ? 0 : count_cut(out);
	if (rc >= 0)
		rc = bench_ids_round(out, 0, &end);
	source->progress = NULL;
	return rc;
}

void bench_ids_free(struct bench_ids *ids)
{
	struct bench_source *source = ids->source;

	free(ids->ids);
	free(ids->starts);
	if (!source)
		return;
	rung_batch_destroy(source->sampled);
	rung_sampler_destroy(source->sampler);
	tool_lists_close(&source->lists);
	rung_source_close(source->file);
	free(source->seeds);
	free(source->data);
	free(source);
}
