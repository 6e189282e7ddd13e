/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters in the OpenMetrics text format, as a file for the textfile collector of Prometheus' node
 * exporter. All samples of a family follow its TYPE line, so the stores are visited once for each
 * family. Counters start at zero when a store is opened: `pid` and `store` name one store.
 */
#include "output/out_file.h"
#include "top/top.h"

/* A text between quotes. Bytes that are not ASCII could be invalid UTF-8, which parsers refuse. */
static void write_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc((unsigned char)*text < 0x80 ? *text : '?', out);
	}
}

/* The labels of a store, without the closing brace. */
static void write_labels(FILE *out, const char *sample, const struct rung__watch_view *view)
{
	fprintf(out, "%s{pid=\"%u\",store=\"%u\",kind=\"%s\",dataset=\"", sample, view->pid,
	        view->number, view->is_lists ? "lists" : "rows");
	write_text(out, view->dataset);
	fputc('"', out);
}

static void write_head(FILE *out, const char *family, const char *type, const char *unit,
                       const char *help)
{
	fprintf(out, "# TYPE %s %s\n", family, type);
	if (*unit)
		fprintf(out, "# UNIT %s %s\n", family, unit);
	fprintf(out, "# HELP %s %s\n", family, help);
}

typedef uint64_t counter_fn(const struct rung_store_stats *stats);

#define COUNTER(member)                                                                            \
	static uint64_t get_##member(const struct rung_store_stats *stats)                         \
	{                                                                                          \
		return stats->member;                                                              \
	}

COUNTER(requests)
COUNTER(request_errors)
COUNTER(device_reads)
COUNTER(device_read_bytes)
COUNTER(retries)
COUNTER(cache_hits)
COUNTER(read_ns)
COUNTER(reads_in_flight)

static const struct family {
	const char *name, *type, *suffix, *unit, *help;
	counter_fn *get;
	int is_ns; /* nonzero: written in seconds */
} families[] = {
	{ "rung_requests", "counter", "_total", "", "Gathers.", get_requests, 0 },
	{ "rung_request_errors", "counter", "_total", "", "Gathers that failed.",
	  get_request_errors, 0 },
	{ "rung_reads", "counter", "_total", "", "Completed reads of files.", get_device_reads, 0 },
	{ "rung_read_bytes", "counter", "_total", "bytes", "Bytes of completed reads.",
	  get_device_read_bytes, 0 },
	{ "rung_read_seconds", "counter", "_total", "seconds",
	  "Duration of all reads; its rate is the mean number in flight.", get_read_ns, 1 },
	{ "rung_read_retries", "counter", "_total", "", "Reads that were submitted again.",
	  get_retries, 0 },
	{ "rung_cache_hits", "counter", "_total", "",
	  "Rows of the tier nvme that were in the cold-row cache.", get_cache_hits, 0 },
	{ "rung_reads_in_flight", "gauge", "", "", "Reads in flight.", get_reads_in_flight, 0 },
};

static void write_family(FILE *out, const struct family *family, const struct top_sample *sample)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", family->name, family->suffix);
	write_head(out, family->name, family->type, family->unit, family->help);
	for (size_t i = 0; i < sample->count; i++) {
		const uint64_t value = family->get(&sample->views[i].stats);

		write_labels(out, name, &sample->views[i]);
		if (family->is_ns)
			fprintf(out, "} %.9f\n", (double)value / 1e9);
		else
			fprintf(out, "} %llu\n", (unsigned long long)value);
	}
}

static void write_tiers(FILE *out, const struct top_sample *sample)
{
	write_head(out, "rung_rows", "counter", "", "Rows that a tier has served.");
	for (size_t i = 0; i < sample->count; i++) {
		const struct rung_store_stats *stats = &sample->views[i].stats;

		for (uint32_t t = 0; t < stats->tier_count; t++) {
			write_labels(out, "rung_rows_total", &sample->views[i]);
			fputs(",tier=\"", out);
			write_text(out, stats->tiers[t].name);
			fprintf(out, "\"} %llu\n", (unsigned long long)stats->tiers[t].hits);
		}
	}
}

static void write_waits(FILE *out, const struct top_sample *sample)
{
	write_head(out, "rung_wait_seconds", "counter", "seconds",
	           "Time in which the trainer was blocked.");
	for (size_t i = 0; i < sample->count; i++) {
		const struct rung_store_stats *stats = &sample->views[i].stats;

		write_labels(out, "rung_wait_seconds_total", &sample->views[i]);
		fprintf(out, ",for=\"rows\"} %.9f\n", (double)stats->wait_rows_ns / 1e9);
		write_labels(out, "rung_wait_seconds_total", &sample->views[i]);
		fprintf(out, ",for=\"sampling\"} %.9f\n", (double)stats->wait_sample_ns / 1e9);
	}
}

static void write_stores(FILE *out, const struct top_sample *sample)
{
	write_head(out, "rung_store", "info", "", "An open store.");
	for (size_t i = 0; i < sample->count; i++) {
		const struct rung__watch_view *view = &sample->views[i];

		write_labels(out, "rung_store_info", view);
		fputs(",command=\"", out);
		write_text(out, view->command);
		fputs("\",engine=\"", out);
		write_text(out, view->engine);
		fprintf(out, "\",owner_pid=\"%u\"} 1\n", view->owner_pid);
	}
}

int top_write_metrics(const char *name, const struct top_args *args,
                      const struct top_sample *sample)
{
	struct tool_out out;
	int code = tool_out_open(name, args->metrics, &out);

	if (code != TOOL_DONE)
		return code;
	write_stores(out.file, sample);
	write_tiers(out.file, sample);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		write_family(out.file, &families[i], sample);
	write_waits(out.file, sample);
	fputs("# EOF\n", out.file);
	return tool_out_commit(&out);
}
