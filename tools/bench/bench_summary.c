/* SPDX-License-Identifier: Apache-2.0 */
/* The rates of a run of rung bench. The judgement of a run is in bench_judge.c. */
#include <math.h>

#include "bench/bench_summary.h"

const double bench_percentiles[BENCH_PERCENTILES] = { 0.5, 0.9, 0.95, 0.99, 0.999 };
const char *const bench_percentile_keys[BENCH_PERCENTILES] = { "p50", "p90", "p95", "p99",
	                                                       "p99_9" };

const char *const bench_phase_names[RUNG_READ_PHASE_COUNT] = {
	[RUNG_READ_PHASE_QUEUE] = "queue",
	[RUNG_READ_PHASE_DEVICE] = "device",
	[RUNG_READ_PHASE_COPY] = "copy",
};

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
	stats.ahead_rows -= result->before.ahead_rows;
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

/* Latency of requests in seconds; `share` 1 is the longest. NaN if there are too few requests. */
static double latency(const struct bench_result *result, double share)
{
	const uint64_t count = result->latency_count, idx = (uint64_t)(share * (double)count);

	if (count == 0 || (share < 1 && !tool_percentile_known(count, share)))
		return (double)NAN;
	return (double)result->latency_ns[idx < count ? idx : count - 1] / 1e9;
}

void bench_summarise(const struct bench_result *result, uint32_t file_count,
                     struct bench_summary *out)
{
	const double rows = (double)result->rows, seconds = result->seconds;
	double reads;

	*out = (struct bench_summary){ .result = result, .stats = difference(result) };
	reads = (double)out->stats.device_reads;
	out->rows_per_s = rows / seconds;
	out->bytes_per_s = rows * (double)result->info.features.row_bytes / seconds;
	out->reads_per_s = reads / seconds;
	out->read_bytes_per_s = (double)out->stats.device_read_bytes / seconds;
	out->rows_per_read = (double)(out->stats.read_rows + out->stats.ahead_rows) / reads;
	out->in_flight_max = (double)out->stats.queue_depth * file_count;
	/* Little's law; the times include those until completions are noticed */
	out->in_flight = (double)NAN;
	if (reads > 0)
		out->in_flight = fmin(tool_latency_sum(out->stats.phases[RUNG_READ_PHASE_DEVICE]) *
		                              1e-9 / seconds,
		                      out->in_flight_max);
	out->cpu_row_seconds = result->cpu_seconds / rows;
	out->cores = result->cpu_seconds / seconds;
	for (unsigned p = 0; p < BENCH_PERCENTILES; p++)
		out->latency_s[p] = latency(result, bench_percentiles[p]);
	out->latency_max_s = latency(result, 1);
}

double bench_drive_busy(const struct bench_summary *summary, const struct rung_forecast *forecast)
{
	if (!forecast || !(forecast->reads > 0))
		return (double)NAN;
	return fmin(1, forecast->nvme_seconds / forecast->reads * summary->reads_per_s);
}
