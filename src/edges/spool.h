/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pairs partitioned into buckets in one temporary file. A bucket is a chain of blocks, each of
 * which is written when it is full. Private to the core.
 */
#ifndef RUNG_SPOOL_H
#define RUNG_SPOOL_H

#include "sort/partition.h"
#include "sort/partition.h"
#include "file/writer.h"

struct rung__spool_bucket {
	uint64_t first, range;  /* keys [first, first + range) */
	uint64_t pairs_counted; /* number of pairs that an earlier pass counted */
	uint64_t pair_count;    /* number of pairs that were appended */
	uint32_t head, tail;    /* first and last block in the file */
	unsigned char *buffer;  /* the block being filled; NULL: none */
	uint64_t used;          /* bytes filled in that block */
};

struct rung__spool {
	struct rung__direct file;
	struct rung__writer *writer;       /* until rung__spool_end() */
	uint64_t block_bytes;              /* whole pages */
	uint32_t *next;                    /* [block_max] the next block of the same bucket */
	uint64_t block_max;                /* blocks that the counted pairs need */
	_Atomic uint64_t block_count;      /* blocks in the file: threads take the next number */
	struct rung__partition *partition; /* selects the bucket of a pair; only for partitioning */
	/* [spooled_pairs] pairs in the order of the buckets; only for partitioning */
	unsigned char *partitioned;
	uint64_t spooled_pairs;
	unsigned id_bytes;
	struct rung__spool_bucket *buckets; /* [bucket_count], the caller's to free */
	uint32_t bucket_count;
};

#define RUNG__SPOOL_SPARE 4u /* blocks that are written while one per bucket is being filled */

/**
 * Create the file. The caller has set block_bytes, partition, partitioned and the buckets with
 * first, range and pairs_counted.
 *
 * @param pool  [(bucket_count + RUNG__SPOOL_SPARE) * block_bytes] page-aligned, in use until
 *              rung__spool_end()
 */
int rung__spool_open(struct rung__spool *spool, const char *dir, const char *name,
                     uint64_t bytes_needed, unsigned char *pool);

/** Append pairs, any number, to their buckets, each bucket in the order of the pairs. */
int rung__spool_partition(struct rung__spool *spool, const struct rung__pairs *pairs);

/** Write the rest and wait. @return 0 or a failure; RUNG_E_IO if a bucket received fewer pairs than
 * counted, which means that the input `spec` has changed */
int rung__spool_end(struct rung__spool *spool, const char *spec);

/** Bytes that rung__spool_load() writes for a bucket: whole pages. */
uint64_t rung__spool_bytes(const struct rung__spool *spool,
                           const struct rung__spool_bucket *bucket);

/** Load all pairs of a bucket, key and value interleaved; its space in the file is released.
 * @param to page-aligned, [rung__spool_bytes()] */
int rung__spool_load(const struct rung__spool *spool, const struct rung__spool_bucket *bucket,
                     unsigned char *to);

/** Call `fn` with the pairs of a bucket, block by block. @param block [block_bytes] page-aligned
 * buffer. @param last false: the bucket stays in the file */
int rung__spool_each(const struct rung__spool *spool, const struct rung__spool_bucket *bucket,
                     unsigned char *block, bool last, rung__pairs_fn fn, void *ctx);

/** Close the file, which removes it. The buckets are not freed. */
void rung__spool_close(struct rung__spool *spool);

#endif
