/* SPDX-License-Identifier: Apache-2.0 */
/* What rung plan samples in a staged dataset, and the answer that a prediction gives. */
#include <math.h>
#include <string.h>

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
	struct plan_answer answer = { .host_bytes = rung_plan_bytes(plan)->host,
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

/* ---- several machines ---- */

/* Rows in memory. */
static double memory_rows(const struct rung_plan *plan)
{
	const struct rung_plan_tier *tier;
	double rows = 0;

	for (unsigned i = 0; rung_plan_tier(plan, i + 1) != NULL; i++) {
		tier = rung_plan_tier(plan, i);
		rows += (double)tier->row_count;
	}
	return rows;
}

/* Bytes of all rows of a plan, which may be planned as if they were quantized. */
static double rows_bytes(const struct rung_plan *plan)
{
	const struct rung_plan_tier *tier;
	double bytes = 0;

	for (unsigned i = 0; (tier = rung_plan_tier(plan, i)) != NULL; i++)
		bytes += (double)tier->bytes;
	return bytes;
}

struct point {
	double share, hits;
};

/* The value at `share`, between two points. */
static double between(struct point low, struct point high, double share)
{
	if (high.share <= low.share)
		return high.hits;
	return low.hits + (high.hits - low.hits) * (share - low.share) / (high.share - low.share);
}

int plan_prefix_hits(const struct plan_args *args, const struct tool_data *data,
                     const struct plan_sampling *sampling, struct prediction *prediction)
{
	const double vertices = (double)rung_dataset_info(data->ds)->vertex_count;
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct rung_sampler_opts sampler = sampling->sampler;
	struct rung_plan_budget budgets[PLAN_PREFIXES];
	struct point high = { 1, 1 };
	int rc;

	/* plans for the CPU without a cache, as if the prefix were in memory; their slots are left
	 * out of it, which the interpolation makes up for */
	sampler.structure = NULL; /* the sweep opens its own */
	opts.cache_bytes = RUNG_BYTES_NONE;
	opts.quantize = args->store.quantize;
	opts.structure_bytes = tool_lists_bytes(data->plan);
	for (uint32_t i = 0; i < PLAN_PREFIXES; i++)
		budgets[i] = (struct rung_plan_budget){
			.size = sizeof(budgets[i]),
			.host_bytes = (uint64_t)(plan_prefixes[i] * rows_bytes(data->plan)) +
			              opts.structure_bytes
		};
	rc = rung_plan_sweep(data->ds, &opts, &sampler, sampling->seeds, prediction->seed_count,
	                     prediction->batch, 0, NULL, budgets, PLAN_PREFIXES);
	for (uint32_t i = 0; i < PLAN_PREFIXES && rc == 0; i++) {
		struct rung_plan *plan = budgets[i].plan;
		struct point low = { 0, 0 };

		if (plan)
			low = (struct point){ memory_rows(plan) / vertices,
				              rung_plan_tier(plan, 0)->hit_share };
		prediction->hits[i] = between(low, high, plan_prefixes[i]);
		if (plan)
			high = low;
		rung_plan_destroy(plan);
	}
	return rc;
}

struct plan_work plan_work_of(const struct tool_data *data, const struct plan_args *args,
                              const struct prediction *prediction)
{
	const struct rung_dataset_info *info = rung_dataset_info(data->ds);
	const struct rung_plan_traffic *traffic = &prediction->traffic;
	const struct rung_forecast *rows = &traffic->forecast,
				   *lists = &traffic->structure_forecast;
	const struct plan_answer answer = plan_answer_of(data->ds, data->plan, traffic);
	const double sampled = (double)traffic->batches_sampled;
	const struct rung_dataset_file *file;
	struct plan_work work = {
		.sector_bytes = traffic->sector_bytes,
		.feature_bytes = rows_bytes(data->plan),
		.memory_share = memory_rows(data->plan) / (double)info->vertex_count,
		.served = 1 - answer.tiers[answer.tier_count - 1].share,
		.seeds = prediction->seed_count,
		.batch = prediction->batch,
		.row_reads = rows->reads / sampled,
		.row_read_bytes = rows->read_bytes / sampled,
		.list_reads = lists->reads / sampled,
		.list_read_bytes = lists->read_bytes / sampled,
		.memory_seconds = fmax(answer.memory_seconds, answer.gpu_seconds),
		.row_seconds = answer.nvme_seconds - answer.list_nvme_seconds,
		.list_seconds = answer.list_nvme_seconds,
		.compute = args->compute,
		.no_prefix = info->features_path != NULL,
	};

	work.row_bytes = (uint64_t)(work.feature_bytes / (double)info->vertex_count + 0.5);
	work.cold_rows = traffic->rows_per_batch * (1 - work.served);
	work.copy_bytes = work.feature_bytes;
	for (size_t i = 0; (file = rung_dataset_file(data->ds, i)) != NULL; i++)
		work.copy_bytes += (double)file->bytes;
	if (!work.no_prefix) /* they are among the files, as they were staged */
		work.copy_bytes -= (double)(info->stored_row_bytes * info->vertex_count);
	memcpy(work.hits, prediction->hits, sizeof(work.hits));
	return work;
}
