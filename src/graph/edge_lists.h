/* SPDX-License-Identifier: Apache-2.0 */
/** Edge lists of files as pairs of destination and source, a chunk at a time and checked. Private
 * to the core. */
#ifndef RUNG_EDGE_LISTS_H
#define RUNG_EDGE_LISTS_H

#include "base/base.h"
#include "rung/graph.h"

struct rung__edge_list;

/** Ids of one side of an edge list: id i is vertex first + i. */
struct rung__id_range {
	uint64_t first;
	uint64_t count; /* ids are below it; UINT64_MAX: not given */
};

/** Meaning of "SRC+FIRST[:COUNT],FIRST[:COUNT]" for sources and destinations; with SRC alone, ids
 * are vertices. */
struct rung__edge_spec {
	size_t src_length; /* of SRC */
	struct rung__id_range source, destination;
};

/**
 * Split the spec of an edge list. A spec that does not end in such numbers, or that names an
 * existing file, is SRC as a whole. RUNG_E_INVAL for numbers that are not valid ids.
 */
int rung__edge_spec_parse(const char *spec, struct rung__edge_spec *parts_out);

struct rung__edge_lists {
	const struct rung_graph_opts *opts;
	struct rung__edge_list *lists; /* [opts->spec_count] */
	uint64_t edge_count;           /* of all lists */
	uint64_t source_bytes;         /* that their sources hold */
	uint64_t vertex_count;         /* 0: not known yet */
	unsigned index_bytes;
	int threads;
	uint64_t chunk_edges; /* read at a time */
	void *raw;            /* [2 * chunk_edges] as in the file */
	/* [pairs of chunk_edges] destinations, and with undirected the sources after them */
	void *keys;
	void *values;
	uint64_t pass_first;      /* edges of earlier passes, for progress */
	uint64_t pass_total;      /* of all passes; the caller's to set */
	uint64_t largest;         /* largest id so far, and where it stands */
	const char *largest_spec; /* NULL: was not looked for */
	uint64_t largest_edge;
};

/** @param chunk_edges  a raw chunk takes 16 bytes of each, its pairs 4 ids, or 2 of a directed
 *                     graph */
int rung__edge_lists_open(struct rung__edge_lists *lists, const struct rung_graph_opts *opts,
                          uint64_t chunk_edges);

/** From the options, or from a pass that finds the largest id. Then allocates memory for pairs. */
int rung__edge_lists_find_vertex_count(struct rung__edge_lists *lists);

/**
 * One pass: every edge as a pair (destination, source), with `undirected` followed by its reverse
 * unless it is a self loop. Ids are below the vertex count.
 *
 * @param take  receives each chunk; `spec` is that of its file. A value other than 0 ends the pass
 */
int rung__edge_lists_each(struct rung__edge_lists *lists,
                          int (*take)(void *ctx, const void *keys, const void *values,
                                      uint64_t pair_count, const char *spec),
                          void *ctx);

void rung__edge_lists_close(struct rung__edge_lists *lists);

/** RUNG_E_IO for a pass that brought other edges than one before. */
int rung__edges_changed(const char *spec);

#endif
