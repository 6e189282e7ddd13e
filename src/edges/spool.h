/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pairs partitioned into buckets in one temporary file, each a chain of blocks that are written
 * when full. Private to the core.
 */
#ifndef RUNG_SPOOL_H
#define RUNG_SPOOL_H

#include "sort/partition.h"
#include "sort/partition.h"
#include "file/writer.h"

struct rung__spool_bucket {
	uint64_t first, range;  /* keys [first, first + range) */
	uint64_t pairs_counted; /* expected number of pairs */
	uint64_t pair_count;    /* that it has */
	uint32_t head, tail;    /* blocks */
	unsigned char *buffer;  /* the block being filled; NULL: none */
	uint64_t used;          /* bytes of it */
};

struct rung__spool {
	struct rung__direct file;
	struct rung__writer *writer;
	uint64_t block_bytes;
	uint32_t *next; /* [block_max] the next block of the same bucket */
	uint64_t block_max;
	_Atomic uint64_t block_count;
	struct rung__partition *partition; /* which bucket a pair goes to; only for dealing */
	/* [spooled_pairs] pairs in the order of the buckets; only for dealing */
	unsigned char *partitioned;
	uint64_t spooled_pairs;
	unsigned id_bytes;
	struct rung__spool_bucket *buckets;
	uint32_t bucket_count;
};

#define RUNG__SPOOL_SPARE 4u /* blocks that are being written while others are filled */

/**
 * Open the file and take over the buckets, with first, range and pairs_counted set, as are
 * partition, partitioned and block_bytes.
 *
 * @param pool  [(bucket_count + RUNG__SPOOL_SPARE) * block_bytes] page-aligned, in use until
 *              rung__spool_end()
 */
int rung__spool_open(struct rung__spool *spool, const char *dir, const char *name,
                     uint64_t bytes_needed, unsigned char *pool);

/** Append pairs, any number, to their buckets, each bucket in the order of the pairs. */
int rung__spool_partition(struct rung__spool *spool, const struct rung__pairs *pairs);

/** Write the rest; RUNG_E_IO if a bucket received fewer pairs than counted. */
int rung__spool_end(struct rung__spool *spool, const char *spec);

/** Bytes that rung__spool_load() writes for a bucket: whole pages. */
uint64_t rung__spool_bytes(const struct rung__spool *spool,
                           const struct rung__spool_bucket *bucket);

/** All pairs of a bucket, keys and values in separate arrays; its space in the file is released.
 * @param to page-aligned */
int rung__spool_load(const struct rung__spool *spool, const struct rung__spool_bucket *bucket,
                     unsigned char *to);

/** The same block by block. @param block [block_bytes] on a page @param last false: it stays in the
 * file */
int rung__spool_each(const struct rung__spool *spool, const struct rung__spool_bucket *bucket,
                     unsigned char *block, bool last, rung__pairs_fn fn, void *ctx);

void rung__spool_close(struct rung__spool *spool);

#endif
