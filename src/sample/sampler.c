/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samplers: their options, and the buffers of each thread.
 *
 * Only the first space has positions when a sampler is created: one batch at a time needs no more.
 * The first rung_sampler_run() allocates those of the other threads.
 */
#include <string.h>

#include "sample/sample.h"

/* Lookups in a larger table miss all caches, and a hash table of the size of the batch is faster:
 * by half at 32 MiB, with ids in random order. */
uint64_t rung__sampler_table_bytes = UINT64_C(32) << 20;

/* Default number of threads if some lists are in a file: they wait for the device most of the time,
 * and enough of them keep it busy. */
#define TIERED_THREADS 8u

/* The largest degree bounds the draws of a vertex, and so the size of the hash sets. */
static uint64_t largest_degree(const struct rung_csc *csc)
{
	uint64_t largest = 0;

#pragma omp parallel for num_threads(rung__threads(0)) reduction(max : largest) schedule(static)
	for (uint64_t v = 0; v < csc->vertex_count; v++)
		largest = RUNG__MAX(largest, csc->indptr[v + 1] - csc->indptr[v]);
	return largest;
}

static int check_opts(const struct rung_csc *csc, const struct rung_sampler_opts *opts)
{
	if (!csc == !opts->structure)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: %s; pass either a graph in memory or opts.structure",
		                  csc ? "two graphs were given" : "no graph was given");
	if (csc && csc->index_bytes != 4 && csc->index_bytes != 8)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: index_bytes is %u; use 4 (uint32_t) or 8 (uint64_t)",
		                  csc->index_bytes);
	if (opts->hop_count < 1 || opts->hop_count > RUNG_HOPS_MAX || !opts->fanouts)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: %" PRIu32 " hops; use 1 to %d, with a fanout for each",
		                  opts->hop_count, RUNG_HOPS_MAX);
	for (uint32_t hop = 0; hop < opts->hop_count; hop++) {
		if (opts->fanouts[hop] == 0)
			return rung__fail(RUNG_E_INVAL,
			                  "sampler: the fanout of hop %" PRIu32
			                  " is 0; use at least 1, or omit the hop",
			                  hop);
	}
	if (opts->draws != RUNG_DRAWS_ALL && opts->draws != RUNG_DRAWS_NEW)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler: draws is %d; use RUNG_DRAWS_ALL or RUNG_DRAWS_NEW",
		                  (int)opts->draws);
	return 0;
}

static int no_memory(const struct rung_sampler *sampler)
{
	return rung__fail(RUNG_E_NOMEM, "sampler over %" PRIu64 " vertices: no memory",
	                  sampler->lists.csc.vertex_count);
}

/* Allocate the spaces, their hash sets, and the positions of the first. */
static int make_spaces(struct rung_sampler *sampler)
{
	sampler->spaces = rung__zalloc_array(sampler->threads, sizeof(*sampler->spaces));
	if (!sampler->spaces)
		return no_memory(sampler);
	for (uint32_t t = 0; t < sampler->threads && sampler->set_size; t++) {
		sampler->spaces[t].set = rung__malloc_array(sampler->set_size, sizeof(uint64_t));
		if (!sampler->spaces[t].set)
			return no_memory(sampler);
	}
	return rung__positions_init(&sampler->spaces[0].positions, sampler->lists.csc.vertex_count,
	                            sampler->hashed)
	               ? 0
	               : no_memory(sampler);
}

int rung__sampler_place_state(struct rung_sampler *sampler)
{
	for (uint32_t t = 1; t < sampler->threads && !sampler->spread; t++) {
		/* an earlier call may have failed after this thread's positions were allocated;
		 * free them */
		rung__positions_fini(&sampler->spaces[t].positions);
		if (!rung__positions_init(&sampler->spaces[t].positions,
		                          sampler->lists.csc.vertex_count, sampler->hashed))
			return no_memory(sampler);
	}
	sampler->spread = true;
	return 0;
}

int rung_sampler_create(const struct rung_csc *csc, const struct rung_sampler_opts *caller_opts,
                        struct rung_sampler **sampler_out)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung__lists lists;
	struct rung_sampler *sampler;
	int rc;

	rc = rung__opts_copy_in(&opts, sizeof(opts), caller_opts, "rung_sampler_opts");
	if (rc == 0)
		rc = check_opts(csc, &opts);
	if (rc < 0)
		return rc;
	if (csc) {
		lists = (struct rung__lists){ .csc = *csc,
			                      .degree_max = largest_degree(csc),
			                      .resident_count = csc->edge_count };
	} else {
		lists = opts.structure->lists;
	}
	/* positions in a list are stored where the ids will be, in index_bytes */
	if (lists.csc.index_bytes == 4 && lists.degree_max > UINT32_MAX)
		return rung__fail(RUNG_E_NOSUP,
		                  "sampler: a neighbour list has %" PRIu64
		                  " ids of 4 bytes; at most %" PRIu32
		                  " are supported; remove parallel edges",
		                  lists.degree_max, UINT32_MAX);
	sampler = rung__zalloc(sizeof(*sampler));
	if (!sampler)
		return rung__fail(RUNG_E_NOMEM, "sampler: no memory");
	sampler->lists = lists;
	sampler->tiered = lists.resident_count < lists.csc.edge_count;
	sampler->hop_count = opts.hop_count;
	sampler->draws = opts.draws;
	sampler->seed = opts.seed;
	sampler->threads = (uint32_t)rung__threads(
		opts.threads == 0 && sampler->tiered ? TIERED_THREADS : opts.threads);
	memcpy(sampler->fanouts, opts.fanouts, opts.hop_count * sizeof(*opts.fanouts));
	/* with lists in a file, memory is short, and a batch waits for reads in any case */
	sampler->hashed = sampler->tiered ||
	                  lists.csc.vertex_count > rung__sampler_table_bytes / sizeof(uint32_t);
	sampler->set_size = rung__draw_set_size(opts.fanouts, opts.hop_count, lists.degree_max);
	rc = make_spaces(sampler);
	if (rc < 0) {
		rung_sampler_destroy(sampler);
		return rc;
	}
	*sampler_out = sampler;
	return 0;
}

void rung_sampler_destroy(struct rung_sampler *sampler)
{
	if (!sampler)
		return;
	for (uint32_t t = 0; sampler->spaces && t < sampler->threads; t++) {
		rung__positions_fini(&sampler->spaces[t].positions);
		rung__free(sampler->spaces[t].set);
		rung__cold_runs_fini(&sampler->spaces[t].cold);
	}
	rung__free(sampler->spaces);
	rung__free(sampler);
}

int rung_sampler_sample(struct rung_sampler *sampler, const uint64_t *seeds, uint64_t seed_count,
                        uint64_t batch_key, struct rung_batch *batch)
{
	return rung__sample(sampler, &sampler->spaces[0], seeds, seed_count, batch_key,
	                    sampler->threads, batch);
}
