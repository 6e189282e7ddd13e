/* SPDX-License-Identifier: Apache-2.0 */
/** Common parts of relabelling in memory and in files. Private to rung. */
#ifndef RUNG_RELABEL_H
#define RUNG_RELABEL_H

#include "base/base.h"
#include "rung/graph.h"

struct rung_edges;

/** Options of rung__edges_relabel(): zeros are defaults. */
struct rung__relabel_opts {
	/* of the buffers of sorting; 0: 256 MiB. Two chunks of the graph (chunk_bytes) are
	 * allocated in addition */
	uint64_t memory_bytes;
	/* folder for two ids per edge during the call; NULL: $TMPDIR, or /var/tmp */
	const char *temp_dir;
	uint32_t threads;          /* 0: OpenMP's default; the result does not depend on it */
	rung_progress_fn progress; /* may be NULL */
	void *progress_ctx;
};

/**
 * rung__graph_relabel() for a graph in files: the relabelled graph is written as two .npy files,
 * indptr uint64 and indices of the graph's index_bytes, whose arrays begin at byte 4096. Every
 * entry equals that of the function for graphs in memory.
 *
 * The two maps (2 * index_bytes per vertex) and buffers are in memory. The graph is read twice, and
 * every edge goes through a temporary file once.
 *
 * @param edges           no pass may be running on it. With a source_count the maps are those of
 *                        rung__graph_relabel(), and one more is in memory
 * @param vertex_of_rank  [vertex_count] of index_bytes
 * @param rank_of_vertex  [vertex_count] of index_bytes, its inverse
 * @param opts            NULL: defaults
 * @param indptr_path     created through PATH.partial, which is renamed when both files are
 *                        complete and synced, and removed otherwise
 * @param indices_path    the same
 * @return 0, RUNG_E_FORMAT (the maps are not inverse to each other; the message has the entry),
 *         RUNG_E_EXIST, RUNG_E_NOSPC with the required bytes, RUNG_E_INVAL if memory_bytes is too
 *         small (the message has the smallest that works), or an error of a pass over the graph
 */
int rung__edges_relabel(struct rung_edges *edges, const void *vertex_of_rank,
                        const void *rank_of_vertex, const struct rung__relabel_opts *opts,
                        const char *indptr_path, const char *indices_path);

/**
 * Relabel a graph (the data-tiering paper's Algorithm 2, with two separate maps): the list of rank
 * r is the list of vertex_of_rank[r], every entry mapped by rank_of_vertex, in the old order.
 *
 * @param csc             the graph, checked. If it has a source_count, vertex_of_rank is the map of
 *                        the targets and rank_of_vertex [source_count] that of the sources
 * @param vertex_of_rank  [vertex_count] of csc->index_bytes
 * @param rank_of_vertex  [vertex_count] of csc->index_bytes, its inverse
 * @param threads         0: OpenMP's default; the result does not depend on it
 * @param indptr_out      [vertex_count + 1] written
 * @param indices_out     [edge_count] of csc->index_bytes written; must not overlap the input
 * @return 0; RUNG_E_FORMAT if the two maps are not each other's inverse or, with a source_count,
 *         one is not a permutation (the message has the entry); RUNG_E_NOMEM
 */
int rung__graph_relabel(const struct rung_csc *csc, const void *vertex_of_rank,
                        const void *rank_of_vertex, uint32_t threads, uint64_t *indptr_out,
                        void *indices_out);

/** Check that the ids are 0 .. count-1 in any order: a repeated one would make the lists of the
 * result longer than those of the graph. @return 0, RUNG_E_FORMAT (the message has the entry),
 * RUNG_E_NOMEM (count / 8 bytes are needed) */
int rung__permutation_check(const void *ids, uint64_t count, unsigned index_bytes,
                            const char *name);

/** Check that two maps are each other's inverse. @return 0, RUNG_E_FORMAT (the message has the
 * entry) */
int rung__maps_check(const void *vertex_of_rank, const void *rank_of_vertex, uint64_t vertex_count,
                     unsigned index_bytes, int threads);

/**
 * rung__edges_relabel() to two files without names in opts->temp_dir, for reading through the page
 * cache. They disappear when they are closed or the process ends, even if it is killed.
 * @param fds_out  indptr and indices, as .npy; set on success, the caller closes them
 */
int rung__edges_relabel_temp(struct rung_edges *edges, const void *vertex_of_rank,
                             const void *rank_of_vertex, const struct rung__relabel_opts *opts,
                             int fds_out[2]);

#endif
