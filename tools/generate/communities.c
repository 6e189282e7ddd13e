/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communities: their number, their classes, how many citations their vertices make, and whether
 * these are answered; docs/GENERATE.md describes them.
 *
 * The factors of the communities are drawn from a log-normal law. In a stratified model they are
 * the quantiles of that law, and only their order is drawn. A few communities have most of the
 * edges, so that hits and reads would otherwise depend on the seed.
 */
#include <math.h>
#include <stdlib.h>

#include "generate.h"

#define MEMBERS_MIN 50 /* of a community that exists only for the sake of a class */

/* A small model has smaller communities, so that it has at least half of the classes. */
static uint64_t community_count(const struct gen_graph *graph)
{
	const uint64_t fitted = (uint64_t)((double)graph->vertices / graph->params.community);
	const uint64_t half = (graph->model->classes + 1) / 2, most = graph->vertices / MEMBERS_MIN;
	const uint64_t least = half < most ? half : most;

	return fitted > least ? fitted : least > 0 ? least : 1;
}

/* Classes are ranges of communities. The first ones are the largest, as in the originals, and each
 * has at least one. */
static void fill_classes(struct gen_graph *graph)
{
	const uint64_t count = graph->communities;

	graph->classes = graph->model->classes < count ? graph->model->classes : (uint32_t)count;
	for (uint32_t label = 1; label <= graph->classes; label++) {
		const uint64_t last = count - (graph->classes - label);
		const double share = (double)label / (double)graph->classes;
		uint64_t begin = (uint64_t)(sqrt(share) * (double)count);

		if (begin <= graph->class_begin[label - 1])
			begin = graph->class_begin[label - 1] + 1;
		graph->class_begin[label] = begin < last ? begin : last;
	}
}

/* Orders of magnitude of the number of communities. */
static unsigned scale_count(const struct gen_graph *graph)
{
	unsigned scales = 0;

	while (graph->communities >> scales > 1)
		scales++;
	return scales;
}

/* The sum of one contribution of each scale, each with variance 1. Communities whose numbers are
 * near each other share the contributions of the larger scales. */
static double sum_of_scales(const struct gen_graph *graph, const double *quantiles,
                            uint64_t community)
{
	const unsigned scales = scale_count(graph);
	double sum = 0;

	for (unsigned scale = 0; scale < scales; scale++) {
		const uint64_t key = rung__key_join(graph->key_uneven, scale);

		sum += quantiles[rung__rng_at(key, community >> scale) >> (64 - GEN_LAW_BITS)];
	}
	return sum;
}

struct ranked {
	double sum;
	uint64_t community;
};

static int compare_sums(const void *a, const void *b)
{
	const struct ranked *one = a, *other = b;

	if (one->sum != other->sum)
		return one->sum < other->sum ? -1 : 1;
	return one->community < other->community ? -1 : one->community > other->community;
}

/*
 * Replace the sums by the quantiles of their ranks. The communities with the fewest citations are
 * the answered ones: if they were drawn, the few large ones could be among them or not.
 */
static void stratify(struct gen_graph *graph, struct ranked *list)
{
	const double deviation = sqrt(scale_count(graph));

	qsort(list, graph->communities, sizeof(*list), compare_sums);
	for (uint64_t rank = 0; rank < graph->communities; rank++) {
		const double share = ((double)rank + 0.5) / (double)graph->communities;

		list[rank].sum = deviation * gen_normal_quantile(share);
		graph->answered[list[rank].community] = share < graph->params.mutual;
	}
}

/* Factors of the communities: log-normal, with the same variance at every scale; and which of them
 * are answered. */
static int fill_factors(struct gen_graph *graph)
{
	double *quantiles = malloc(GEN_LAW * sizeof(*quantiles));
	struct ranked *list = malloc(graph->communities * sizeof(*list));
	const unsigned scales = scale_count(graph);
	const double deviation = sqrt(scales ? scales : 1);

	graph->uneven = malloc(graph->communities * sizeof(*graph->uneven));
	graph->answered = malloc(graph->communities * sizeof(*graph->answered));
	if (!quantiles || !list || !graph->uneven || !graph->answered) {
		free(quantiles);
		free(list);
		return -1;
	}
	for (unsigned i = 0; i < GEN_LAW; i++)
		quantiles[i] = gen_normal_quantile((i + 0.5) / GEN_LAW);
	for (uint64_t i = 0; i < graph->communities; i++) {
		list[i] = (struct ranked){ sum_of_scales(graph, quantiles, i), i };
		graph->answered[i] = (uint32_t)rung__rng_at(graph->key_mutual, i) < graph->mutual;
	}
	if (graph->model->stratified)
		stratify(graph, list);
	for (uint64_t i = 0; i < graph->communities; i++) {
		const double value =
			exp(graph->params.uneven * list[i].sum / deviation) * GEN_ONE_16;
		uint32_t *factor = &graph->uneven[list[i].community];

		*factor = value >= 1e9 ? 1000000000 : (uint32_t)lround(value);
		if (*factor > graph->uneven_max)
			graph->uneven_max = *factor;
	}
	free(quantiles);
	free(list);
	return 0;
}

int gen_communities_init(struct gen_graph *graph)
{
	graph->communities = community_count(graph);
	fill_classes(graph);
	return fill_factors(graph);
}

void gen_communities_fini(struct gen_graph *graph)
{
	free(graph->uneven);
	free(graph->answered);
	graph->uneven = NULL;
	graph->answered = NULL;
}

bool gen_is_mutual(const struct gen_graph *graph, uint64_t position)
{
	return graph->mutual && graph->answered[position % graph->communities];
}

uint32_t gen_class(const struct gen_graph *graph, uint64_t position)
{
	const uint64_t community = position % graph->communities;
	uint32_t low = 0, high = graph->classes;

	/* class_begin[low] <= community < class_begin[high] */
	while (high - low > 1) {
		const uint32_t middle = (low + high) / 2;

		if (graph->class_begin[middle] <= community)
			low = middle;
		else
			high = middle;
	}
	return low;
}
