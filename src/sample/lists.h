/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The neighbour lists that a sampler reads: a graph in memory, or one whose first lists, those of
 * the hottest vertices, are in memory and whose other lists are in a file. Private to samplers and
 * to the store, which opens such graphs (store/structure.c).
 */
#ifndef RUNG_LISTS_H
#define RUNG_LISTS_H

#include "layout/list_block.h"
#include "rung/graph.h"
#include "sample/offsets.h"

struct rung__lists {
	/* indptr NULL: `offsets` has the lists; indices: the entries in memory */
	struct rung_csc csc;
	struct rung__offsets offsets;
	uint64_t degree_max;     /* length of the longest list */
	uint64_t resident_count; /* entries in memory, the first of the graph; edge_count: all */
	/**
	 * Read blocks of entries, all at once; block b has the bytes from b *
	 * RUNG__LIST_BLOCK_BYTES on. Any number of threads. NULL if all entries are in memory.
	 * @param blocks  [count] ascending, each once, none that is completely in memory
	 * @param to      [count * RUNG__LIST_BLOCK_BYTES]
	 * @return 0 or the failure of a read
	 */
	int (*read)(const struct rung__lists *lists, const uint64_t *blocks, uint64_t count,
	            unsigned char *to);
	const void *owner; /* for `read` */
	const char *path;  /* of the file, for messages */
};

/* Most blocks of one call of `read`: 4 MiB. Far more than a device has in flight, so a hop that
 * needs more loses nothing by reading them in several calls. */
#define RUNG__LIST_BLOCKS_MAX 8192u

/** What the public header calls struct rung_structure begins with its lists. */
struct rung_structure {
	struct rung__lists lists;
};

/** Number of vertices that the entries of the lists refer to. */
static inline uint64_t rung__lists_sources(const struct rung__lists *lists)
{
	return lists->csc.source_count ? lists->csc.source_count : lists->csc.vertex_count;
}

/** @param packed  lists->offsets are used; a constant in hot loops */
static inline __attribute__((always_inline)) struct rung__list rung__list_of(
	const struct rung__lists *lists, uint64_t v, bool packed)
{
	struct rung__list list;

	if (packed)
		return rung__offsets_list(&lists->offsets, v);
	list.begin = lists->csc.indptr[v];
	list.degree = lists->csc.indptr[v + 1] - list.begin;
	return list;
}

/** Prefetch what rung__list_of() reads. */
static inline __attribute__((always_inline)) void rung__list_prefetch(
	const struct rung__lists *lists, uint64_t v, bool packed)
{
	if (packed)
		__builtin_prefetch(&lists->offsets.lines[v / RUNG__OFFSETS_VERTICES]);
	else
		__builtin_prefetch(&lists->csc.indptr[v]);
}

/** Some entries of the list are in the file. */
static inline bool rung__list_is_cold(const struct rung__lists *lists, struct rung__list list)
{
	return list.begin + list.degree > lists->resident_count;
}

#endif
