/* SPDX-License-Identifier: Apache-2.0 */
/* What rung plan samples in a staged dataset, and the answer that a prediction gives. */
#include <math.h>

#include "plan/plan_dataset.h"

int plan_sampling_init(const struct plan_args *args, const struct tool_data *data,
                       struct plan_sampling *sampling, struct prediction *out)
{
	const struct rung_dataset_info *info = rung_dataset_info(data->ds);

	/* A forecast needs a profile. Without --profile it uses typical rates, and the report
	 * states that they were not measured. */
	rung_profile_assume(&sampling->assumed);
	sampling->forecast = (struct rung_forecast_opts)RUNG_FORECAST_OPTS_INIT;
	sampling->forecast.profile = data->profile ? data->profile : &sampling->assumed;
	sampling->forecast.threads = args->common.threads;
	sampling->forecast.look_ahead = RUNG_LOOK_AHEAD;
	tool_fanouts_of(&args->fanouts, info, &out->fanouts);
	out->batch = args->batch ? args->batch : info->batch_size;
	sampling->sampler = (struct rung_sampler_opts)RUNG_SAMPLER_OPTS_INIT;
	sampling->sampler.fanouts = out->fanouts.hops;
	sampling->sampler.hop_count = out->fanouts.count;
	sampling->sampler.draws = info->draws;
	sampling->sampler.seed = args->seed;
	sampling->sampler.threads = args->common.threads;
	return tool_train_ranks(data->ds, &out->seed_count, &sampling->seeds);
}

struct plan_answer plan_answer_of(const struct rung_dataset *ds, const struct rung_plan *plan,
                                  const struct rung_plan_traffic *traffic)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	const struct rung_forecast *rows = &traffic->forecast,
				   *lists = &traffic->structure_forecast;
	const double sampled = (double)traffic->batches_sampled;
	struct plan_answer answer = { .host_bytes = rung_plan_host_bytes(plan),
		                      .rows = info->vertex_count,
		                      .batches = traffic->batches_per_epoch,
		                      .bound = rows->bound,
		                      .drives = info->feature_file_count };
	const struct rung_plan_tier *tier;

	while ((tier = rung_plan_tier(plan, answer.tier_count)) != NULL)
		answer.tiers[answer.tier_count++] =
			(struct plan_answer_tier){ tier->name, tier->row_count, tier->bytes,
			                           tier->hit_share };
	answer.cache_share = rows->cache_hits / (traffic->rows_per_batch * sampled);
	answer.read_bytes =
		(rows->read_bytes + lists->read_bytes) / sampled * (double)answer.batches;
	answer.seconds = rows->seconds / sampled;
	answer.memory_seconds = rows->memory_seconds / sampled;
	answer.list_nvme_seconds = lists->nvme_seconds / sampled;
	answer.nvme_seconds = rows->nvme_seconds / sampled + answer.list_nvme_seconds;
	answer.gpu_seconds =
		fmax(rows->gpu_seconds, fmax(rows->peer_seconds, rows->link_seconds)) / sampled;
	return answer;
}
