/* SPDX-License-Identifier: Apache-2.0 */
/** The internal state of passes over all edges. Private to propagation*.c. */
#ifndef RUNG_PROPAGATION_STATE_H
#define RUNG_PROPAGATION_STATE_H

#include "file/direct.h"
#include "propagation/propagation.h"

/*
 * Tiles are long enough to be streams (about 500 edges at 16 M vertices), and the data of a block
 * is still cached when it is used. Scores depend on this number in their last bits: mutual edges of
 * a block are added after its others.
 */
#define RUNG__BLOCK_EDGES_DEFAULT (UINT32_C(1) << 20)
#define RUNG__BIN_BITS_MAX        13u /* sums of a bin: 64 KiB */
#define RUNG__BIN_BITS_MIN        8u
#define RUNG__LINE_FLOATS         16u

enum { RUNG__PLAIN, RUNG__RECORDS, RUNG__SIDES };

/** Consecutive vertices with at most block_edges edges. A longer list is divided into blocks of one
 * vertex; its last part shares a block with the next lists. */
struct rung__block {
	uint64_t vertex_first;
	uint32_t vertex_count;
	uint32_t edge_count;    /* as cut, including self loops, which are dropped later */
	uint64_t edge_first;    /* position in the graph */
	const uint64_t *indptr; /* [vertex_count + 1], offsets in the graph */
	/* [edge_count] of index_bytes each; for a graph in files they are in the memory of the
	 * tiles, which replace them later */
	const void *ids;
	/* graph in files: one bit per edge, 1 if it is mutual; bit edge_first % 64 + i belongs to
	 * edge i; NULL: no edge is mutual, or all are */
	const uint64_t *mutual;
	/* [edge_count] u relative to its bin, then [edge_count] v relative to the block */
	uint16_t *tiles;
	/* [bin_count + 1] positions in tiles at which the edges of each bin begin; the second array
	 * only if two-sided */
	uint32_t *starts[RUNG__SIDES];
	bool tiled; /* `tiles` is valid; for a graph in files, only for the current panel */
	/* position in `values` of its plain side; the other side starts at the next cache line */
	uint64_t value_at;
};

/** Buffers of one thread while it runs a panel. */
struct rung__propagation_scratch {
	float *messages; /* [RUNG__PROPAGATION_VERTICES_MAX * max(1, width_max)] */
	uint32_t *pairs; /* [block_edges] */
	uint32_t *next;  /* [bin_count + 1] */
};

struct rung__propagation {
	struct rung__propagation_opts opts;
	/* the graph; if it is in files, only the counts and index_bytes are set */
	struct rung_csc csc;
	struct rung_edges *edges; /* NULL: in memory */
	uint64_t source_count;    /* number of u; equals csc.vertex_count with one type */
	/* [source_count], [vertex_count]; NULL: not used, or not known yet */
	const uint32_t *signatures_u, *signatures_v;
	bool all_mutual; /* every edge is mutual, and sends a record */
	bool two_sided;  /* some edges send records: blocks have two sides */
	/* for files: [edge_count / 64 + 1] words, one bit per edge */
	struct rung__direct mutual_file;
	bool has_mutual; /* for files: some edges are mutual, and the bits of blocks are read */
	unsigned char
		*mutual_scratch; /* for files: [block_count] buffers for the bits of a block */
	uint64_t mutual_scratch_bytes;
	uint32_t block_edges;
	unsigned bin_bits;
	uint32_t bin_count;
	double *sums;               /* [source_count]; owned unless opts.sums is set */
	double *bin_results;        /* [bin_count] results of receive() */
	struct rung__block *blocks; /* [block_count]; for files only the blocks of a panel */
	uint64_t block_count;
	/* [2 * edge_count]; for files [block_count][block_edges] ids of index_bytes, which tiles
	 * replace */
	uint16_t *tiles;
	uint64_t tile_bytes;
	uint32_t *starts; /* [block_count][bin_count + 1] */
	/* the same for records; allocated if two-sided, and always for files */
	uint32_t *record_starts;
	float *values;           /* values of one panel */
	uint64_t values_max;     /* floats */
	uint64_t *indptr_copies; /* for files: [block_count][RUNG__PROPAGATION_VERTICES_MAX + 1] */
	struct rung__propagation_scratch *scratch_list; /* [threads] */
	/* memory of all entries of scratch_list, in huge pages */
	void *scratch_memory;
	uint64_t passes;    /* number of passes over the edges so far */
	uint64_t rules_run; /* number of those passes that ran a rule */
};

/* propagation_tiles.c */

/** Cut the block that begins with edge number `edge`, which is in the list of `vertex`: set its
 * counts, its first vertex and its first edge. */
void rung__block_cut(const struct rung__propagation *prop, uint64_t vertex, uint64_t edge,
                     struct rung__block *block);

/** Sort the edges of a block into tiles. May be called again for the same block; any thread may
 * call it, with its own buffers. */
void rung__block_tile(const struct rung__propagation *prop, struct rung__block *block,
                      const struct rung__propagation_scratch *scratch);

/** Mark in an element of u while an edge is assigned to a side: it sends a record. */
#define RUNG__PROPAGATION_RECORD 0x4000u
#define RUNG__PROPAGATION_VERTEX 0x3fffu

/** Divide a block of a graph in memory into two sides. Its tiles have one side, in which mutual
 * edges and records are marked. */
void rung__block_split(const struct rung__propagation *prop, const struct rung__block *block,
                       const struct rung__propagation_scratch *scratch);

/** Number of edges on a side of a block. */
static inline uint32_t rung__block_side_count(const struct rung__propagation *prop,
                                              const struct rung__block *block, int side)
{
	if (side == RUNG__RECORDS && !prop->two_sided)
		return 0;
	return block->starts[side][prop->bin_count] - block->starts[side][0];
}

/* propagation_panel.c */

/** Upper bound of the floats of a block's values under a rule. */
uint64_t rung__block_values_max(const struct rung__propagation_rule *rule,
                                const struct rung__block *block);

/**
 * Process some blocks: first the values of all, then all sums.
 * @param first  these are the first blocks of the pass: clear the sums
 * @param last   these are the last blocks: call receive()
 */
void rung__panel_run(struct rung__propagation *prop, const struct rung__propagation_rule *rule,
                     struct rung__block *blocks, uint64_t block_count, bool first, bool last);

/* propagation_records.c */

/** An id that is never mutual in the list of vertex v: v itself, or with two types one that no
 * vertex of the list's type has. */
static inline uint64_t rung__propagation_free_id(const struct rung__propagation *prop, uint64_t v,
                                                 uint64_t entry_count)
{
	return prop->opts.source_count ? entry_count : v;
}

/** Find records in a graph in memory whose tiles have one side. */
int rung__propagation_mark_records(struct rung__propagation *prop,
                                   const struct rung__propagation *opposite);

/** Find records in a graph in files. */
int rung__propagation_mark_mutual_files(struct rung__propagation *prop,
                                        struct rung__propagation *opposite);

#endif
