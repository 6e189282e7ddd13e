/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic that judges the scores: batches of shuffled epochs, sampled by the library. */
#include <stdlib.h>
#include <string.h>

#include "../common.h"
#include "scores.h"

#define SCORES_BATCHES_MIN 1024u /* an order computed from fewer is not a ceiling */

struct counting {
	uint32_t *counts;
	uint64_t requests;
};

static int count_batch(void *ctx, const struct rung_batch *batch, uint64_t batch_idx,
                       uint32_t thread)
{
	struct counting *counting = ctx;
	uint64_t count;
	const uint64_t *vertices = rung_batch_vertices(batch, &count);

	(void)batch_idx;
	(void)thread;
	for (uint64_t i = 0; i < count; i++)
		__atomic_fetch_add(&counting->counts[vertices[i]], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&counting->requests, count, __ATOMIC_RELAXED);
	return 0;
}

uint64_t scores_count_requests(const struct scores_case *setting, uint64_t seed, uint32_t *counts)
{
	struct rung_sampler_opts opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_minibatches epoch = RUNG_MINIBATCHES_INIT;
	struct counting counting = { .counts = counts };
	uint64_t *seeds = malloc(setting->train_count * sizeof(*seeds));
	const uint64_t per_epoch =
		(setting->train_count + setting->batch_size - 1) / setting->batch_size;
	struct rung_sampler *sampler;

	if (!seeds)
		bench_die("out of memory");
	memcpy(seeds, setting->train, setting->train_count * sizeof(*seeds));
	opts.fanouts = setting->fanouts;
	opts.hop_count = setting->hop_count;
	opts.draws = setting->draws;
	opts.seed = seed;
	opts.threads = setting->threads;
	bench_need(rung_sampler_create(setting->csc, &opts, &sampler), "creating a sampler");
	epoch.seeds = seeds;
	epoch.seed_count = setting->train_count;
	epoch.batch_size = setting->batch_size;
	epoch.any_order = 1; /* counts do not depend on the order of batches */
	while (counting.requests < setting->requests || epoch.key_first < SCORES_BATCHES_MIN) {
		bench_shuffle(seeds, setting->train_count, bench_draw(seed, epoch.key_first));
		bench_need(rung_sampler_run(sampler, &epoch, count_batch, &counting), "sampling");
		epoch.key_first += per_epoch;
	}
	rung_sampler_destroy(sampler);
	free(seeds);
	return epoch.key_first;
}

uint64_t *scores_read_ids(const char *spec, uint64_t *count_out)
{
	const struct rung_array_info *info;
	struct rung_source *src;
	uint64_t *ids;

	bench_need(rung_source_open(spec, &src), "opening the train ids");
	info = rung_source_info(src);
	if (info->dtype != RUNG_I64 || info->row_bytes != sizeof(*ids) || info->row_count == 0)
		bench_die("%s: not a list of int64", spec);
	ids = malloc(info->row_count * sizeof(*ids));
	if (!ids)
		bench_die("out of memory");
	bench_need(rung_source_read(src, 0, info->row_count, ids), "reading the train ids");
	*count_out = info->row_count;
	rung_source_close(src);
	return ids;
}
