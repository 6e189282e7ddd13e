/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of rung bench as text: one line that a machine can be judged by, a small table, and
 * what limited the run. Counters of the store follow with --explain. bench_json.c and bench_csv.c
 * have the other formats.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_summary.h"
#include "output/json.h"

static void print_gpu(const struct rung_store_info *info, const struct rung_store_stats *stats)
{
	struct rung_gpu_info gpu = { .size = sizeof(gpu) };

	if (info->device != RUNG_DEVICE_CUDA || rung_gpu_info(info->gpu, &gpu) < 0)
		return;
	printf("gathered by GPU %d, %s; %llu scatters, the host waited %llu times\n", info->gpu,
	       gpu.name, (unsigned long long)stats->scatters,
	       (unsigned long long)stats->host_waits);
}

/* "3.4 ms", or "-" if too few values are known. */
static const char *time_text(char text[TOOL_TEXT_BYTES], double seconds)
{
	return isnan(seconds) ? "-" : tool_seconds_text(text, seconds);
}

static void print_headline(const struct bench_summary *run)
{
	const struct bench_result *result = run->result;
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	printf("%s rows/s, %s/s", tool_count_text(text, run->rows_per_s),
	       tool_bytes_text(more, run->bytes_per_s));
	printf(": %s rows of %llu bytes in %s", tool_count_text(text, (double)result->rows),
	       (unsigned long long)result->info.features.row_bytes,
	       tool_seconds_text(more, result->seconds));
	printf(", %s request%s\n", tool_count_text(text, (double)result->request_count),
	       result->request_count == 1 ? "" : "s");
}

/* The share of the rows that each tier served. The tier of the file is called "nvme" whatever its
 * drive; of its rows those in the cache needed no read. */
static void print_shares(const struct rung_store_stats *stats)
{
	double all = 0;

	for (uint32_t i = 0; i < stats->tier_count; i++)
		all += (double)stats->tiers[i].hits;
	printf("  rows");
	for (uint32_t i = 0; i < stats->tier_count; i++) {
		const int is_file = strcmp(stats->tiers[i].name, "nvme") == 0;
		uint64_t hits = stats->tiers[i].hits;

		if (stats->tiers[i].rows == 0)
			continue;
		if (is_file && stats->cache_rows) {
			printf("%s%.1f %% cache", i ? ", " : "       ",
			       100 * (double)stats->cache_hits / all);
			hits -= stats->cache_hits;
		}
		printf("%s%.1f %% %s", i || (is_file && stats->cache_rows) ? ", " : "       ",
		       100 * (double)hits / all, is_file ? "file" : stats->tiers[i].name);
	}
	putchar('\n');
}

static void print_reads(const struct bench_summary *run, double drive_busy)
{
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	if (run->stats.device_reads == 0)
		return;
	printf("  reads      %s/s, %s/s", tool_count_text(text, run->reads_per_s),
	       tool_bytes_text(more, run->read_bytes_per_s));
	printf(", %.2f rows a read", run->rows_per_read);
	printf(", %s of at most %s at a time", tool_count_text(text, run->in_flight),
	       tool_count_text(more, run->in_flight_max));
	if (!isnan(drive_busy))
		printf(", drive busy %.0f %%", 100 * drive_busy);
	putchar('\n');
}

static void print_requests(const struct bench_summary *run)
{
	static const char *const names[BENCH_PERCENTILES] = { "p50", "p90", "p95", "p99", "p99.9" };
	char text[TOOL_TEXT_BYTES];

	printf("  CPU        %s a row, %.2f CPUs busy\n",
	       tool_seconds_text(text, run->cpu_row_seconds), run->cores);
	printf("  request  ");
	for (unsigned p = 0; p < BENCH_PERCENTILES; p++)
		printf("  %s %s", names[p], time_text(text, run->latency_s[p]));
	printf("  max %s\n", time_text(text, run->latency_max_s));
}

/* The forecast next to the measured rate: their ratio shows how good the profile is. */
static void print_forecast(const struct bench_args *args, const struct bench_output *report)
{
	const struct rung_forecast *forecast = report->forecast;
	char text[TOOL_ASSUMED_BYTES], count[TOOL_TEXT_BYTES];

	if (!forecast)
		return;
	printf("  predicted  %s rows/s, bound by %s; measured is %.2f times that\n",
	       tool_count_text(count, (double)report->run->result->rows / forecast->seconds),
	       rung_bound_name(forecast->bound), forecast->seconds / report->run->result->seconds);
	if (args->explain || forecast->assumed)
		printf("  predicted by %s%s: %s reads\n", args->store.profile,
		       tool_assumed_text(text, forecast->assumed),
		       tool_count_text(count, forecast->reads));
}

static void print_runs(const struct bench_output *report)
{
	double least = report->run->rows_per_s, most = least;
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	if (report->run_count < 2)
		return;
	for (uint32_t i = 0; i < report->run_count; i++) {
		least = fmin(least, report->runs[i].rows_per_s);
		most = fmax(most, report->runs[i].rows_per_s);
	}
	printf("  runs       %u from %s to %s rows/s, a spread of %.1f %%; this is the median\n",
	       report->run_count, tool_count_text(text, least), tool_count_text(more, most),
	       100 * (most - least) / report->run->rows_per_s);
}

static void print_interrupted(const struct bench_ids *ids, const struct bench_args *args,
                              const struct bench_output *report)
{
	const struct bench_result *result = report->run->result;

	if (!report->interrupted)
		return;
	if (!result->interrupted)
		printf("interrupted by %s: %u of %u runs were complete\n", report->interrupted,
		       report->run_count, args->repeat);
	else if (ids->counted)
		printf("interrupted by %s: %llu of %llu requests were complete\n",
		       result->interrupted, (unsigned long long)result->request_count,
		       (unsigned long long)(ids->batch_count - ids->warmup_count));
	else if (args->runtime > 0)
		printf("interrupted by %s: %llu requests were complete\n", result->interrupted,
		       (unsigned long long)result->request_count);
	else /* a trace: the number of its batches is not known yet */
		printf("interrupted by %s: %llu requests were complete, %llu of %llu rows\n",
		       result->interrupted, (unsigned long long)result->request_count,
		       (unsigned long long)result->rows,
		       (unsigned long long)(ids->count - ids->warmup_rows));
}

/* One line: "reads, p50 and p99: queue 1.2 ms, 3.4 ms; device ...". */
static void print_stages(const struct rung_store_stats *stats)
{
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	printf("reads, p50 and p99:");
	for (unsigned s = 0; s < RUNG_READ_PHASE_COUNT; s++)
		printf("%s %s %s, %s", s ? ";" : "", bench_phase_names[s],
		       time_text(text, tool_percentile(stats->phases[s], 0.5) * 1e-9),
		       time_text(more, tool_percentile(stats->phases[s], 0.99) * 1e-9));
	putchar('\n');
}

/* Counters, of which the table above is a summary. */
static void print_counters(const struct bench_summary *run)
{
	const struct rung_store_stats *stats = &run->stats;
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	putchar('\n');
	tool_print_hits(stats);
	print_gpu(&run->result->info, stats);
	tool_print_placements(stats);
	tool_print_engine(stats);
	printf("device: %s reads", tool_count_text(text, (double)stats->device_reads));
	printf(", %s; %llu rows merged, %llu requested twice\n",
	       tool_bytes_text(more, (double)stats->device_read_bytes),
	       (unsigned long long)stats->merged_rows, (unsigned long long)stats->duplicate_rows);
	printf("cache: %s rows", tool_count_text(text, (double)stats->cache_rows));
	printf(", %s hits", tool_count_text(text, (double)stats->cache_hits));
	printf(", %s rows waited for another request's read\n",
	       tool_count_text(text, (double)stats->joined_rows));
	print_stages(stats);
}

/* What makes a result differ from that of other machines, and is printed in any case. */
static void print_warnings(const struct bench_summary *run, int explain)
{
	const struct rung_store_stats *stats = &run->stats;

	if (!explain && *stats->engine && stats->engine_why && *stats->engine_why &&
	    strcmp(stats->engine, "none") != 0)
		tool_print_engine(stats);
	/* only with a shared cache: another process had begun to read these rows, but not in
	 * time */
	if (stats->cache_timeouts > 0)
		printf("cache: another process was stopped or slow %llu times, %llu rows that it "
		       "read were read here as well\n",
		       (unsigned long long)stats->cache_timeouts,
		       (unsigned long long)stats->late_rows);
	if (*stats->cache_why)
		printf("cache: %s\n", stats->cache_why);
}

static void print_bench(const struct bench_args *args, const struct tool_data *data,
                        const struct bench_ids *ids, const struct bench_output *report)
{
	const struct bench_summary *run = report->run;

	print_interrupted(ids, args, report);
	if (run->result->request_count == 0) /* all rates would be divisions by zero */
		return;
	print_headline(run);
	print_shares(&run->stats);
	print_reads(run, bench_drive_busy(run, report->forecast));
	print_requests(run);
	print_forecast(args, report);
	print_runs(report);
	if (args->explain)
		print_counters(run);
	print_warnings(run, args->explain);
	if (args->explain && args->store.profile)
		tool_print_tuning(rung_plan_tuning(data->plan), args->store.profile);
	if (args->check)
		printf("checked: %llu wrong rows (times include the check)\n",
		       (unsigned long long)run->result->wrong_rows);
	if (*report->verdict.text)
		printf("\n%s\n", report->verdict.text);
	if (*report->verdict.command)
		printf("next: %s\n", report->verdict.command);
}

static int compare_rates(const void *a, const void *b)
{
	const struct bench_result *x = *(const struct bench_result *const *)a,
				  *y = *(const struct bench_result *const *)b;
	const double rate_x = (double)x->rows / x->seconds, rate_y = (double)y->rows / y->seconds;

	return (rate_x > rate_y) - (rate_x < rate_y);
}

/* The runs that count: without the last one if that was interrupted and there are others. */
static uint32_t complete_runs(const struct bench_result *results, uint32_t count)
{
	return count > 1 && results[count - 1].interrupted ? count - 1 : count;
}

const struct bench_result *bench_median_run(const struct bench_result *results, uint32_t count)
{
	const struct bench_result *sorted[BENCH_REPEAT_MAX];

	count = complete_runs(results, count);
	for (uint32_t i = 0; i < count; i++)
		sorted[i] = &results[i];
	if (count > 1)
		qsort(sorted, count, sizeof(sorted[0]), compare_rates);
	return sorted[(count - 1) / 2];
}

/* Wrong rows of any run set the exit code; the results have been printed. */
static int count_wrong(const char *name, const struct bench_result *results, uint32_t count)
{
	uint64_t wrong = 0, first = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (wrong == 0)
			first = results[i].first_wrong;
		wrong += results[i].wrong_rows;
	}
	if (wrong == 0)
		return TOOL_DONE;
	return tool_error(name, TOOL_FAILED, "%llu wrong row%s; the first has id %llu",
	                  (unsigned long long)wrong, wrong == 1 ? "" : "s",
	                  (unsigned long long)first);
}

int bench_report(const char *name, const struct bench_args *args, const struct tool_data *data,
                 const struct bench_ids *ids, const struct rung_forecast *forecast,
                 const struct bench_result *results, uint32_t count)
{
	const uint32_t files = rung_dataset_info(data->ds)->feature_file_count;
	const struct bench_result *median = bench_median_run(results, count);
	struct bench_output report = { .interrupted = results[count - 1].interrupted,
		                       .forecast = forecast,
		                       .run_count = complete_runs(results, count) };
	struct bench_summary *runs = calloc(report.run_count, sizeof(*runs));
	int code = TOOL_DONE;

	if (!runs)
		return tool_error(name, TOOL_FAILED, "no memory for the results");
	for (uint32_t i = 0; i < report.run_count; i++)
		bench_summarise(&results[i], files, &runs[i]);
	report.runs = runs;
	report.run = &runs[median - results];
	bench_judge(args, report.run, forecast, &report.verdict);
	if (args->common.json)
		code = tool_json_print(name, bench_json(args, data, ids, &report)) < 0 ? TOOL_FAILED
		                                                                       : TOOL_DONE;
	else if (!args->csv || args->csv_out->path)
		print_bench(args, data, ids, &report);
	if (code == TOOL_DONE && args->csv)
		code = bench_csv(args->csv_out, &report);
	free(runs);
	return code == TOOL_DONE ? count_wrong(name, results, count) : code;
}
