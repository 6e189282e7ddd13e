/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buckets of pairs in a temporary file.
 *
 * Pairs are partitioned in memory first; then each bucket's pairs are appended to its block, by one
 * thread per bucket. This keeps the order of the pairs in each bucket. Blocks of all buckets are
 * numbered in the order in which they become full.
 */
#include "graph/graph.h"
#include "edges/spool.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#define NO_BLOCK UINT32_MAX
#define READS    4 /* reads in flight while a bucket is loaded, one per thread */

int rung__spool_open(struct rung__spool *spool, const char *dir, const char *name,
                     uint64_t bytes_needed, unsigned char *pool)
{
	const uint64_t pair_bytes = 2 * (uint64_t)spool->id_bytes;
	int rc;

	spool->file.fd = -1;
	spool->block_max = 0;
	for (uint32_t b = 0; b < spool->bucket_count; b++) {
		spool->buckets[b].head = spool->buckets[b].tail = NO_BLOCK;
		spool->block_max +=
			(spool->buckets[b].pairs_counted * pair_bytes + spool->block_bytes - 1) /
			spool->block_bytes;
	}
	/* numbers of blocks have 32 bits */
	spool->next = spool->block_max < NO_BLOCK
	                      ? rung__malloc_array(spool->block_max, sizeof(*spool->next))
	                      : NULL;
	if (!spool->next)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for a list of %" PRIu64 " blocks",
		                  name, spool->block_max);
	rc = rung__direct_temp(&spool->file, dir, name, bytes_needed);
	if (rc < 0)
		return rc;
	return rung__writer_open(pool, spool->block_bytes, spool->bucket_count + RUNG__SPOOL_SPARE,
	                         &spool->writer);
}

/* Write the block that a bucket was filling, at the end of the file, and append it to the bucket's
 * chain. Called by the thread that has the bucket; only the number of the block is shared. @return
 * false if more blocks than counted are needed: the input has changed since it was counted */
static bool put_block(struct rung__spool *spool, struct rung__spool_bucket *bucket)
{
	const uint64_t block = atomic_fetch_add(&spool->block_count, 1);
	const uint64_t bytes = rung__align_up(bucket->used, RUNG__PAGE_BYTES);

	assert(bucket->used <= spool->block_bytes);
	if (block >= spool->block_max)
		return false;
	if (bucket->tail == NO_BLOCK)
		bucket->head = (uint32_t)block;
	else
		spool->next[bucket->tail] = (uint32_t)block;
	bucket->tail = (uint32_t)block;
	spool->next[block] = NO_BLOCK;
	/* whole pages are written: the last block of a bucket is padded */
	memset(bucket->buffer + bucket->used, 0, (size_t)(bytes - bucket->used));
	rung__writer_put(spool->writer, &spool->file, bucket->buffer, bytes,
	                 block * spool->block_bytes);
	bucket->buffer = NULL;
	bucket->used = 0;
	return true;
}

/* Append pairs to a bucket. The count is checked first, so an input that changes cannot exceed
 * the memory that was sized by the counts. @return false if it has changed */
static bool append(struct rung__spool *spool, struct rung__spool_bucket *bucket,
                   const unsigned char *pairs, uint64_t count)
{
	const uint64_t pair_bytes = 2 * (uint64_t)spool->id_bytes;

	if (count > bucket->pairs_counted - bucket->pair_count)
		return false;
	bucket->pair_count += count;
	while (count > 0) {
		uint64_t here;

		/* waits if all spare blocks are being written, but not forever: the pool has more
		 * blocks than there are buckets */
		if (!bucket->buffer)
			bucket->buffer = rung__writer_reserve(spool->writer);
		here = RUNG__MIN(count, (spool->block_bytes - bucket->used) / pair_bytes);
		memcpy(bucket->buffer + bucket->used, pairs, (size_t)(here * pair_bytes));
		bucket->used += here * pair_bytes;
		pairs += here * pair_bytes;
		count -= here;
		if (bucket->used == spool->block_bytes && !put_block(spool, bucket))
			return false;
	}
	return true;
}

/* Partition at most spooled_pairs pairs in memory and append them. */
static int partition(struct rung__spool *spool, const struct rung__pairs *pairs)
{
	const struct rung__partition *partition = spool->partition;
	const uint64_t pair_bytes = 2 * (uint64_t)spool->id_bytes;
	bool good = true;

	if (!rung__partition_pairs(partition, pairs, spool->partitioned))
		return rung__edges_changed(pairs->spec);
#pragma omp parallel for num_threads(partition->threads) schedule(dynamic, 1) reduction(&& : good)
	for (uint32_t b = 0; b < spool->bucket_count; b++) {
		const uint64_t first = partition->firsts[b],
			       count = partition->firsts[b + 1] - first;

		good = good && append(spool, &spool->buckets[b],
		                      spool->partitioned + first * pair_bytes, count);
	}
	/* a failed write first: it is the cause, and the flush returns it */
	if (rung__writer_failed(spool->writer))
		return rung__writer_flush(spool->writer);
	return good ? 0 : rung__edges_changed(pairs->spec);
}

int rung__spool_partition(struct rung__spool *spool, const struct rung__pairs *pairs)
{
	const uint64_t step = (uint64_t)pairs->stride * spool->id_bytes;
	int rc = 0;

	for (uint64_t first = 0; first < pairs->count && rc == 0; first += spool->spooled_pairs) {
		struct rung__pairs part = *pairs;

		part.keys = (const char *)pairs->keys + first * step;
		part.values = (const char *)pairs->values + first * step;
		part.count = RUNG__MIN(spool->spooled_pairs, pairs->count - first);
		rc = partition(spool, &part);
	}
	return rc;
}

int rung__spool_end(struct rung__spool *spool, const char *spec)
{
	int rc;

	for (uint32_t b = 0; b < spool->bucket_count; b++) {
		struct rung__spool_bucket *bucket = &spool->buckets[b];

		if (bucket->pair_count != bucket->pairs_counted ||
		    (bucket->buffer && !put_block(spool, bucket)))
			return rung__edges_changed(spec);
	}
	rc = rung__writer_flush(spool->writer);
	rung__writer_close(spool->writer);
	spool->writer = NULL;
	return rc;
}

uint64_t rung__spool_bytes(const struct rung__spool *spool, const struct rung__spool_bucket *bucket)
{
	return rung__align_up(bucket->pair_count * 2 * spool->id_bytes, RUNG__PAGE_BYTES);
}

/* Read the first bytes of a block. With `last` its space in the file is released, because the
 * output grows while the buckets are read. */
static int read_block(const struct rung__spool *spool, uint32_t block, uint64_t bytes,
                      unsigned char *to, bool last)
{
	int rc = rung__direct_read(&spool->file, to, bytes, block * spool->block_bytes);

	if (last) /* if this is not supported, the space is released when the file is closed */
		fallocate(spool->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		          (off_t)(block * spool->block_bytes), (off_t)spool->block_bytes);
	return rc;
}

int rung__spool_load(const struct rung__spool *spool, const struct rung__spool_bucket *bucket,
                     unsigned char *to)
{
	const uint64_t bytes = rung__spool_bytes(spool, bucket);
	struct rung__failure failure = { .rc = 0 };
	uint32_t blocks[READS];

	/* READS blocks at a time: the chain is followed first, then the blocks are read in
	 * parallel */
	for (uint64_t done = 0, block = bucket->head; done < bytes && failure.rc == 0;
	     done += READS * spool->block_bytes) {
		const uint64_t left = (bytes - done + spool->block_bytes - 1) / spool->block_bytes;
		const int count = (int)RUNG__MIN(left, READS);

		for (int i = 0; i < count; i++) {
			blocks[i] = (uint32_t)block;
			block = (uint64_t)i + 1 < left ? spool->next[block] : block;
		}
#pragma omp parallel for num_threads(rung__threads(READS)) schedule(static, 1)
		for (int i = 0; i < count; i++) {
			const uint64_t at = done + (uint64_t)i * spool->block_bytes;
			const uint64_t here = RUNG__MIN(spool->block_bytes, bytes - at);

			rung__failure_keep(&failure,
			                   read_block(spool, blocks[i], here, to + at, true));
		}
	}
	return rung__failure_report(&failure);
}

int rung__spool_each(const struct rung__spool *spool, const struct rung__spool_bucket *bucket,
                     unsigned char *block, bool last, rung__pairs_fn fn, void *ctx)
{
	const uint64_t pair_bytes = 2 * (uint64_t)spool->id_bytes,
		       bytes = bucket->pair_count * pair_bytes;
	uint32_t at = bucket->head;
	int rc = 0;

	for (uint64_t done = 0; done < bytes && rc == 0; done += spool->block_bytes) {
		const uint64_t here = RUNG__MIN(bytes - done, spool->block_bytes);
		const struct rung__pairs pairs = {
			.keys = block,
			.values = block + spool->id_bytes,
			.count = here / pair_bytes,
			.stride = 2,
			.spec = spool->file.name,
		};

		rc = read_block(spool, at, here, block, last);
		if (rc == 0)
			rc = fn(ctx, &pairs);
		at = spool->next[at];
	}
	return rc;
}

void rung__spool_close(struct rung__spool *spool)
{
	rung__writer_close(spool->writer);
	rung__direct_close(&spool->file);
	rung__free(spool->next);
}
