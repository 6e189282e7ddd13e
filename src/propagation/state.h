/* SPDX-License-Identifier: Apache-2.0 */
/** The inside of passes over all edges. Private to spread*.c. */
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

/** Neighbouring vertices with at most block_edges edges; a longer list is several blocks of one
 * vertex. */
struct rung__block {
	uint64_t vertex_first;
	uint32_t vertex_count;
	uint32_t edge_count;    /* as cut: dropped loops count */
	uint64_t edge_first;    /* in the graph */
	const uint64_t *indptr; /* [vertex_count + 1], the graph's */
	/* [edge_count] of index_bytes; for a graph in files they are stored where the tiles will
	 * be */
	const void *ids;
	/* bit edge_first % 64 + i is that of edge i; of a graph in files; NULL: none is, or all
	 * are */
	const uint64_t *mutual;
	/* [edge_count] u inside of its bin, then [edge_count] v inside of the block */
	uint16_t *tiles;
	/* [bin_count + 1] where each bin's edges begin in tiles; the second only if two-sided */
	uint32_t *starts[RUNG__SIDES];
	bool tiled;
	/* position of its plain side in `values`; the other side starts at the next cache line */
	uint64_t value_at;
};

/** Buffers of a thread while it runs a panel. */
struct rung__propagation_room {
	float *messages; /* [SPREAD_VERTICES_MAX * max(1, width_max)] */
	uint32_t *pairs; /* [block_edges] */
	uint32_t *next;  /* [bin_count + 1] */
};

struct rung__propagation {
	struct rung__propagation_opts opts;
	struct rung_csc csc;        /* of a graph in files its counts and index_bytes alone */
	struct rung_edges *edges;   /* NULL: in memory */
	const uint32_t *signatures; /* [vertex_count] of the vertices; NULL: none, or not yet */
	bool all_mutual;            /* every edge is, and gives a record */
	bool two_sided;             /* some give one */
	struct rung__direct mutual_file; /* of files: [edge_count / 64 + 1] words, a bit an edge */
	bool has_mutual;                 /* of files: some are, and their bits are read */
	unsigned char *mutual_rooms;     /* of files: [block_count] rooms for the bits of a block */
	uint64_t mutual_room_bytes;
	uint32_t block_edges;
	unsigned bin_bits;
	uint32_t bin_count;
	double *sums;               /* [vertex_count] */
	double *bin_results;        /* [bin_count] of receive() */
	struct rung__block *blocks; /* [block_count]; of files a panel's */
	uint64_t block_count;
	/* [2 * edge_count], of files [block_count][block_edges] ids of index_bytes */
	uint16_t *tiles;
	uint64_t tile_bytes;
	uint32_t *starts;        /* [block_count][bin_count + 1] */
	uint32_t *record_starts; /* the same, when it is two-sided; of files always there */
	float *values;           /* of a panel */
	uint64_t values_max;     /* floats */
	uint64_t *indptr_copies; /* of files: [block_count][SPREAD_VERTICES_MAX + 1] */
	struct rung__propagation_room *rooms; /* [threads] */
	void *room_memory;
	uint64_t passes;    /* over the edges */
	uint64_t rules_run; /* those of them that sent a value */
};

/* propagation_tiles.c */

/** Cut the block that begins with edge `edge` of list `vertex`: its counts and firsts. */
void rung__block_cut(const struct rung__propagation *spread, uint64_t vertex, uint64_t edge,
                     struct rung__block *block);

/** Sort the edges of a block into tiles; it may be repeated. Any thread, with its own room. */
void rung__block_tile(const struct rung__propagation *spread, struct rung__block *block,
                      const struct rung__propagation_room *room);

/** In an element of u, while an edge gets its side: it gives a record. */
#define RUNG__PROPAGATION_RECORD 0x4000u
#define RUNG__PROPAGATION_VERTEX 0x3fffu

/** Give a block of a graph in memory two sides, its tiles having one, with mutual edges and records
 * marked. */
void rung__block_split(const struct rung__propagation *spread, const struct rung__block *block,
                       const struct rung__propagation_room *room);

/** Edges of a side of a block. */
static inline uint32_t rung__block_side_count(const struct rung__propagation *spread,
                                              const struct rung__block *block, int side)
{
	if (side == RUNG__RECORDS && !spread->two_sided)
		return 0;
	return block->starts[side][spread->bin_count] - block->starts[side][0];
}

/* propagation_panel.c */

/** Floats that a block's values may take under a rule. */
uint64_t rung__block_values_max(const struct rung__propagation_rule *rule,
                                const struct rung__block *block);

/** Process some blocks one after the other: their values, then the sums. `first`, `last`: of the
 * pass. */
void rung__panel_run(struct rung__propagation *spread, const struct rung__propagation_rule *rule,
                     struct rung__block *blocks, uint64_t block_count, bool first, bool last);

/* propagation_records.c */

/** For a graph in memory whose tiles have one side. */
int rung__propagation_mark_records(struct rung__propagation *spread);

/** For a graph in files. */
int rung__propagation_mark_mutual_files(struct rung__propagation *spread);

#endif
