/* SPDX-License-Identifier: Apache-2.0 */
/** Edge lists in files, read as pairs of destination and source, one chunk at a time, and checked.
 * Private to the core. */
#ifndef RUNG_EDGE_LISTS_H
#define RUNG_EDGE_LISTS_H

#include "base/base.h"
#include "rung/graph.h"

struct rung__edge_list;

/** Ids of one side of an edge list: id i is vertex first + i. */
struct rung__id_range {
	uint64_t first;
	uint64_t count; /* ids must be below it; UINT64_MAX: not given */
};

/** Meaning of "SRC+FIRST[:COUNT],FIRST[:COUNT]" for sources and destinations; with SRC alone, ids
 * are vertices. */
struct rung__edge_spec {
	size_t src_length; /* of SRC */
	struct rung__id_range source, destination;
};

/**
 * Split the spec of an edge list. A spec that does not end in such numbers, or that names an
 * existing file, is SRC as a whole. @return 0, RUNG_E_INVAL (a number that is not a valid id)
 */
int rung__edge_spec_parse(const char *spec, struct rung__edge_spec *parts_out);

/** The edge lists of a graph, and the buffers of a pass over them. */
struct rung__edge_lists {
	const struct rung_graph_opts *opts; /* borrowed */
	struct rung__edge_list *lists;      /* [opts->spec_count] */
	uint64_t edge_count;                /* of all lists */
	uint64_t source_bytes; /* memory that their sources use to inflate members of a .npz */
	uint64_t vertex_count; /* 0: has not been determined yet */
	uint64_t source_count; /* of the options, or vertex_count */
	bool numbered;         /* values are the numbers of the edges instead of their sources */
	unsigned index_bytes;  /* of keys and values; set with vertex_count */
	int threads;
	uint64_t chunk_edges; /* edges that are read at a time */
	void *raw;            /* [2 * chunk_edges] as stored in the file, up to 8 bytes each */
	/* [pairs of chunk_edges] destinations and sources; with `undirected` each pair is followed
	 * by its reverse */
	void *keys;
	void *values;
	uint64_t pass_first;      /* edges of earlier passes, for progress */
	uint64_t pass_total;      /* edges of all passes, for progress; the caller sets it */
	uint64_t largest;         /* largest id so far, and its position */
	const char *largest_spec; /* NULL: the largest id was not searched for */
	uint64_t largest_edge;
};

/** Open all lists. After an error rung__edge_lists_close() frees what was opened.
 * @param chunk_edges  edges per chunk; each edge uses 16 bytes for the raw ids, and 4 ids for
 *                     its pairs, or 2 without `undirected` */
int rung__edge_lists_open(struct rung__edge_lists *lists, const struct rung_graph_opts *opts,
                          uint64_t chunk_edges);

/** Set vertex_count from the options, or from the largest id, which a pass finds. Then allocate
 * memory for pairs, whose width depends on it. */
int rung__edge_lists_find_vertex_count(struct rung__edge_lists *lists);

/**
 * One pass: every edge as a pair (destination, source); with `undirected`, followed by its reverse
 * unless it is a self loop. Ids are below the vertex count.
 *
 * @param take  receives each chunk; `spec` is that of its file. A value other than 0 ends the pass
 */
int rung__edge_lists_each(struct rung__edge_lists *lists,
                          int (*accept)(void *ctx, const void *keys, const void *values,
                                        uint64_t pair_count, const char *spec),
                          void *ctx);

void rung__edge_lists_close(struct rung__edge_lists *lists);

/** Report that a pass found other edges than an earlier one. @return RUNG_E_IO */
int rung__edges_changed(const char *spec);

#endif
