/* SPDX-License-Identifier: Apache-2.0 */
/** Graph, score, ranks, relabelled graph, in memory or in files. */
#ifndef RUNG_IO_STAGE_GRAPH_H
#define RUNG_IO_STAGE_GRAPH_H

#include "run/run.h"

/** Upper bound of the number of edges, from the sizes of the files. */
int rung__stage_count_edges(struct rung__stage *stage);
/** Numbers in the manifest about graph and score: from the journal, or by reading the graph. */
int rung__stage_fix_counts(struct rung__stage *stage);
/** Graph, score, ranks, and the files of the maps and the score; or the maps as an earlier run left
 * them. */
int rung__stage_rank(struct rung__stage *stage);
/** The files of the relabelled graph. From here on the only map is rank_of_vertex. */
int rung__stage_relabel(struct rung__stage *stage);
/** Read the graph, unless that was done; the manifest then has its edges. */
int rung__stage_load_graph(struct rung__stage *stage);
void rung__stage_drop_graph(struct rung__stage *stage);

#endif
