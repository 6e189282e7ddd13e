/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samplers: their options, and the buffers of each thread.
 *
 * Only the first space has positions when a sampler is created: one batch at a time needs no more.
 * The first rung_sampler_run() allocates those of the other threads.
 */
#include <stdio.h>
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

static int no_memory(void)
{
	return rung__fail(RUNG_E_NOMEM, "sampler: no memory");
}

/* Copy the types and relations. */
static int add_relations(struct rung_sampler *sampler, const struct rung_sampler_opts *opts)
{
	sampler->relations = rung__zalloc_array(opts->relation_count, sizeof(*sampler->relations));
	sampler->types = rung__zalloc_array(opts->type_count, sizeof(*sampler->types));
	if (!sampler->relations || !sampler->types)
		return no_memory();
	sampler->relation_count = opts->relation_count;
	sampler->type_count = opts->type_count;
	for (uint32_t i = 0; i < opts->type_count; i++) {
		sampler->types[i].vertex_count = opts->type_counts[i];
		sampler->types[i].hashed =
			opts->type_counts[i] > rung__sampler_table_bytes / sizeof(uint32_t);
	}
	for (uint32_t i = 0; i < opts->relation_count; i++) {
		const struct rung_sampler_relation *from = &opts->relations[i];
		struct rung__sampled_relation *to = &sampler->relations[i];

		to->source_type = from->source_type;
		to->target_type = from->target_type;
		memcpy(to->fanouts, from->fanouts, opts->hop_count * sizeof(*from->fanouts));
		if (from->csc)
			to->lists = (struct rung__lists){
				.csc = *from->csc,
				.degree_max = largest_degree(from->csc),
				.resident_count = from->csc->edge_count,
			};
		else
			to->lists = from->structure->lists;
		to->tiered = to->lists.resident_count < to->lists.csc.edge_count;
		/* with lists in a file, memory is short, and a batch waits for reads in any case */
		sampler->types[to->source_type].hashed |= to->tiered;
		sampler->tiered |= to->tiered;
	}
	return 0;
}

/* Size the hash sets for the draws of all relations. */
static int size_sets(struct rung_sampler *sampler)
{
	for (uint32_t i = 0; i < sampler->relation_count; i++) {
		const struct rung__lists *lists = &sampler->relations[i].lists;
		char where[32] = "";

		/* positions in a list are stored where the ids will be, in index_bytes */
		if (lists->csc.index_bytes == 4 && lists->degree_max > UINT32_MAX) {
			if (sampler->typed)
				snprintf(where, sizeof(where), "relation %" PRIu32 ": ", i);
			return rung__fail(RUNG_E_NOSUP,
			                  "sampler: %sa neighbour list has %" PRIu64
			                  " ids of 4 bytes; at most %" PRIu32
			                  " are supported; remove parallel edges",
			                  where, lists->degree_max, UINT32_MAX);
		}
		sampler->set_size =
			RUNG__MAX(sampler->set_size,
		                  rung__draw_set_size(sampler->relations[i].fanouts,
		                                      sampler->hop_count, lists->degree_max));
	}
	return 0;
}

/* Allocate the positions of a thread. */
static int place_positions(struct rung_sampler *sampler, uint32_t thread)
{
	for (uint32_t i = 0; i < sampler->type_count; i++) {
		struct rung__positions *positions = &sampler->spaces[thread].positions[i];

		/* an earlier call may have failed after this allocation; free it */
		rung__positions_fini(positions);
		if (!rung__positions_init(positions, sampler->types[i].vertex_count,
		                          sampler->types[i].hashed))
			return rung__fail(RUNG_E_NOMEM,
			                  "sampler over %" PRIu64 " vertices: no memory",
			                  sampler->types[i].vertex_count);
	}
	return 0;
}

/* Allocate the spaces, their hash sets, and the positions of the first. */
static int make_spaces(struct rung_sampler *sampler)
{
	sampler->spaces = rung__zalloc_array(sampler->threads, sizeof(*sampler->spaces));
	if (!sampler->spaces)
		return no_memory();
	for (uint32_t t = 0; t < sampler->threads; t++) {
		struct rung__space *space = &sampler->spaces[t];

		space->positions =
			rung__zalloc_array(sampler->type_count, sizeof(*space->positions));
		if (!space->positions)
			return no_memory();
		if (sampler->set_size == 0)
			continue;
		space->set = rung__malloc_array(sampler->set_size, sizeof(uint64_t));
		if (!space->set)
			return no_memory();
	}
	return place_positions(sampler, 0);
}

int rung__sampler_place_state(struct rung_sampler *sampler)
{
	int rc = 0;

	for (uint32_t t = 1; t < sampler->threads && !sampler->spread && rc == 0; t++)
		rc = place_positions(sampler, t);
	sampler->spread |= rc == 0;
	return rc;
}

static int open_sampler(struct rung_sampler *sampler, const struct rung_sampler_opts *opts)
{
	int rc;

	sampler->hop_count = opts->hop_count;
	sampler->draws = opts->draws;
	sampler->seed = opts->seed;
	sampler->seed_type = opts->seed_type;
	sampler->edge_positions = opts->edge_positions != 0;
	rc = add_relations(sampler, opts);
	if (rc == 0)
		rc = size_sets(sampler);
	if (rc < 0)
		return rc;
	sampler->threads = (uint32_t)rung__threads(
		opts->threads == 0 && sampler->tiered ? TIERED_THREADS : opts->threads);
	return make_spaces(sampler);
}

int rung_sampler_create(const struct rung_csc *csc, const struct rung_sampler_opts *caller_opts,
                        struct rung_sampler **sampler_out)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_sampler_relation only = { .csc = csc };
	struct rung_sampler *sampler;
	uint64_t vertex_count;
	bool typed;
	int rc;

	rc = rung__opts_copy_in(&opts, sizeof(opts), caller_opts, "rung_sampler_opts");
	if (rc == 0)
		rc = rung__sampler_check(csc, &opts);
	if (rc < 0)
		return rc;
	typed = opts.relations != NULL;
	if (!typed) {
		only.structure = opts.structure;
		only.fanouts = opts.fanouts;
		vertex_count = csc ? csc->vertex_count : opts.structure->lists.csc.vertex_count;
		opts.relations = &only;
		opts.type_counts = &vertex_count;
		opts.relation_count = opts.type_count = 1;
	}
	sampler = rung__zalloc(sizeof(*sampler));
	if (!sampler)
		return no_memory();
	sampler->typed = typed;
	rc = open_sampler(sampler, &opts);
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
		struct rung__space *space = &sampler->spaces[t];

		for (uint32_t i = 0; space->positions && i < sampler->type_count; i++)
			rung__positions_fini(&space->positions[i]);
		rung__free(space->positions);
		rung__free(space->set);
		rung__cold_runs_fini(&space->cold);
	}
	rung__free(sampler->spaces);
	rung__free(sampler->relations);
	rung__free(sampler->types);
	rung__free(sampler);
}

int rung_sampler_sample(struct rung_sampler *sampler, const uint64_t *seeds, uint64_t seed_count,
                        uint64_t batch_key, struct rung_batch *batch)
{
	return rung__sample(sampler, &sampler->spaces[0], seeds, seed_count, batch_key,
	                    sampler->threads, batch);
}
