/* SPDX-License-Identifier: Apache-2.0 */
/** Samplers, batches and a star graph, for the tests of sampling. */
#ifndef SAMPLER_FIXTURE_H
#define SAMPLER_FIXTURE_H

#include "graphs.h"
#include "rung/sampler.h"

static inline struct rung_sampler *make_sampler(const struct rung_csc *csc, const uint32_t *fanouts,
                                                uint32_t hop_count, uint64_t seed, uint32_t threads)
{
	const struct rung_sampler_opts opts = {
		.size = sizeof(opts),
		.fanouts = fanouts,
		.hop_count = hop_count,
		.seed = seed,
		.threads = threads,
	};
	struct rung_sampler *sampler;

	cr_assert_eq(rung_sampler_create(csc, &opts, &sampler), 0, "%s", rung_last_error());
	return sampler;
}

static inline struct rung_batch *make_batch(void)
{
	struct rung_batch *batch;

	cr_assert_eq(rung_batch_create(&batch), 0);
	return batch;
}

static inline void sample(struct rung_sampler *sampler, const uint64_t *seeds, uint64_t seed_count,
                          uint64_t key, struct rung_batch *batch)
{
	cr_assert_eq(rung_sampler_sample(sampler, seeds, seed_count, key, batch), 0, "%s",
	             rung_last_error());
}

/* Vertex 0 has the in-neighbours 1 to degree; all other vertices have none. */
static inline struct test_graph star(uint64_t degree)
{
	uint64_t *sources = malloc(degree * sizeof(*sources)),
		 *destinations = calloc(degree, sizeof(*destinations));

	for (uint64_t e = 0; e < degree; e++)
		sources[e] = e + 1;
	return test_graph_of_edges(degree + 1, degree, sources, destinations, degree % 2 ? 8 : 4);
}

#endif
