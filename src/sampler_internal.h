/* SPDX-License-Identifier: Apache-2.0 */
/** The inside of samplers and batches. Private to sampler*.c; kernels/ shares the arithmetic. */
#ifndef RUNG_SAMPLER_INTERNAL_H
#define RUNG_SAMPLER_INTERNAL_H

#include "internal.h"
#include "rung/sampler.h"

#define RUNG__DRAWS_IN_LIST 32u   /* up to so many draws, looking through them all beats a hash set */

struct rung_sampler {
	struct rung_csc csc;
	uint32_t fanouts[RUNG_HOPS_MAX];
	uint32_t hop_count;
	uint64_t seed;
	int threads;
	uint32_t *position_of;    /* [vertex_count] position in the batch, POSITION_NONE outside a call */
	uint64_t set_size;        /* of one thread's hash set, a power of two; 0: no hop needs one */
	uint64_t *sets;           /* [threads][set_size] drawn position + 1, 0: free */
};

struct batch_hop {
	struct rung_block block;
	uint64_t *indptr;
	uint64_t indptr_capacity;
	uint32_t *indices;
	uint64_t indices_capacity;
};

struct rung_batch {
	uint64_t *vertices;
	uint64_t vertex_count;
	uint64_t vertices_capacity;
	uint64_t *wide_ids;       /* ids of 8 bytes as drawn, before they are numbered */
	uint64_t wide_ids_capacity;
	uint32_t hop_count;       /* 0 while it holds nothing */
	struct batch_hop hops[RUNG_HOPS_MAX];
};

/** Draws at a vertex of this degree. */
static RUNG__ANYWHERE inline uint64_t rung__draw_count(uint32_t fanout, uint64_t degree)
{
	return fanout == UINT32_MAX ? degree : RUNG__MIN((uint64_t)fanout, degree);
}

/** Slots a thread's hash set needs for these fanouts and the largest degree; 0 when none is needed. */
uint64_t rung__draw_set_size(const uint32_t *fanouts, uint32_t hop_count, uint64_t degree_max);

/**
 * Draw in-neighbours of vertices[0 .. count): those of vertex i go to drawn[indptr[i] .. indptr[i+1]), which are
 * rung__draw_count() many, in ids of csc.index_bytes.
 */
void rung__draw_hop(const struct rung_sampler *sampler, uint32_t hop, uint64_t batch_key, const uint64_t *vertices,
                    uint64_t count, const uint64_t *indptr, void *drawn);

#endif
