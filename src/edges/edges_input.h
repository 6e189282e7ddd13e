/* SPDX-License-Identifier: Apache-2.0 */
/** A graph of any spec as a stream of pairs, for sorting. Private to the core. */
#ifndef RUNG_EDGES_INPUT_H
#define RUNG_EDGES_INPUT_H

#include "graph/graph.h"
#include "rung/edges.h"
#include "sort/partition.h"

struct rung__edge_input {
	const struct rung_graph_opts *opts;
	const char *name;              /* for messages */
	struct rung__edge_lists lists; /* edge lists, or */
	struct rung_edges *columns;    /* a csc: or csr: read in place */
	bool borrowed;                 /* `columns` are another's */
	bool by_row; /* the lists are those of rows: vertices are the values of the pairs */
	const void *rank_of_vertex; /* NULL, or pairs are of ranks */
	void *owners;               /* of the edges of a chunk: its column or row */
	void *ranks;                /* of their values */
	uint64_t vertex_count;
	uint64_t pair_count_max; /* of all; fewer where a self loop has no reverse */
	unsigned index_bytes;
	uint64_t source_bytes; /* that deflated members of a .npz hold */
	unsigned passes;       /* over the input so far */
};

/** @param memory_bytes  of its buffers */
int rung__edge_input_open(struct rung__edge_input *input, const struct rung_graph_opts *opts,
                          uint64_t memory_bytes);

/** The pairs of open edges turned round, by passes over them. They stay open when the input is
 * closed. */
int rung__edge_input_open_turned(struct rung__edge_input *input, struct rung_edges *edges);

/** The same under new names, not turned: both ids of a pair are ranks. */
int rung__edge_input_open_relabelled(struct rung__edge_input *input, struct rung_edges *edges,
                                     const void *rank_of_vertex);

/**
 * All pairs, in the order in which rung_graph_load() has the values of a key. Not 0 from `fn` ends
 * it.
 *
 * @param counting  only keys matter, and which pairs there are
 */
int rung__edge_input_each(struct rung__edge_input *input, bool counting, rung__pairs_fn fn,
                          void *ctx);

void rung__edge_input_close(struct rung__edge_input *input);

#endif
