/* SPDX-License-Identifier: Apache-2.0 */
/** What relabelling in memory and in files have in common. Private to rung. */
#ifndef RUNG_RELABEL_H
#define RUNG_RELABEL_H

#include <stdint.h>

struct rung_edges;
struct rung_relabel_opts;

/** RUNG_E_FORMAT with the entry when the two maps, of index_bytes, are not each other's inverse. */
int rung__maps_check(const void *vertex_of_rank, const void *rank_of_vertex, uint64_t vertex_count, unsigned index_bytes,
                     int threads);

/**
 * rung_edges_relabel() to two files without names in opts->temp_dir, for reading through the page
 * cache. They are gone when they are closed, also by a process that is killed.
 * @param fds_out  indptr and indices, as .npy; set on success, the caller closes them
 */
int rung__edges_relabel_temp(struct rung_edges *edges, const void *vertex_of_rank,
			     const void *rank_of_vertex, const struct rung_relabel_opts *opts,
			     int fds_out[2]);

#endif
