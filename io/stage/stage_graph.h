/* SPDX-License-Identifier: Apache-2.0 */
/** Computes graph, score, ranks and relabelled graph, in memory or in files. */
#ifndef RUNG_IO_STAGE_GRAPH_H
#define RUNG_IO_STAGE_GRAPH_H

#include "run/run.h"

/** Set edge_count_max, an upper bound of the number of edges, from the sizes of the files. Also
 * checks the options of the graph. */
int rung__stage_count_edges(struct rung__stage *stage);
/** Set the manifest's numbers about graph and score: from the journal, or by reading the graph. */
int rung__stage_fix_counts(struct rung__stage *stage);
/** Compute score and ranks, and write the files of the maps and the score; or read the maps that an
 * earlier run has written. Both maps are in memory afterwards. */
int rung__stage_rank(struct rung__stage *stage);
/** Write the files of the relabelled graph, unless they are finished or part 0 writes them. Frees
 * the graph and vertex_of_rank; the only map that stays in memory is rank_of_vertex. */
int rung__stage_relabel(struct rung__stage *stage);
/** Read the graph, unless it is loaded already, and set the manifest's edge count. */
int rung__stage_load_graph(struct rung__stage *stage);
/** Free the graph, in memory or in files, if it is loaded. */
void rung__stage_drop_graph(struct rung__stage *stage);

#endif
