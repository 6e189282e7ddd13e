/* SPDX-License-Identifier: Apache-2.0 */
/** Sources that a description names: with its folder, and compared with its counts. Private to
 * io/preset. */
#ifndef RUNG_IO_PRESET_DESCRIPTION_H
#define RUNG_IO_PRESET_DESCRIPTION_H

#include "preset/description_json.h"
#include "preset/state.h"

/**
 * The SRC at `key`, with the folder of the description before each relative name of a file.
 *
 * @param graph     csc: and csr: have two sources
 * @param spec_out  a text of the preset; unchanged if the key is absent and not needed
 */
int rung__described_source(struct rung__preset *p, const struct rung__described *object,
                           const char *key, bool needed, bool graph, const char **spec_out);

/** Open an array and compare its rows with the number of vertices. Failures name the key. */
int rung__described_check_rows(const struct rung__described *object, const char *key,
                               const char *spec, uint64_t vertex_count);

/** Open the ids of a split. */
int rung__described_check_ids(const struct rung__described *object, const char *key,
                              const char *spec);

/** Numbers that a list of edges is compared with. */
struct rung__edge_counts {
	uint64_t sources, targets; /* vertices at both ends of the edges in the file */
	uint64_t wanted;           /* the field "count"; UINT64_MAX: not given */
	uint64_t found;            /* set: edges in the file */
};

/** Open a graph, and compare its edges with the field "count", and the lists of csc: and csr: with
 * the number of vertices. */
int rung__described_check_edges(const struct rung__described *object, const char *key,
                                const char *spec, struct rung__edge_counts *counts);

/** Open the rows of the edges, and compare their number with that of the edges. */
int rung__described_check_edge_rows(const struct rung__described *object, const char *spec,
                                    uint64_t edge_count);

/** Read "vertex_types", "relations" and the seed type; the fanouts are already read. */
int rung__described_graph(struct rung__preset *p, const struct rung__described *root);

#endif
