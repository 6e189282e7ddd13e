/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts pairs into columns, for graphs larger than memory. The input is read once to count pairs by
 * ranges of vertices, and again to partition them into buckets of a temporary file, each small
 * enough to be sorted in memory. Bucket after bucket is then appended to the result. A bucket is
 * still too large if a single one of the counted ranges has more pairs. It is counted and
 * partitioned again in finer ranges, down to one vertex. The list of one vertex keeps the order of
 * the input; to drop repeats it is partitioned by value.
 *
 * Everything is stable, so the lists are those of rung_graph_load() for any memory size and any
 * number of threads.
 *
 * Memory: a quarter for the input, half for buckets (blocks being filled, or one bucket and its
 * lists), the rest for counts and for output.
 */
#include <string.h>

#include "edges/edges_bucket.h"
#include "edges/edges_input.h"
#include "edges/edges_sort.h"
#include "graph/graph.h"
#include "edges/spool.h"

#define MEMORY_BYTES_MIN (UINT64_C(1) << 20)
#define OUT_BUFFERS      4u                  /* two per file: one filled, one written */
#define OUT_BYTES_MAX    (UINT64_C(4) << 20) /* of one of them */
#define BLOCK_BYTES_MAX  (UINT64_C(4) << 20) /* of a spool: the full rate of a disk */
#define BUCKETS_MAX      RUNG__BUCKET_PARTS

struct sorter {
	struct rung__sort_job *job;
	struct rung__edge_input *input;
	char *temp_name; /* of temporary files, for messages */
	unsigned id_bytes;
	int threads;
	uint64_t bytes_needed; /* estimate for temporary files, for messages about a full disk */
	unsigned char *arena;  /* [arena_bytes] of buckets */
	uint64_t arena_bytes;
	uint64_t pairs_max;               /* pairs of a bucket that is sorted in the arena */
	uint64_t range_max;               /* vertices of such a bucket */
	uint64_t bins_max;                /* ranges that are counted at a time */
	uint32_t *bucket_of;              /* [bins_max] */
	struct rung__partition partition; /* first counts pairs in up to bins_max buckets */
	unsigned char *partitioned;       /* [spooled_pairs] */
	uint64_t spooled_pairs;
	unsigned char *out_pool;
	uint64_t out_bytes; /* of each of its buffers */
	struct rung__writer *writer;
	struct rung__out_stream indptr, indices;
	uint64_t edge_count; /* in the result so far */
	uint64_t pairs_done; /* for progress */
};

/* Pairs that are to be sorted: those of the input, or those of a bucket. */
struct range {
	const struct rung__spool *spool; /* NULL: the input */
	const struct rung__spool_bucket *bucket;
	uint64_t first, range; /* of keys, or of values of one key */
	bool by_value;
};

static int sort_range(struct sorter *sorter, const struct range *range);

/* Call `fn` with all pairs of a range. With `last`, this is the final read of the pairs: a bucket
 * may release its space, and `fn` uses the values. Without it, the pairs are only counted. */
static int each_pair(struct sorter *sorter, const struct range *range, bool last, rung__pairs_fn fn,
                     void *ctx)
{
	if (!range->spool)
		return rung__edge_input_each(sorter->input, !last, fn, ctx);
	return rung__spool_each(range->spool, range->bucket, sorter->arena, last, fn, ctx);
}

/* ---- counting ---- */

static int count_pairs(void *ctx, const struct rung__pairs *pairs)
{
	return rung__partition_count(ctx, pairs) ? 0 : rung__edges_changed(pairs->spec);
}

/* Count the pairs of up to bins_max equal parts of a range. The partition is set to these bins, and
 * the counts of all threads are added up in its first row. */
static int count_range(struct sorter *sorter, const struct range *range)
{
	struct rung__partition *partition = &sorter->partition;
	const uint64_t threads = (uint64_t)sorter->threads;
	unsigned shift = 0;
	int rc;

	while ((range->range - 1) >> shift >= sorter->bins_max)
		shift++;
	rung__partition_set(partition, sorter->id_bytes, range->first, range->range, shift);
	partition->by_value = range->by_value;
	rung__partition_clear(partition);
	rc = each_pair(sorter, range, false, count_pairs, partition);
	for (uint64_t bins = partition->bucket_count, i = bins; i < threads * bins; i++)
		partition->starts[i % bins] += partition->starts[i];
	return rc;
}

/* ---- choosing buckets ---- */

/* Join consecutive bins into buckets of at most pairs_max pairs and range_max vertices. A bin that
 * exceeds a limit alone is a bucket. @param buckets  NULL: only count them. @return number of
 * buckets */
static uint32_t choose(const struct sorter *sorter, uint64_t pairs_max, uint64_t range_max,
                       struct rung__spool_bucket *buckets)
{
	const struct rung__partition *bins = &sorter->partition;
	uint64_t pairs = 0, first = 0; /* pairs in the bucket so far, and its first bin */
	uint32_t n = 0;

	for (uint64_t bin = 0; bin <= bins->bucket_count; bin++) {
		const bool end = bin == bins->bucket_count;

		if (end || (bin > first && (pairs + bins->starts[bin] > pairs_max ||
		                            (bin + 1 - first) << bins->shift > range_max))) {
			if (buckets)
				buckets[n] = (struct rung__spool_bucket){
					.first = bins->first + (first << bins->shift),
					.pairs_counted = pairs,
					.range = RUNG__MIN(bin << bins->shift, bins->range) -
					         (first << bins->shift),
				};
			n++;
			first = bin;
			pairs = 0;
		}
		if (end)
			break;
		pairs += bins->starts[bin];
		if (buckets)
			sorter->bucket_of[bin] = n;
	}
	return n;
}

/* Choose buckets that can be sorted in the arena. If there are too many to be filled at the same
 * time, each with a block in the pool, choose larger ones; these are partitioned again later. */
static int choose_buckets(const struct sorter *sorter, uint64_t pool_bytes,
                          struct rung__spool *spool)
{
	const uint64_t blocks_max = pool_bytes / RUNG__PAGE_BYTES - RUNG__SPOOL_SPARE;
	const uint64_t buckets_max = RUNG__MIN(BUCKETS_MAX, blocks_max);
	uint64_t pairs_max = sorter->pairs_max, range_max = sorter->range_max;

	while ((spool->bucket_count = choose(sorter, pairs_max, range_max, NULL)) > buckets_max) {
		pairs_max += pairs_max / 4;
		range_max += range_max / 4;
	}
	spool->buckets = rung__malloc_array(spool->bucket_count, sizeof(*spool->buckets));
	if (!spool->buckets)
		return rung__fail(RUNG_E_NOMEM, "edges: no memory for %" PRIu32 " buckets",
		                  spool->bucket_count);
	choose(sorter, pairs_max, range_max, spool->buckets);
	spool->block_bytes = rung__align_down(
		pool_bytes / (spool->bucket_count + RUNG__SPOOL_SPARE), RUNG__PAGE_BYTES);
	spool->block_bytes = RUNG__MIN(spool->block_bytes, BLOCK_BYTES_MAX);
	return 0;
}

/* ---- partitioning ---- */

static int partition_pairs(void *ctx, const struct rung__pairs *pairs)
{
	return rung__spool_partition(ctx, pairs);
}

/* Count the pairs of a range and partition them into the buckets of a new spool. The arena holds
 * the blocks being filled, after the block through which a parent bucket is read. The caller closes
 * the spool and frees its buckets, also after a failure. */
static int partition_range(struct sorter *sorter, const struct range *range,
                           struct rung__spool *spool)
{
	const uint64_t pool_at = range->spool ? range->spool->block_bytes : 0;
	int rc = count_range(sorter, range);

	if (rc != 0)
		return rc;
	*spool = (struct rung__spool){
		.file.fd = -1,
		.id_bytes = sorter->id_bytes,
		.partition = &sorter->partition,
		.partitioned = sorter->partitioned,
		.spooled_pairs = sorter->spooled_pairs,
	};
	rc = choose_buckets(sorter, sorter->arena_bytes - pool_at, spool);
	if (rc < 0)
		return rc;
	/* the partition of the bins becomes one of the buckets */
	sorter->partition.bucket_of = sorter->bucket_of;
	sorter->partition.bucket_count = spool->bucket_count;
	rc = rung__spool_open(spool, sorter->job->temp_dir, sorter->temp_name, sorter->bytes_needed,
	                      sorter->arena + pool_at);
	if (rc == 0)
		rc = each_pair(sorter, range, true, partition_pairs, spool);
	if (rc == 0)
		rc = rung__spool_end(spool, range->spool ? sorter->temp_name : sorter->input->name);
	return rc;
}

/* Partition a range and sort its buckets one after the other: they append to the result in the
 * order of the keys. Recursive; each level divides a range into at least two. */
static int sort_buckets(struct sorter *sorter, const struct range *range)
{
	struct rung__spool spool = { .file.fd = -1 };
	int rc = partition_range(sorter, range, &spool);

	for (uint32_t b = 0; rc == 0 && b < spool.bucket_count; b++) {
		const struct range child = {
			.spool = &spool,
			.bucket = &spool.buckets[b],
			.first = spool.buckets[b].first,
			.range = spool.buckets[b].range,
			.by_value = range->by_value,
		};

		sorter->job->temp_bytes += rung__spool_bytes(&spool, child.bucket);
		rc = sort_range(sorter, &child);
	}
	rung__spool_close(&spool);
	rung__free(spool.buckets);
	return rc;
}

/* ---- sorting a bucket in memory ---- */

/* Append `range` empty lists to indptr: each begins at the present end of the indices. */
static int append_empty(struct sorter *sorter, uint64_t range)
{
	uint64_t starts[512];
	int rc = 0;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(starts); i++)
		starts[i] = sorter->edge_count;
	for (uint64_t left = range, here; left > 0 && rc == 0; left -= here) {
		here = RUNG__MIN(left, RUNG__ARRAY_LEN(starts));
		rc = rung__stream_append(&sorter->indptr, starts, here * sizeof(*starts));
	}
	return rc;
}

/* Append ids to the indices, and report progress, which may cancel the sort. */
static int append_ids(struct sorter *sorter, const void *ids, uint64_t count)
{
	const struct rung__sort_job *job = sorter->job;
	int rc = rung__stream_append(&sorter->indices, ids, count * sorter->id_bytes);

	sorter->edge_count += count;
	return rc < 0 ? rc
	              : rung__progress(job->progress, job->progress_ctx, "sort", sorter->pairs_done,
	                               sorter->input->pair_count_max);
}

/* Append the lists of a bucket that is in the arena. */
static int sort_keys(struct sorter *sorter, const struct rung__adjacency *lists)
{
	uint64_t count = lists->count;
	int rc;

	if (!rung__adjacency_fill(lists, &sorter->partition))
		return rung__edges_changed(sorter->temp_name);
	if (sorter->job->dedup)
		count = rung__adjacency_drop_repeats(lists, sorter->threads);
	/* shift by one list: indptr has the beginning of each in the result, not its end */
	for (uint64_t i = lists->range - 1; i > 0; i--)
		lists->ends[i] = sorter->edge_count + lists->ends[i - 1];
	lists->ends[0] = sorter->edge_count;
	rc = rung__stream_append(&sorter->indptr, lists->ends, lists->range * sizeof(*lists->ends));
	return rc < 0 ? rc : append_ids(sorter, lists->ids, count);
}

/* Load a bucket and sort it. The arena holds the pairs, their partitioned copy and the ends of the
 * lists; the ids overwrite the pairs, which are not used after partitioning. */
static int sort_in_arena(struct sorter *sorter, const struct range *range)
{
	const uint64_t pair_bytes = rung__spool_bytes(range->spool, range->bucket);
	const struct rung__adjacency lists = {
		.first = range->first,
		.range = range->range,
		.count = range->bucket->pair_count,
		.id_bytes = sorter->id_bytes,
		.pairs = sorter->arena,
		.ids = sorter->arena,
		.partitioned = sorter->arena + pair_bytes,
		.ends = (uint64_t *)(sorter->arena + 2 * pair_bytes),
	};
	int rc = rung__spool_load(range->spool, range->bucket, lists.pairs);

	if (rc < 0)
		return rc;
	sorter->pairs_done += lists.count;
	return range->by_value ? append_ids(sorter, lists.ids, rung__adjacency_join(&lists))
	                       : sort_keys(sorter, &lists);
}

/* ---- lists longer than the arena ---- */

/* Append the values of a block. They are compacted to the front of the block they were read into,
 * which is at the start of the arena and is not used again. */
static int append_values(void *ctx, const struct rung__pairs *pairs)
{
	struct sorter *sorter = ctx;
	void *ids = sorter->arena;

	for (uint64_t i = 0; i < pairs->count; i++)
		rung__id_set(ids, sorter->id_bytes, i,
		             rung__id_get(pairs->values, sorter->id_bytes, i * pairs->stride));
	sorter->pairs_done += pairs->count;
	return append_ids(sorter, ids, pairs->count);
}

/* Append the list of one vertex, which is larger than the arena. It is already in the order of the
 * input. Only to drop repeats it is sorted, by value. */
static int sort_one_list(struct sorter *sorter, const struct range *range)
{
	struct range values = *range;
	int rc = append_empty(sorter, 1);

	if (rc < 0)
		return rc;
	if (!sorter->job->dedup)
		return each_pair(sorter, range, true, append_values, sorter);
	values.by_value = true;
	values.first = 0;
	values.range = sorter->input->source_count;
	return sort_range(sorter, &values);
}

/* Append one of many equal pairs: the range is one value of one vertex. */
static int append_one_value(struct sorter *sorter, const struct range *range)
{
	uint64_t id = 0;

	rung__id_set(&id, sorter->id_bytes, 0, range->first);
	sorter->pairs_done += range->bucket->pair_count;
	return append_ids(sorter, &id, 1);
}

/* Append the lists of a bucket to the result: in memory if it fits, else by finer buckets. */
static int sort_range(struct sorter *sorter, const struct range *range)
{
	if (range->bucket->pair_count == 0)
		return range->by_value ? 0 : append_empty(sorter, range->range);
	if (range->bucket->pair_count <= sorter->pairs_max &&
	    (range->by_value || range->range <= sorter->range_max))
		return sort_in_arena(sorter, range);
	if (range->range > 1)
		return sort_buckets(sorter, range);
	return range->by_value ? append_one_value(sorter, range) : sort_one_list(sorter, range);
}

/* ---- the whole ---- */

static uint64_t pages_of(uint64_t bytes)
{
	return rung__align_down(bytes, RUNG__PAGE_BYTES);
}

/* Divide the memory: half for the arena, a quarter for the input, and shares of the rest as
 * below. */
static int alloc_memory(struct sorter *sorter, uint64_t memory_bytes)
{
	const uint64_t pair_bytes = 2 * (uint64_t)sorter->id_bytes;

	sorter->arena_bytes = pages_of(memory_bytes / 2);
	/* per pair: two copies, and 2 bytes for the ends of a quarter as many lists of 8 bytes */
	sorter->pairs_max = (sorter->arena_bytes - 4 * RUNG__PAGE_BYTES) / (2 * pair_bytes + 2);
	sorter->range_max = sorter->pairs_max / 4;
	sorter->bins_max =
		RUNG__MIN(memory_bytes / 128 / (uint64_t)sorter->threads, UINT64_C(1) << 16);
	sorter->bins_max = RUNG__MAX(sorter->bins_max, 2u);
	sorter->spooled_pairs = RUNG__MIN(memory_bytes / 16 / pair_bytes, UINT64_C(1) << 21);
	sorter->out_bytes = RUNG__MIN(pages_of(memory_bytes / 64), OUT_BYTES_MAX);
	sorter->arena = rung__map_pages(sorter->arena_bytes);
	sorter->partitioned = rung__malloc_array(sorter->spooled_pairs, pair_bytes);
	sorter->bucket_of = rung__malloc_array(sorter->bins_max, sizeof(*sorter->bucket_of));
	sorter->out_pool = rung__map_pages(OUT_BUFFERS * sorter->out_bytes);
	if (!sorter->arena || !sorter->partitioned || !sorter->bucket_of || !sorter->out_pool)
		return rung__fail(RUNG_E_NOMEM, "edges: no memory for buffers of %" PRIu64 " bytes",
		                  memory_bytes);
	return rung__partition_init(&sorter->partition,
	                            (uint32_t)RUNG__MAX(sorter->bins_max, BUCKETS_MAX),
	                            sorter->threads);
}

/*
 * Check the free space before anything is written. Temporary files hold all pairs, plus the part of
 * the result that is appended before the space of its buckets is released: an arena, at most a
 * second copy of the pairs.
 */
static int check_space(struct sorter *sorter)
{
	const struct rung__edge_input *input = sorter->input;
	uint64_t bytes, offsets;

	if (!rung__mul(input->pair_count_max, 2 * (uint64_t)input->index_bytes, &bytes) ||
	    !rung__mul(input->vertex_count, 8, &offsets) || !rung__add(bytes, offsets, &bytes) ||
	    !rung__add(bytes, RUNG__MIN(sorter->arena_bytes, bytes), &bytes))
		bytes = UINT64_MAX;
	sorter->bytes_needed = bytes;
	return rung__space_check(sorter->job->temp_dir, bytes);
}

/* Begin one of the two files of the result with its head. */
static int begin_result(struct sorter *sorter, struct rung__out_stream *stream,
                        const struct rung__sorted *sorted)
{
	*stream = (struct rung__out_stream){ .writer = sorter->writer,
		                             .file = sorted->file,
		                             .buffer_bytes = sorter->out_bytes };
	stream->file.bytes_needed = sorter->bytes_needed;
	return rung__stream_append(stream, sorted->head, sorted->head_bytes);
}

/* Allocate, sort and write the result; rung__sort() frees what was allocated. */
static int sort_all(struct sorter *sorter)
{
	struct rung__sort_job *job = sorter->job;
	int rc;

	sorter->temp_name = rung__format("temporary file in %s", job->temp_dir);
	if (!sorter->temp_name)
		return rung__fail(RUNG_E_NOMEM, "%s", job->temp_dir);
	if ((rc = alloc_memory(sorter, job->memory_bytes)) < 0 || (rc = check_space(sorter)) < 0 ||
	    (rc = rung__writer_open(sorter->out_pool, sorter->out_bytes, OUT_BUFFERS,
	                            &sorter->writer)) < 0 ||
	    (rc = begin_result(sorter, &sorter->indptr, &job->indptr)) < 0 ||
	    (rc = begin_result(sorter, &sorter->indices, &job->indices)) < 0 ||
	    (rc = sort_buckets(sorter, &(struct range){ .range = sorter->input->vertex_count })) <
	            0 ||
	    (rc = append_empty(sorter, 1)) < 0 || /* the last entry of indptr */
	    (rc = rung__stream_end(&sorter->indptr)) < 0 ||
	    (rc = rung__stream_end(&sorter->indices)) < 0)
		return rc;
	job->edge_count = sorter->edge_count;
	return 0;
}

uint64_t rung__sort_input_bytes(uint64_t memory_bytes)
{
	return memory_bytes / 4;
}

int rung__sort_memory_check(uint64_t memory_bytes)
{
	if (memory_bytes >= MEMORY_BYTES_MIN)
		return 0;
	return rung__fail_min_bytes(MEMORY_BYTES_MIN,
	                            "edges: memory_bytes is %" PRIu64
	                            "; sorting a graph needs at least %" PRIu64,
	                            memory_bytes, MEMORY_BYTES_MIN);
}

int rung__sort(struct rung__edge_input *input, struct rung__sort_job *job)
{
	struct sorter sorter = { .job = job,
		                 .input = input,
		                 .id_bytes = input->index_bytes,
		                 .threads = rung__threads(job->threads) };
	int rc = sort_all(&sorter);

	rung__writer_close(sorter.writer); /* first: it may still write from out_pool */
	rung__unmap_pages(sorter.arena, sorter.arena_bytes);
	rung__unmap_pages(sorter.out_pool, OUT_BUFFERS * sorter.out_bytes);
	rung__free(sorter.bucket_of);
	rung__free(sorter.partitioned);
	rung__free(sorter.temp_name);
	rung__partition_fini(&sorter.partition);
	return rc;
}
