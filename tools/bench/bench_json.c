/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of rung bench as one JSON object. Counters of the store are those of the timed
 * requests only; settings of the store are printed as they are at the end.
 */
#include "bench/bench_summary.h"
#include "output/json.h"

/* Times of the reads, in three phases: queued before the device, in the device, copied afterwards.
 * The buckets are printed as well, so that other percentiles can be computed. */
static void set_stages(json_t *root, const struct rung_store_stats *stats)
{
	json_t *phases = json_object();

	for (unsigned s = 0; s < RUNG_READ_PHASE_COUNT; s++) {
		json_t *stage = json_object(), *buckets = json_array();

		for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
			tool_json_append(buckets, tool_json_u64(stats->phases[s][b]));
		tool_json_set(stage, "p50",
		              tool_json_real(tool_percentile(stats->phases[s], 0.5) / 1e3));
		tool_json_set(stage, "p99",
		              tool_json_real(tool_percentile(stats->phases[s], 0.99) / 1e3));
		tool_json_set(stage, "eighth_octaves_ns", buckets);
		tool_json_set(phases, bench_phase_names[s], stage);
	}
	tool_json_set(root, "phases_us", phases);
}

/* Counters of cold rows, and the state of their cache. */
static void set_cache(json_t *root, const struct bench_args *args,
                      const struct rung_store_stats *stats)
{
	json_t *cache = json_object();

	tool_json_set(cache, "rows", tool_json_u64(stats->cache_rows));
	tool_json_set(cache, "filled", tool_json_u64(stats->cache_rows_filled));
	tool_json_set(cache, "why", tool_json_text(*stats->cache_why ? stats->cache_why : NULL));
	tool_json_set(cache, "timeouts", tool_json_u64(stats->cache_timeouts));
	tool_json_set(cache, "wait_ns", tool_json_u64(stats->cache_wait_ns));
	tool_json_set(root, "late_rows", tool_json_u64(stats->late_rows));
	tool_json_set(root, "cache_hits", tool_json_u64(stats->cache_hits));
	tool_json_set(root, "joined_rows", tool_json_u64(stats->joined_rows));
	tool_json_set(root, "ahead_rows", tool_json_u64(stats->ahead_rows));
	tool_json_set(root, "window_batches", tool_json_u64(stats->window_batches));
	tool_json_set(root, "read_rows", tool_json_u64(stats->read_rows));
	tool_json_set(root, "failed_rows", tool_json_u64(stats->failed_rows));
	tool_json_set(root, "cache", cache);
	tool_json_set(root, "look_ahead", tool_json_u64(args->look_ahead));
}

/* Settings that were given or chosen: two runs with equal ones can be compared. */
static void set_settings(json_t *root, const struct bench_args *args,
                         const struct bench_summary *run, const struct rung_tuning *tuning)
{
	const struct rung_store_stats *stats = &run->stats;
	json_t *engines = json_array();

	tool_json_set(root, "engine", tool_json_text(stats->engine));
	tool_json_set(
		root, "engine_why",
		tool_json_text(stats->engine_why && *stats->engine_why ? stats->engine_why : NULL));
	for (uint32_t f = 0; f < stats->file_count; f++)
		tool_json_append(engines, tool_json_text(stats->file_engines[f]));
	tool_json_set(root, "file_engines", engines);
	tool_json_set(root, "engine_steps",
	              tool_json_steps(stats->engine_steps, stats->engine_step_count));
	tool_json_set(root, "engine_parts",
	              tool_json_steps(stats->engine_parts, stats->engine_part_count));
	tool_json_set(root, "direct", json_boolean(stats->direct));
	tool_json_set(root, "queue_depth", tool_json_u64(stats->queue_depth));
	tool_json_set(root, "refill_threads", tool_json_u64(stats->refill_threads));
	tool_json_set(root, "sector_bytes", tool_json_u64(stats->sector_bytes));
	tool_json_set(root, "merge_gap_bytes", tool_json_u64(stats->merge_gap_bytes));
	tool_json_set(root, "read_bytes_max", tool_json_u64(stats->read_bytes_max));
	tool_json_set(root, "ids", tool_json_text(args->ids));
	tool_json_set(root, "requests", tool_json_u64(run->result->request_count));
	tool_json_set(root, "in_flight", tool_json_u64(args->in_flight));
	tool_json_set(root, "threads", tool_json_u64(args->common.threads));
	tool_json_set(root, "seed", tool_json_u64(args->seed));
	tool_json_set(root, "checked", json_boolean(args->check));
	tool_json_set(root, "chosen", tool_json_tuning(tuning));
}

static void set_placements(json_t *root, const struct rung_store_stats *stats)
{
	json_t *placements = json_array();

	for (uint32_t i = 0; i < stats->placement_count; i++) {
		const struct rung_store_placement *placement = &stats->placements[i];
		json_t *one = tool_json_placement(&placement->placement);

		tool_json_set(one, "cpu_node",
		              placement->cpu_node < 0
		                      ? json_null()
		                      : tool_json_u64((uint64_t)placement->cpu_node));
		tool_json_set(one, "node_share", tool_json_real(placement->node_share));
		tool_json_set(one, "huge_share", tool_json_real(placement->huge_share));
		tool_json_set(one, "why", tool_json_text(*placement->why ? placement->why : NULL));
		tool_json_append(placements, one);
	}
	tool_json_set(root, "placements", placements);
}

/* Values that only a GPU has are null on the CPU. */
static void set_device(json_t *root, const struct tool_data *data,
                       const struct rung_store_info *info, const struct rung_store_stats *stats)
{
	int on_gpu = info->device == RUNG_DEVICE_CUDA;
	const char *why = data->plan ? rung_plan_device(data->plan)->why : "";
	struct rung_gpu_info gpu = { .size = sizeof(gpu) };

	if (on_gpu)
		rung_gpu_info(info->gpu, &gpu);
	tool_json_set(root, "device", tool_json_text(rung_device_name(info->device)));
	tool_json_set(root, "device_why", tool_json_text(*why ? why : NULL));
	tool_json_set(root, "attached", json_boolean(info->attached));
	tool_json_set(root, "gpu", on_gpu ? tool_json_u64((uint64_t)info->gpu) : json_null());
	tool_json_set(root, "gpu_name", tool_json_text(on_gpu ? gpu.name : NULL));
	tool_json_set(root, "gpu_count", on_gpu ? tool_json_u64(info->gpu_count) : json_null());
	tool_json_set(root, "map_on_gpu", on_gpu ? json_boolean(info->map_on_gpu) : json_null());
	tool_json_set(root, "host_waits", on_gpu ? tool_json_u64(stats->host_waits) : json_null());
	tool_json_set(root, "scatters", on_gpu ? tool_json_u64(stats->scatters) : json_null());
}

/* null without --profile, or if the run was interrupted */
static json_t *forecast_json(const struct bench_args *args, const struct rung_forecast *forecast)
{
	json_t *root;

	if (!forecast)
		return json_null();
	root = json_object();
	tool_json_set(root, "profile", tool_json_text(args->store.profile));
	tool_json_set(root, "seconds", tool_json_real(forecast->seconds));
	tool_json_set(root, "memory_seconds", tool_json_real(forecast->memory_seconds));
	tool_json_set(root, "nvme_seconds", tool_json_real(forecast->nvme_seconds));
	tool_json_set(root, "gpu_seconds", tool_json_real(forecast->gpu_seconds));
	tool_json_set(root, "peer_seconds", tool_json_real(forecast->peer_seconds));
	tool_json_set(root, "link_seconds", tool_json_real(forecast->link_seconds));
	tool_json_set(root, "bound", tool_json_text(rung_bound_name(forecast->bound)));
	tool_json_set(root, "device_reads", tool_json_real(forecast->reads));
	tool_json_set(root, "device_read_bytes", tool_json_real(forecast->read_bytes));
	tool_json_set(root, "cache_hits", tool_json_real(forecast->cache_hits));
	tool_json_set(root, "assumed", tool_json_assumed(forecast->assumed));
	return root;
}

/* {"p50", ..., "max"} of the requests of a run, in microseconds */
static json_t *latency_json(const struct bench_summary *run)
{
	json_t *latency = json_object();

	for (unsigned p = 0; p < BENCH_PERCENTILES; p++)
		tool_json_set(latency, bench_percentile_keys[p],
		              tool_json_real(run->latency_s[p] * 1e6));
	tool_json_set(latency, "max", tool_json_real(run->latency_max_s * 1e6));
	return latency;
}

/* The runs of --repeat in their order; without it there is one. */
static json_t *runs_json(const struct bench_output *report)
{
	json_t *runs = json_array();

	for (uint32_t i = 0; i < report->run_count; i++) {
		const struct bench_summary *run = &report->runs[i];
		json_t *one = json_object();

		tool_json_set(one, "seconds", tool_json_real(run->result->seconds));
		tool_json_set(one, "rows", tool_json_u64(run->result->rows));
		tool_json_set(one, "requests", tool_json_u64(run->result->request_count));
		tool_json_set(one, "rows_per_s", tool_json_real(run->rows_per_s));
		tool_json_set(one, "device_reads", tool_json_u64(run->stats.device_reads));
		tool_json_set(one, "device_read_bytes",
		              tool_json_u64(run->stats.device_read_bytes));
		tool_json_set(one, "cpu_seconds", tool_json_real(run->result->cpu_seconds));
		tool_json_set(one, "latency_us", latency_json(run));
		tool_json_append(runs, one);
	}
	return runs;
}

static json_t *verdict_json(const struct bench_verdict *verdict)
{
	json_t *root = json_object();

	tool_json_set(root, "bound", tool_json_text(verdict->bound));
	tool_json_set(root, "text", tool_json_text(*verdict->text ? verdict->text : NULL));
	tool_json_set(root, "command", tool_json_text(*verdict->command ? verdict->command : NULL));
	return root;
}

static void set_rates(json_t *root, const struct bench_args *args,
                      const struct bench_output *report)
{
	const struct bench_summary *run = report->run;

	tool_json_set(root, "rows_per_s", tool_json_real(run->rows_per_s));
	tool_json_set(root, "bytes_per_s", tool_json_real(run->bytes_per_s));
	tool_json_set(root, "reads_in_flight", tool_json_real(run->in_flight));
	tool_json_set(root, "drive_busy", tool_json_real(bench_drive_busy(run, report->forecast)));
	tool_json_set(root, "latency_us", latency_json(run));
	tool_json_set(root, "cpu_seconds", tool_json_real(run->result->cpu_seconds));
	tool_json_set(root, "runtime",
	              args->runtime > 0 ? tool_json_real(args->runtime) : json_null());
	tool_json_set(root, "repeat", tool_json_u64(args->repeat));
	tool_json_set(root, "runs", runs_json(report));
	tool_json_set(root, "verdict", verdict_json(&report->verdict));
}

json_t *bench_json(const struct bench_args *args, const struct tool_data *data,
                   const struct bench_ids *ids, const struct bench_output *report)
{
	const struct bench_summary *run = report->run;
	const struct bench_result *result = run->result;
	const struct rung_store_stats *stats = &run->stats;
	json_t *root = json_object();

	tool_json_set(root, "interrupted", tool_json_text(report->interrupted));
	tool_json_set(root, "rows", tool_json_u64(result->rows));
	tool_json_set(root, "warmup_rows", tool_json_u64(ids->warmup_rows));
	tool_json_set(root, "row_bytes", tool_json_u64(result->info.features.row_bytes));
	tool_json_set(root, "seconds", tool_json_real(result->seconds));
	tool_json_set(root, "predicted", forecast_json(args, report->forecast));
	set_rates(root, args, report);
	tool_json_set(root, "device_reads", tool_json_u64(stats->device_reads));
	tool_json_set(root, "device_read_bytes", tool_json_u64(stats->device_read_bytes));
	tool_json_set(root, "merged_rows", tool_json_u64(stats->merged_rows));
	tool_json_set(root, "duplicate_rows", tool_json_u64(stats->duplicate_rows));
	tool_json_set(root, "retries", tool_json_u64(stats->retries));
	set_cache(root, args, stats);
	set_stages(root, stats);
	tool_json_set(root, "tiers", tool_json_hits(stats));
	set_placements(root, stats);
	tool_json_set(root, "wrong_rows",
	              args->check ? tool_json_u64(result->wrong_rows) : json_null());
	set_device(root, data, &result->info, stats);
	set_settings(root, args, run, data->plan ? rung_plan_tuning(data->plan) : NULL);
	return root;
}
