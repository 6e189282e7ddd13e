/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of a graph that grows in time; docs/GENERATE.md describes it.
 *
 * Vertices arrive one by one. Each belongs to a community and makes a number of citations, which is
 * drawn from a log-normal law. The citations of a vertex form runs. The first citation of a run
 * picks an older vertex, the *prototype*. Each of the others copies, with probability `copy`, one
 * of the citations of the prototype; otherwise it picks an older vertex, too. A pick chooses the
 * vertex's own community (`home`), one near it (`kin`), or the whole graph, then an age, and then a
 * famous vertex of about that age (`fame`), which makes in-degrees follow a power law.
 *
 * A copied citation is found by computing the prototype's, which may be a copy, too (Sanders and
 * Schulz, "Scalable generation of scale-free graphs", IPL 116, 2016). A target takes 1 / (1 - copy)
 * such steps on average, and no memory.
 *
 * All draws are 64-bit integers. Floating point is used only for the tables (laws.c), whose entries
 * are rounded to integers.
 */
#include <math.h>

#include "generate.h"

#define STEPS_MAX 64 /* of a copied citation; then it picks. Bounds the time of a target */

static uint32_t probability(double share)
{
	return share >= 1 ? UINT32_MAX : (uint32_t)(share * 4294967296.0);
}

/* The product of two shares in units of 2^-64 and of 1. */
static uint64_t scaled(uint64_t share, uint64_t limit)
{
	return (uint64_t)(((unsigned __int128)share * limit) >> 64);
}

static uint64_t key_of(const struct gen_graph *graph, uint64_t number)
{
	return rung__key_join(graph->seed, number);
}

/* Numbers of the splits; their sum is that of the labelled vertices. */
static void fill_splits(struct gen_graph *graph)
{
	const struct gen_model *model = graph->model;
	const uint64_t labelled = (uint64_t)llround(model->labelled * (double)graph->vertices);

	graph->split_count[GEN_TRAIN] = (uint64_t)llround(model->train * (double)labelled);
	graph->split_count[GEN_VALID] = (uint64_t)llround(model->valid * (double)labelled);
	graph->split_count[GEN_TEST] =
		labelled - graph->split_count[GEN_TRAIN] - graph->split_count[GEN_VALID];
	gen_permutation_init(&graph->split_order, labelled ? labelled : 1, key_of(graph, 9));
}

void gen_graph_fini(struct gen_graph *graph)
{
	gen_communities_fini(graph);
}

int gen_graph_init(struct gen_graph *graph, uint64_t seed)
{
	const struct gen_params *params = &graph->params;

	graph->seed = rung__mix64(seed);

	graph->key_degree = key_of(graph, 1);
	graph->key_slot = key_of(graph, 2);
	graph->key_run = key_of(graph, 3);
	graph->key_mutual = key_of(graph, 4);
	graph->key_uneven = key_of(graph, 5);
	graph->key_fame = key_of(graph, 8);
	graph->copy = probability(params->copy);
	graph->home = probability(params->home);
	graph->kin = probability(params->kin);
	graph->fame = probability(params->fame);
	graph->none = probability(params->none);
	graph->mutual = probability(params->mutual);
	graph->run = (uint32_t)params->run;
	for (unsigned i = 0; i < GEN_LAW; i++)
		graph->growth_law[i] =
			(uint32_t)lround(pow((i + 0.5) / GEN_LAW, params->growth) * GEN_ONE_16);
	gen_fill_ages(graph->age_law, params->recency);
	gen_permutation_init(&graph->extra_order, graph->vertices, key_of(graph, 6));
	gen_permutation_init(&graph->id_order, graph->vertices, key_of(graph, 7));
	fill_splits(graph);
	return gen_communities_init(graph);
}

void gen_graph_set_mean(struct gen_graph *graph, double mean)
{
	gen_fill_log_normal(graph->degree_law, mean / (1 - graph->params.none),
	                    graph->params.spread);
}

/* ---- numbers of citations ---- */

uint32_t gen_degree(const struct gen_graph *graph, uint64_t position)
{
	const uint64_t bits = rung__rng_at(graph->key_degree, position);
	const uint64_t community = position % graph->communities;
	uint64_t degree;

	if ((uint32_t)bits < graph->none)
		return 0;
	degree = graph->degree_law[bits >> (64 - GEN_LAW_BITS)];
	degree = degree * graph->uneven[community] >> 16;
	degree = degree * graph->growth_law[position * GEN_LAW / graph->vertices] >> 16;
	/* the fraction is the probability of rounding up */
	degree = (degree + ((bits >> 32) & 0xffff)) >> 16;
	return degree > position ? (uint32_t)position : (uint32_t)degree;
}

uint32_t gen_citations(const struct gen_graph *graph, uint64_t position)
{
	const uint64_t citations = gen_degree(graph, position) + graph->extra_all +
	                           (graph->extra_some &&
	                            gen_permute(&graph->extra_order, position) < graph->extra_some);

	return citations > position ? (uint32_t)position : (uint32_t)citations;
}

/* Extra citations are not answered, so their number is that of the missing edges. */
uint64_t gen_edge_count(const struct gen_graph *graph, uint64_t position)
{
	const uint32_t citations = gen_citations(graph, position);

	if (!gen_is_mutual(graph, position))
		return citations;
	return (uint64_t)citations + gen_degree(graph, position);
}

/* ---- targets ---- */

uint64_t gen_age(const struct gen_graph *graph, uint32_t bits, uint64_t oldest)
{
	const uint32_t at = bits >> (32 - GEN_LAW_BITS);
	const uint64_t between = bits & ((1u << (32 - GEN_LAW_BITS)) - 1);
	const uint64_t low = graph->age_law[at], step = graph->age_law[at + 1] - low;
	const uint64_t share = (low << 32) + ((step * between) << GEN_LAW_BITS);

	return scaled(share, oldest);
}

/* Another community. All orders of magnitude of its distance are equally likely, so that groups of
 * communities form at all scales. */
uint64_t gen_near_community(const struct gen_graph *graph, uint64_t own, uint64_t bits)
{
	const unsigned scales = 64 - (unsigned)__builtin_clzll(graph->communities);
	const unsigned scale = (unsigned)(bits & 63) * scales / 64;
	const uint64_t distance =
		((UINT64_C(1) << scale) + ((bits >> 6) & ((UINT64_C(1) << scale) - 1))) %
		graph->communities;
	const uint64_t community =
		bits >> 63 ? own + distance : own + graph->communities - distance;

	return community < graph->communities ? community : community - graph->communities;
}

/*
 * Replace a member by the last famous one before it. Every 2^k-th member of a list has fame of at
 * least k, so that the famous ones of a level are also those of the levels below. The level is
 * geometric: members of level k get (2 * fame)^k times the picks of others, and there are 2^-k of
 * them, which is a power law.
 */
uint64_t gen_famous(uint32_t fame, uint64_t key, uint64_t list, uint64_t member, uint32_t bits)
{
	const uint64_t phase = rung__rng_at(key, list);
	uint64_t step = 1, limit = fame;

	while (bits < limit && step <= member) {
		step *= 2;
		limit = limit * fame >> 32;
	}
	step = (member - phase) & (step - 1);
	return step <= member ? member - step : member;
}

/* Pick an older vertex; `position` is not 0. */
static uint64_t pick(const struct gen_graph *graph, uint64_t position, uint64_t key)
{
	const uint64_t bits = rung__mix64(key), more = rung__rng_at(key, 1);
	const uint64_t count = graph->communities, own = position % count;
	const uint32_t age_bits = (uint32_t)(bits >> 32), fame_bits = (uint32_t)more;
	uint64_t community = own, members = position / count, member;

	if ((uint32_t)bits >= graph->home) {
		if ((uint32_t)bits - graph->home >= graph->kin)
			return gen_famous(graph->fame, graph->key_fame, count,
			                  position - 1 - gen_age(graph, age_bits, position),
			                  fame_bits);
		community = gen_near_community(graph, own, rung__rng_at(key, 2));
		members += community < own;
	}
	/* the first vertices of the communities have no older ones there */
	if (members == 0)
		return scaled(more, position);
	member = members - 1 - gen_age(graph, age_bits, members);
	return gen_famous(graph->fame, graph->key_fame, community, member, fame_bits) * count +
	       community;
}

uint64_t gen_target(const struct gen_graph *graph, uint64_t position, uint32_t slot,
                    uint32_t attempt)
{
	for (int step = 0; step < STEPS_MAX; step++) {
		const uint64_t key = rung__key_join(graph->key_slot, position);
		const uint64_t bits = rung__rng_at(key, ((uint64_t)attempt << 32) + slot);
		const uint32_t in_run = slot % graph->run;
		uint64_t prototype;
		uint32_t degree;

		if (in_run && (uint32_t)bits >= graph->copy)
			return pick(graph, position, bits);
		/* the prototype is the same for all slots of a run; another attempt draws another
		 * one, because it may have too few citations */
		prototype = pick(graph, position,
		                 rung__rng_at(rung__key_join(graph->key_run, position),
		                              ((uint64_t)(attempt / 2) << 32) + slot / graph->run));
		if (!in_run)
			return prototype;
		degree = gen_degree(graph, prototype);
		if (degree == 0)
			return prototype;
		position = prototype;
		slot = (uint32_t)(((bits >> 32) * degree) >> 32);
		attempt = 0;
	}
	return pick(graph, position, slot);
}
