/* SPDX-License-Identifier: Apache-2.0 */
/* The report of rung stage, as text and as JSON. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "args/args.h"
#include "cmd/stage_report.h"

void tool_stage_folder(const struct rung_stage_opts *opts, char *path, size_t bytes)
{
	char out[PATH_MAX];
	size_t length = strlen(opts->out_dir);

	/* "out/" is staged in "out.partial", as in the library */
	while (length > 1 && opts->out_dir[length - 1] == '/')
		length--;
	snprintf(out, sizeof(out), "%.*s", (int)length, opts->out_dir);
	if (opts->part > 0)
		snprintf(path, bytes, RUNG_STAGE_PART_FORMAT, out, opts->part, opts->part_count);
	else
		snprintf(path, bytes, "%s.partial", out);
}

/* As in the manifest: "given" for the values of a file. */
static const char *score_name(const struct rung_stage_opts *opts)
{
	return opts->score_spec ? "given" : rung_score_method_name(opts->score.method);
}

static json_t *score_json(const struct rung_stage_opts *opts, const struct rung_score_report *score,
                          int already_staged)
{
	json_t *root = json_object();
	/* otherwise no score ran, and the zeros of the report are not results */
	int computed = !opts->score_spec && !opts->dry_run && !already_staged;

	tool_json_set(root, "method", tool_json_text(score_name(opts)));
	tool_json_set(root, "seconds", computed ? tool_json_real(score->seconds) : json_null());
	tool_json_set(root, "iterations",
	              computed && score->iterations ? tool_json_u64(score->iterations)
	                                            : json_null());
	tool_json_set(root, "residual",
	              computed && tool_score_converges(opts->score.method)
	                      ? tool_json_real(score->residual)
	                      : json_null());
	tool_json_set(root, "edge_passes",
	              computed ? tool_json_u64(score->edge_passes) : json_null());
	tool_json_set(root, "batches_sampled",
	              computed ? tool_json_u64(score->batches_sampled) : json_null());
	return root;
}

/* The library stores 0 for a rate that it did not measure; JSON has null. */
static json_t *measured(double value)
{
	return value > 0 ? tool_json_real(value) : json_null();
}

/* How the rows were (or would be) brought into order, with the expected time of each way. */
static json_t *rows_json(const struct rung_stage_report *report)
{
	json_t *root = json_object(), *expected = json_object();

	tool_json_set(root, "row_order", tool_json_text(rung_row_order_name(report->row_order)));
	tool_json_set(root, "ranges", tool_json_u64(report->range_count));
	tool_json_set(root, "bytes_read", tool_json_u64(report->rows_bytes_read));
	tool_json_set(root, "bytes_written", tool_json_u64(report->rows_bytes_written));
	tool_json_set(root, "temp_bytes", tool_json_u64(report->temp_bytes));
	for (int order = RUNG_ROW_ORDER_PASSES; order <= RUNG_ROW_ORDER_GATHER; order++)
		tool_json_set(expected, rung_row_order_name((enum rung_row_order)order),
		              measured(report->row_order_seconds[order]));
	tool_json_set(root, "expected_seconds", expected);
	tool_json_set(root, "read_bytes_per_s", measured(report->read_bytes_per_s));
	tool_json_set(root, "write_bytes_per_s", measured(report->write_bytes_per_s));
	tool_json_set(root, "row_reads_per_s", measured(report->row_reads_per_s));
	tool_json_set(root, "resumed_rows", tool_json_u64(report->rows_resumed));
	return root;
}

/* Time and bytes of each phase: shows which one to speed up. */
static json_t *phases_json(const struct rung_stage_report *report)
{
	json_t *phases = json_array();

	for (size_t i = 0; i < report->phase_count; i++) {
		const struct rung_stage_phase *phase = &report->phases[i];
		json_t *entry = json_object();

		tool_json_set(entry, "name", tool_json_text(phase->name));
		tool_json_set(entry, "seconds", tool_json_real(phase->seconds));
		tool_json_set(entry, "bytes_read", tool_json_u64(phase->bytes_read));
		tool_json_set(entry, "bytes_written", tool_json_u64(phase->bytes_written));
		tool_json_append(phases, entry);
	}
	return phases;
}

/* Null unless rows are quantized. */
static json_t *quantized_json(const struct rung_stage_opts *opts,
                              const struct rung_stage_report *report)
{
	json_t *quantized;

	if (!opts->quantize)
		return json_null();
	quantized = json_object();
	tool_json_set(quantized, "format", tool_json_text(tool_quant_formats[opts->quantize]));
	tool_json_set(quantized, "scales", tool_json_text(tool_quant_scales[opts->quant_scales]));
	tool_json_set(quantized, "given_row_bytes", tool_json_u64(report->given_row_bytes));
	/* an existing result is not read again */
	tool_json_set(quantized, "rows_compared", tool_json_u64(report->quant_rows));
	tool_json_set(quantized, "error_max",
	              report->quant_rows ? tool_json_real(report->quant_error_max) : json_null());
	tool_json_set(quantized, "error_mean",
	              report->quant_rows ? tool_json_real(report->quant_error_mean) : json_null());
	tool_json_set(quantized, "clipped",
	              report->quant_rows ? tool_json_real(report->quant_clipped) : json_null());
	return quantized;
}

/* Null without --part. */
static json_t *part_json(const struct rung_stage_opts *opts, const struct rung_stage_report *report)
{
	json_t *root;

	if (opts->part_count == 0)
		return json_null();
	root = json_object();
	tool_json_set(root, "part", tool_json_u64(opts->part));
	tool_json_set(root, "parts", tool_json_u64(opts->part_count));
	tool_json_set(root, "rank_first", tool_json_u64(report->rank_first));
	tool_json_set(root, "rank_count", tool_json_u64(report->rank_count));
	return root;
}

/* `rows` is null if no rows are moved (in place, already staged), `phases` if nothing ran. */
json_t *tool_stage_json(const struct rung_stage_opts *opts, const struct rung_stage_report *report)
{
	json_t *root = json_object();

	tool_json_set(root, "out", tool_json_text(opts->out_dir));
	tool_json_set(root, "dry_run", json_boolean(opts->dry_run));
	tool_json_set(root, "vertices", tool_json_u64(report->vertex_count));
	/* parts other than 0 do not read the graph */
	tool_json_set(root, "edges",
	              opts->part > 0 ? json_null() : tool_json_u64(report->edge_count));
	tool_json_set(root, "part", part_json(opts, report));
	tool_json_set(root, "row_bytes", tool_json_u64(report->row_bytes));
	tool_json_set(root, "row_stride", tool_json_u64(report->row_stride));
	tool_json_set(root, "quantized", quantized_json(opts, report));
	tool_json_set(root, "feature_files", tool_json_u64(report->feature_file_count));
	tool_json_set(root, "feature_bytes", tool_json_u64(report->feature_bytes));
	tool_json_set(root, "bytes_written", tool_json_u64(report->bytes_written));
	tool_json_set(root, "free_bytes", tool_json_u64(report->free_bytes));
	tool_json_set(root, "memory_bytes", tool_json_u64(report->memory_bytes));
	tool_json_set(root, "budget_bytes", tool_json_u64(report->budget_bytes));
	tool_json_set(root, "graph_in_files", json_boolean(report->graph_in_files));
	tool_json_set(root, "resumed", json_boolean(report->resumed));
	tool_json_set(root, "already_staged", json_boolean(report->already_staged));
	tool_json_set(root, "in_place", json_boolean(report->in_place));
	tool_json_set(root, "rows",
	              report->in_place || report->already_staged ? json_null() : rows_json(report));
	tool_json_set(root, "phases",
	              opts->dry_run || report->already_staged ? json_null() : phases_json(report));
	tool_json_set(root, "score", score_json(opts, &report->score, report->already_staged));
	tool_json_set(root, "seconds", tool_json_real(report->seconds));
	tool_json_set(root, "peak_rss_bytes", tool_json_u64(tool_peak_rss()));
	return root;
}

/*
 * The chosen order of a dry run and the reason for it:
 *
 *     rows by partition in 31 parts: reads 24.0 GiB, writes 24.0 GiB
 *     58 s expected, 210 s with passes, 97 s with gather: measured 2.10 GiB/s read, ...
 *
 * Without the second line if there was too little data to measure the devices.
 */
static void print_plan(const struct rung_stage_report *report)
{
	char in[TOOL_TEXT_BYTES], out[TOOL_TEXT_BYTES], text[TOOL_TEXT_BYTES];

	if (report->in_place) {
		printf("rows stay where they are\n");
		return;
	}
	printf("rows by %s in %llu part%s: reads %s, writes %s",
	       rung_row_order_name(report->row_order), (unsigned long long)report->range_count,
	       report->range_count == 1 ? "" : "s",
	       tool_bytes_text(in, (double)report->rows_bytes_read),
	       tool_bytes_text(out, (double)report->rows_bytes_written));
	if (report->temp_bytes)
		printf(", %s more temporarily", tool_bytes_text(text, (double)report->temp_bytes));
	if (report->rows_seconds > 0)
		printf("\n%s expected", tool_seconds_text(text, report->rows_seconds));
	for (int order = RUNG_ROW_ORDER_PASSES; order <= RUNG_ROW_ORDER_GATHER; order++) {
		if (order != (int)report->row_order && report->row_order_seconds[order] > 0)
			printf(", %s with %s",
			       tool_seconds_text(text, report->row_order_seconds[order]),
			       rung_row_order_name((enum rung_row_order)order));
	}
	if (report->rows_seconds > 0)
		printf(": measured %s/s read, %s/s written, %s rows/s read one by one",
		       tool_bytes_text(in, report->read_bytes_per_s),
		       tool_bytes_text(out, report->write_bytes_per_s),
		       tool_count_text(text, report->row_reads_per_s));
	printf("\n");
}

/* Size and errors of quantized rows. */
static void print_quantized(const struct rung_stage_opts *opts,
                            const struct rung_stage_report *report)
{
	char given[TOOL_TEXT_BYTES], stored[TOOL_TEXT_BYTES];

	printf("%s with scales per %s: %s instead of %s of rows (%.2f times smaller)\n",
	       tool_quant_formats[opts->quantize], tool_quant_scales[opts->quant_scales],
	       tool_bytes_text(stored, (double)report->feature_bytes),
	       tool_bytes_text(given,
	                       (double)report->given_row_bytes * (double)report->vertex_count),
	       (double)report->given_row_bytes / (double)report->row_bytes);
	if (report->quant_rows)
		printf("differences of values in %s%llu rows: %.3g at most, %.3g on average, "
		       "%.3g %% clipped\n",
		       report->quant_rows < report->vertex_count ? "a sample of " : "",
		       (unsigned long long)report->quant_rows, report->quant_error_max,
		       report->quant_error_mean, 100 * report->quant_clipped);
}

static void print_counts(const struct rung_stage_opts *opts, const struct rung_stage_report *report)
{
	if (opts->type_count > 0) {
		printf("%llu vertices of %zu types, %llu edges of %zu relations\n",
		       (unsigned long long)report->vertex_count, opts->type_count,
		       (unsigned long long)report->edge_count, opts->relation_count);
		return;
	}
	printf("%llu vertices, ", (unsigned long long)report->vertex_count);
	if (opts->part == 0)
		printf("%llu edges, ", (unsigned long long)report->edge_count);
	printf("rows of %llu bytes\n", (unsigned long long)report->row_bytes);
}

/* A few lines for people; a dry run, and a result that exists already, end it early. */
void tool_stage_print(const struct rung_stage_opts *opts, const struct rung_stage_report *report)
{
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES], folder[PATH_MAX + 64];

	snprintf(folder, sizeof(folder), "%s", opts->out_dir);
	if (opts->part > 0)
		tool_stage_folder(opts, folder, sizeof(folder));
	print_counts(opts, report);
	if (opts->part_count > 0)
		printf("part %u/%u: %llu rows from rank %llu on\n", opts->part, opts->part_count,
		       (unsigned long long)report->rank_count,
		       (unsigned long long)report->rank_first);
	if (opts->quantize)
		print_quantized(opts, report);
	/* --pad: the user should see its cost */
	if (report->row_stride != report->row_bytes)
		printf("%llu bytes from row to row: %.1f %% more\n",
		       (unsigned long long)report->row_stride,
		       100.0 * (double)(report->row_stride - report->row_bytes) /
		               (double)report->row_bytes);
	if (report->already_staged) {
		tool_bytes_text(text, (double)report->bytes_written);
		if (opts->part > 0)
			printf("already staged: all %s of this part\n", text);
		else
			printf("already staged: %s holds all %s of this job\n", opts->out_dir,
			       text);
		return;
	}
	if (opts->dry_run) {
		printf("would write %s to %s", tool_bytes_text(text, (double)report->bytes_written),
		       folder);
		printf(" (%s free), holding %s in memory\n",
		       tool_bytes_text(text, (double)report->free_bytes),
		       tool_bytes_text(more, (double)report->memory_bytes));
		print_plan(report);
		return;
	}
	printf("ranked by %s", score_name(opts));
	if (!opts->score_spec)
		printf(" in %s", tool_seconds_text(text, report->score.seconds));
	printf("\nwrote %s to %s in %s\n", tool_bytes_text(text, (double)report->bytes_written),
	       folder, tool_seconds_text(more, report->seconds));
	if (opts->part > 0)
		printf("part 0 moves its file to %s\n", opts->out_dir);
	if (report->in_place)
		printf("rows stay where they are: the dataset needs their file as it is\n");
}
