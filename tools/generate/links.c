/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other types of a typed model: authors, who write papers, and institutions, with which authors
 * are affiliated. docs/GENERATE.md describes them. As the graph of the papers they are computed
 * from hashes when they are needed.
 *
 * The vertices are ranked by their number of links, in an order that a permutation gives. The first
 * r of them have F(r) links together, so the vertex of rank r has F(r + 1) - F(r). F is the sum of
 * a log-normal law's quantiles, rounded down; its last value is the number of edges, which is
 * therefore exact.
 */
#include <math.h>

#include "generate.h"

#define SPREAD           0.8  /* of the number of links: sigma of the log-normal law */
#define FAME             0.75 /* of authors and institutions, as the parameter of papers */
#define FAME_32          ((uint32_t)(FAME * 4294967296.0))
#define INSTITUTIONS_MIN 16 /* more than an author has */

static uint64_t product_over(uint64_t a, uint64_t b, uint64_t divisor)
{
	return (uint64_t)((unsigned __int128)a * b / divisor);
}

/* ---- numbers of links ---- */

static void fill_law(uint64_t law[GEN_LAW + 1])
{
	double sums[GEN_LAW + 1] = { 0 };

	for (unsigned i = 0; i < GEN_LAW; i++)
		sums[i + 1] = sums[i] + exp(SPREAD * gen_normal_quantile((i + 0.5) / GEN_LAW));
	/* rounded to 2^-24, so that an error in the last bit of exp() changes nothing */
	for (unsigned i = 0; i <= GEN_LAW; i++)
		law[i] = (uint64_t)round(sums[i] / sums[GEN_LAW] * 0x1p24) << 8;
}

static void init_links(struct gen_links *links, uint64_t count, uint64_t targets, uint64_t edges,
                       uint64_t key)
{
	links->count = count;
	links->targets = targets;
	links->edges = edges;
	links->least = edges / count > 0;
	links->key = key;
	gen_permutation_init(&links->order, count, rung__key_join(key, 1));
	fill_law(links->law);
}

/* Links of the first `rank` vertices. */
static uint64_t links_before(const struct gen_links *links, uint64_t rank)
{
	const uint64_t at = rank * GEN_LAW / links->count, rest = rank * GEN_LAW % links->count;
	const uint64_t further = links->edges - links->least * links->count;
	unsigned __int128 share = (unsigned __int128)links->law[at] * links->count;

	if (rest)
		share += (links->law[at + 1] - links->law[at]) * rest;
	return links->least * rank + (uint64_t)(share * further / links->count >> 32);
}

uint32_t gen_link_count(const struct gen_links *links, uint64_t position)
{
	const uint64_t rank = gen_permute(&links->order, position);

	return (uint32_t)(links_before(links, rank + 1) - links_before(links, rank));
}

/* The law grows with the rank, except that it is rounded down. */
uint32_t gen_link_most(const struct gen_links *links)
{
	return (uint32_t)(links->edges - links_before(links, links->count - 1)) + 1;
}

/* ---- their targets ---- */

/* Members of a community, of `count` vertices that are divided as papers are. */
static uint64_t members_of(const struct gen_graph *graph, uint64_t count, uint64_t community)
{
	return (count - 1 - community) / graph->communities + 1;
}

static uint64_t slot_bits(const struct gen_links *links, uint64_t position, uint32_t slot,
                          uint32_t attempt)
{
	return rung__rng_at(rung__key_join(links->key, position), ((uint64_t)attempt << 32) + slot);
}

static uint64_t community_of(const struct gen_graph *graph, uint64_t own, uint64_t bits)
{
	return (uint32_t)bits < graph->home ? own
	                                    : gen_near_community(graph, own, rung__rng_at(bits, 1));
}

/* Every author is the first one of about one paper. The others began before the paper, and most of
 * them not long before. */
uint64_t gen_author(const struct gen_typed *typed, const struct gen_graph *graph, uint64_t paper,
                    uint32_t slot, uint32_t attempt)
{
	const struct gen_links *links = &typed->writes;
	const uint64_t bits = slot_bits(links, paper, slot, attempt);
	const uint64_t count = graph->communities, own = paper % count;
	const bool first = slot == 0 && attempt == 0;
	const uint64_t community = first ? own : community_of(graph, own, bits);
	const uint64_t members = members_of(graph, links->targets, community);
	uint64_t member =
		product_over(paper / count, members, members_of(graph, links->count, own));

	member = member < members ? member : members - 1;
	if (!first) {
		member -= gen_age(graph, (uint32_t)(bits >> 32), member + 1);
		member = gen_famous(FAME_32, links->key, community, member,
		                    (uint32_t)rung__rng_at(bits, 2));
	}
	return member * count + community;
}

uint64_t gen_institution(const struct gen_typed *typed, const struct gen_graph *graph,
                         uint64_t author, uint32_t slot, uint32_t attempt)
{
	const struct gen_links *links = &typed->affiliations;
	const uint64_t bits = slot_bits(links, author, slot, attempt);
	const uint64_t own = author % graph->communities;
	const uint64_t community = community_of(graph, own, bits);
	const uint64_t begin = product_over(community, links->targets, graph->communities),
		       end = product_over(community + 1, links->targets, graph->communities);
	uint64_t near = begin;

	if (end > begin)
		near += (bits >> 32) * (end - begin) >> 32;
	return gen_famous(FAME_32, links->key, 0, near, (uint32_t)rung__rng_at(bits, 2));
}

uint64_t gen_institution_home(const struct gen_typed *typed, const struct gen_graph *graph,
                              uint64_t position)
{
	return product_over(position, graph->communities, typed->institutions);
}

/* ---- the counts ---- */

static uint64_t scaled_count(const struct gen_graph *graph, uint64_t scale, uint64_t original)
{
	return scale ? original / scale
	             : product_over(original, graph->vertices, graph->model->vertices);
}

void gen_typed_init(struct gen_typed *typed, const struct gen_graph *graph, uint64_t scale)
{
	const struct gen_others *others = graph->model->others;
	const uint64_t institutions = scaled_count(graph, scale, others->institutions);

	typed->authors = scaled_count(graph, scale, others->authors);
	typed->institutions = institutions > INSTITUTIONS_MIN ? institutions : INSTITUTIONS_MIN;
	gen_permutation_init(&typed->author_order, typed->authors, rung__key_join(graph->seed, 20));
	gen_permutation_init(&typed->institution_order, typed->institutions,
	                     rung__key_join(graph->seed, 21));
	init_links(&typed->writes, graph->vertices, typed->authors,
	           scaled_count(graph, scale, others->writes), rung__key_join(graph->seed, 22));
	init_links(&typed->affiliations, typed->authors, typed->institutions,
	           scaled_count(graph, scale, others->affiliations),
	           rung__key_join(graph->seed, 23));
}
