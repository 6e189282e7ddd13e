/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of rung bench as CSV, a line per run, for spreadsheets and for comparisons over time. */
#include <math.h>
#include <string.h>

#include "bench/bench_summary.h"
#include "output/out_file.h"

/* A value that is unknown leaves its field empty. */
static void print_real(FILE *file, double value)
{
	if (isfinite(value))
		fprintf(file, ",%.9g", value);
	else
		fputc(',', file);
}

static void print_u64(FILE *file, uint64_t value)
{
	fprintf(file, ",%llu", (unsigned long long)value);
}

/* Hits of a tier; 0 if the store does not have it. */
static uint64_t hits_of(const struct rung_store_stats *stats, const char *name)
{
	for (uint32_t i = 0; i < stats->tier_count; i++) {
		if (strcmp(stats->tiers[i].name, name) == 0)
			return stats->tiers[i].hits;
	}
	return 0;
}

static void print_run(FILE *file, uint32_t number, const struct bench_summary *run)
{
	fprintf(file, "%u", number);
	print_real(file, run->result->seconds);
	print_u64(file, run->result->request_count);
	print_u64(file, run->result->rows);
	print_real(file, run->rows_per_s);
	print_real(file, run->bytes_per_s);
	print_u64(file, hits_of(&run->stats, "gpu"));
	print_u64(file, hits_of(&run->stats, "peer"));
	print_u64(file, hits_of(&run->stats, "host"));
	print_u64(file, run->stats.cache_hits);
	print_u64(file, hits_of(&run->stats, "nvme") - run->stats.cache_hits);
	print_u64(file, run->stats.device_reads);
	print_u64(file, run->stats.device_read_bytes);
	print_real(file, run->in_flight);
	print_real(file, run->result->cpu_seconds);
	for (unsigned p = 0; p < BENCH_PERCENTILES; p++)
		print_real(file, run->latency_s[p] * 1e6);
	print_real(file, run->latency_max_s * 1e6);
	fputc('\n', file);
}

static void print_all(FILE *file, const struct bench_output *report)
{
	fputs("run,seconds,requests,rows,rows_per_s,bytes_per_s,gpu_rows,peer_rows,host_rows,"
	      "cache_rows,file_rows,device_reads,device_read_bytes,reads_in_flight,cpu_seconds",
	      file);
	for (unsigned p = 0; p < BENCH_PERCENTILES; p++)
		fprintf(file, ",%s_us", bench_percentile_keys[p]);
	fputs(",max_us\n", file);
	for (uint32_t i = 0; i < report->run_count; i++)
		print_run(file, i + 1, &report->runs[i]);
}

int bench_csv(struct tool_out *csv, const struct bench_output *report)
{
	/* main() checks standard output */
	print_all(csv->path ? csv->file : stdout, report);
	return tool_out_commit(csv);
}
