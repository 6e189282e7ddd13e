/* SPDX-License-Identifier: Apache-2.0 */
/** A graph of any spec as a stream of pairs, for sorting. Private to the core. */
#ifndef RUNG_EDGES_INPUT_H
#define RUNG_EDGES_INPUT_H

#include "graph/graph.h"
#include "rung/edges.h"
#include "sort/partition.h"

/** The input of a sort: edge lists, or columns that were opened for passes. */
struct rung__edge_input {
	const struct rung_graph_opts *opts; /* borrowed */
	const char *name;                   /* for messages */
	struct rung__edge_lists lists;      /* edge lists; unused with columns */
	struct rung_edges *columns;         /* a csc: or csr: read in place; NULL: edge lists */
	bool borrowed;                      /* the caller closes `columns` */
	/* the lists are those of rows: the vertex of a list is the value of its pairs */
	bool by_row;
	const void *rank_of_vertex; /* NULL, or the map by which owners become ranks */
	const void *rank_of_source; /* the same for the entries of lists */
	void *owners;               /* [edges of a chunk] vertex whose list has the edge */
	void *ranks;                /* [edges of a chunk] with rank_of_vertex: ranks of the ids */
	uint64_t vertex_count;
	/* ids of the values of pairs are below it; with two_types they are those of another type */
	uint64_t source_count;
	bool two_types;
	uint64_t pair_count_max; /* upper bound: a self loop has no reverse with `undirected` */
	unsigned index_bytes;    /* of the ids in pairs */
	uint64_t source_bytes;   /* memory that the sources use to inflate members of a .npz */
	unsigned passes;         /* passes over the input so far */
};

/** Open the input of a spec. @param memory_bytes  limit of its buffers. @return 0, or a failure; if
 * memory_bytes is too small, rung_last_error_min_bytes() has the smallest value that works */
int rung__edge_input_open(struct rung__edge_input *input, const struct rung_graph_opts *opts,
                          uint64_t memory_bytes);

/** The pairs of open edges, reversed, by passes over them. They stay open when the input is
 * closed. */
int rung__edge_input_open_turned(struct rung__edge_input *input, struct rung_edges *edges);

/** The pairs of open edges, relabelled and not reversed: both ids of a pair are ranks.
 * @param rank_of_source  the map of entries; within one type it is rank_of_vertex */
int rung__edge_input_open_relabelled(struct rung__edge_input *input, struct rung_edges *edges,
                                     const void *rank_of_vertex, const void *rank_of_source);

/**
 * Call `fn` with all pairs, the values of each key in the order of the lists that rung_graph_load()
 * builds. If `fn` returns a value other than 0, the call ends and returns it.
 *
 * @param counting  only keys and the number of pairs matter: values need not be relabelled
 */
int rung__edge_input_each(struct rung__edge_input *input, bool counting, rung__pairs_fn fn,
                          void *ctx);

void rung__edge_input_close(struct rung__edge_input *input);

#endif
