/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of rung bench: text, or one JSON object. Counters of the store are those of the timed
 * requests only; settings of the store are printed as they are at the end.
 */
#include <math.h>

#include "bench/bench.h"
#include "output/json.h"

/* Latency of requests in microseconds; `share` 0.5 is the median, 1 the longest. NaN without a
 * request. */
static double percentile_us(const struct bench_result *result, double share)
{
	const uint64_t count = result->latency_count, idx = (uint64_t)(share * (double)count);

	if (count == 0)
		return (double)NAN;
	return (double)result->latency_ns[idx < count ? idx : count - 1] / 1e3;
}

/* Counters of the timed part: the difference of two readings. Members that are not counters, such
 * as names and sizes, are those of the second. */
static struct rung_store_stats difference(const struct bench_result *result)
{
	struct rung_store_stats stats = result->after;

	for (uint32_t i = 0; i < stats.tier_count; i++) {
		stats.tiers[i].hits -= result->before.tiers[i].hits;
		stats.tiers[i].bytes -= result->before.tiers[i].bytes;
	}
	stats.device_reads -= result->before.device_reads;
	stats.device_read_bytes -= result->before.device_read_bytes;
	stats.merged_rows -= result->before.merged_rows;
	stats.duplicate_rows -= result->before.duplicate_rows;
	stats.retries -= result->before.retries;
	stats.cache_hits -= result->before.cache_hits;
	stats.joined_rows -= result->before.joined_rows;
	stats.read_rows -= result->before.read_rows;
	stats.failed_rows -= result->before.failed_rows;
	stats.late_rows -= result->before.late_rows;
	stats.cache_timeouts -= result->before.cache_timeouts;
	stats.cache_wait_ns -= result->before.cache_wait_ns;
	for (unsigned s = 0; s < RUNG_READ_PHASE_COUNT; s++) {
		for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
			stats.phases[s][b] -= result->before.phases[s][b];
	}
	stats.host_waits -= result->before.host_waits;
	stats.scatters -= result->before.scatters;
	return stats;
}

static const char *const stage_names[RUNG_READ_PHASE_COUNT] = {
	[RUNG_READ_PHASE_QUEUE] = "queue",
	[RUNG_READ_PHASE_DEVICE] = "device",
	[RUNG_READ_PHASE_COPY] = "copy",
};

/* Percentile in microseconds from a histogram: bucket b counts times from 2^(b/2) ns on, and the
 * result is the middle of its bucket on the logarithmic scale; 0 if nothing was counted. */
static double stage_us(const uint64_t buckets[RUNG_LATENCY_BUCKETS], double share)
{
	uint64_t count = 0, seen = 0;
	unsigned b;

	for (b = 0; b < RUNG_LATENCY_BUCKETS; b++)
		count += buckets[b];
	for (b = 0; b < RUNG_LATENCY_BUCKETS; b++) {
		seen += buckets[b];
		if ((double)seen > share * (double)count)
			break;
	}
	return count ? exp2(((double)b + 0.5) / 2) / 1e3 : 0;
}

/* Times of the reads, in three phases: queued before the device, in the device, copied afterwards.
 * The buckets are printed as well, so that other percentiles can be computed. */
static void set_stages(json_t *root, const struct rung_store_stats *stats)
{
	json_t *phases = json_object();

	for (unsigned s = 0; s < RUNG_READ_PHASE_COUNT; s++) {
		json_t *stage = json_object(), *buckets = json_array();

		for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
			tool_json_append(buckets, tool_json_u64(stats->phases[s][b]));
		tool_json_set(stage, "p50", tool_json_real(stage_us(stats->phases[s], 0.5)));
		tool_json_set(stage, "p99", tool_json_real(stage_us(stats->phases[s], 0.99)));
		tool_json_set(stage, "half_octaves_ns", buckets);
		tool_json_set(phases, stage_names[s], stage);
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
	tool_json_set(root, "read_rows", tool_json_u64(stats->read_rows));
	tool_json_set(root, "failed_rows", tool_json_u64(stats->failed_rows));
	tool_json_set(root, "cache", cache);
	tool_json_set(root, "look_ahead", tool_json_u64(args->look_ahead));
}

/* Settings that were given or chosen: two runs with equal ones can be compared. */
static void set_settings(json_t *root, const struct bench_args *args,
                         const struct bench_result *result, const struct rung_tuning *tuning,
                         const struct rung_store_stats *stats)
{
	tool_json_set(root, "engine", tool_json_text(stats->engine));
	tool_json_set(
		root, "engine_why",
		tool_json_text(stats->engine_why && *stats->engine_why ? stats->engine_why : NULL));
	tool_json_set(root, "engine_steps",
	              tool_json_steps(stats->engine_steps, stats->engine_step_count));
	tool_json_set(root, "engine_parts",
	              tool_json_steps(stats->engine_parts, stats->engine_part_count));
	tool_json_set(root, "direct", json_boolean(stats->direct));
	tool_json_set(root, "queue_depth", tool_json_u64(stats->queue_depth));
	tool_json_set(root, "sector_bytes", tool_json_u64(stats->sector_bytes));
	tool_json_set(root, "merge_gap_bytes", tool_json_u64(stats->merge_gap_bytes));
	tool_json_set(root, "read_bytes_max", tool_json_u64(stats->read_bytes_max));
	tool_json_set(root, "ids", tool_json_text(args->ids));
	tool_json_set(root, "requests", tool_json_u64(result->request_count));
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

static json_t *bench_json(const struct bench_args *args, const struct tool_data *data,
                          const struct bench_ids *ids, const struct rung_forecast *forecast,
                          const struct bench_result *result)
{
	uint64_t row_bytes = result->info.features.row_bytes, rows = result->rows;
	struct rung_store_stats stats = difference(result);
	json_t *root = json_object(), *latency = json_object();

	tool_json_set(latency, "p50", tool_json_real(percentile_us(result, 0.5)));
	tool_json_set(latency, "p99", tool_json_real(percentile_us(result, 0.99)));
	tool_json_set(latency, "max", tool_json_real(percentile_us(result, 1)));
	tool_json_set(root, "interrupted", tool_json_text(result->interrupted));
	tool_json_set(root, "rows", tool_json_u64(rows));
	tool_json_set(root, "warmup_rows", tool_json_u64(ids->warmup_rows));
	tool_json_set(root, "row_bytes", tool_json_u64(row_bytes));
	tool_json_set(root, "seconds", tool_json_real(result->seconds));
	tool_json_set(root, "predicted", forecast_json(args, forecast));
	tool_json_set(root, "rows_per_s", tool_json_real((double)rows / result->seconds));
	tool_json_set(root, "bytes_per_s",
	              tool_json_real((double)rows * (double)row_bytes / result->seconds));
	tool_json_set(root, "device_reads", tool_json_u64(stats.device_reads));
	tool_json_set(root, "device_read_bytes", tool_json_u64(stats.device_read_bytes));
	tool_json_set(root, "merged_rows", tool_json_u64(stats.merged_rows));
	tool_json_set(root, "duplicate_rows", tool_json_u64(stats.duplicate_rows));
	tool_json_set(root, "retries", tool_json_u64(stats.retries));
	set_cache(root, args, &stats);
	set_stages(root, &stats);
	tool_json_set(root, "tiers", tool_json_hits(&stats));
	set_placements(root, &stats);
	tool_json_set(root, "latency_us", latency);
	tool_json_set(root, "cpu_seconds", tool_json_real(result->cpu_seconds));
	tool_json_set(root, "wrong_rows",
	              args->check ? tool_json_u64(result->wrong_rows) : json_null());
	set_device(root, data, &result->info, &stats);
	set_settings(root, args, result, data->plan ? rung_plan_tuning(data->plan) : NULL, &stats);
	return root;
}

static void print_gpu(const struct rung_store_info *info, const struct rung_store_stats *stats)
{
	struct rung_gpu_info gpu = { .size = sizeof(gpu) };

	if (info->device != RUNG_DEVICE_CUDA || rung_gpu_info(info->gpu, &gpu) < 0)
		return;
	printf("gathered by GPU %d, %s; %llu scatters, the host waited %llu times\n", info->gpu,
	       gpu.name, (unsigned long long)stats->scatters,
	       (unsigned long long)stats->host_waits);
}

/* One line: "reads, p50 and p99 in us: queue 1.2, 3.4; device ...". */
static void print_stages(const struct rung_store_stats *stats)
{
	printf("reads, p50 and p99 in us:");
	for (unsigned s = 0; s < RUNG_READ_PHASE_COUNT; s++)
		printf("%s %s %.1f, %.1f", s ? ";" : "", stage_names[s],
		       stage_us(stats->phases[s], 0.5), stage_us(stats->phases[s], 0.99));
	putchar('\n');
}

static void print_bench(const struct bench_args *args, const struct bench_ids *ids,
                        const struct bench_result *result)
{
	uint64_t row_bytes = result->info.features.row_bytes;
	struct rung_store_stats stats = difference(result);
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];
	double rows = (double)result->rows;

	if (result->interrupted && ids->counted)
		printf("interrupted by %s: %llu of %llu requests were complete\n",
		       result->interrupted, (unsigned long long)result->request_count,
		       (unsigned long long)(ids->batch_count - ids->warmup_count));
	else if (result->interrupted) /* a trace: the number of its batches is not known yet */
		printf("interrupted by %s: %llu requests were complete, %llu of %llu rows\n",
		       result->interrupted, (unsigned long long)result->request_count,
		       (unsigned long long)result->rows,
		       (unsigned long long)(ids->count - ids->warmup_rows));
	if (result->request_count == 0) /* all rates would be divisions by zero */
		return;
	tool_print_hits(&stats);
	print_gpu(&result->info, &stats);
	tool_print_placements(&stats);
	tool_print_engine(&stats);
	printf("%llu rows of %llu bytes in %llu requests: %s", (unsigned long long)result->rows,
	       (unsigned long long)row_bytes, (unsigned long long)result->request_count,
	       tool_seconds_text(text, result->seconds));
	printf(", %s rows/s, %s/s\n", tool_count_text(text, rows / result->seconds),
	       tool_bytes_text(more, rows * (double)row_bytes / result->seconds));
	printf("device: %s reads", tool_count_text(text, (double)stats.device_reads));
	printf(", %s; %llu rows merged, %llu requested twice\n",
	       tool_bytes_text(more, (double)stats.device_read_bytes),
	       (unsigned long long)stats.merged_rows, (unsigned long long)stats.duplicate_rows);
	printf("cache: %s rows", tool_count_text(text, (double)stats.cache_rows));
	printf(", %s hits", tool_count_text(text, (double)stats.cache_hits));
	printf(", %s rows waited for another request's read\n",
	       tool_count_text(text, (double)stats.joined_rows));
	/* only with a shared cache: another process had begun to read these rows, but not in
	 * time */
	if (stats.cache_timeouts > 0)
		printf("cache: another process was stopped or slow %llu times, %llu rows that it "
		       "read were read here as well\n",
		       (unsigned long long)stats.cache_timeouts,
		       (unsigned long long)stats.late_rows);
	if (*stats.cache_why)
		printf("cache: %s\n", stats.cache_why);
	print_stages(&stats);
	printf("request: p50 %.0f us, p99 %.0f us, max %.0f us; CPU %.2f s\n",
	       percentile_us(result, 0.5), percentile_us(result, 0.99), percentile_us(result, 1),
	       result->cpu_seconds);
	if (args->check)
		printf("checked: %llu wrong rows (times include the check)\n",
		       (unsigned long long)result->wrong_rows);
}

/* The forecast next to the measured time: their ratio shows how good the profile is. */
static void print_forecast(const struct bench_args *args, const struct rung_forecast *forecast,
                           const struct bench_result *result)
{
	char text[TOOL_ASSUMED_BYTES];

	if (!forecast)
		return;
	printf("predicted by %s%s: ", args->store.profile,
	       tool_assumed_text(text, forecast->assumed));
	printf("%s", tool_seconds_text(text, forecast->seconds));
	printf(", bound by %s, %s reads; measured is %.2f times that\n",
	       rung_bound_name(forecast->bound), tool_count_text(text, forecast->reads),
	       result->seconds / forecast->seconds);
}

int bench_report(const char *name, const struct bench_args *args, const struct tool_data *data,
                 const struct bench_ids *ids, const struct rung_forecast *forecast,
                 const struct bench_result *result)
{
	if (!args->common.json) {
		print_bench(args, ids, result);
		print_forecast(args, forecast, result);
		if (args->store.profile)
			tool_print_tuning(rung_plan_tuning(data->plan), args->store.profile);
	} else if (tool_json_print(name, bench_json(args, data, ids, forecast, result)) < 0) {
		return TOOL_FAILED;
	}
	/* the result has been printed in any case; wrong rows only set the exit code */
	if (result->wrong_rows == 0)
		return TOOL_DONE;
	return tool_error(name, TOOL_FAILED, "%llu wrong rows; the first has id %llu",
	                  (unsigned long long)result->wrong_rows,
	                  (unsigned long long)result->first_wrong);
}
