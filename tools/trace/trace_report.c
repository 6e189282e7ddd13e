/* SPDX-License-Identifier: Apache-2.0 */
/* The output of rung trace: tables for people or one JSON object, and the chart of --svg. */
#include <math.h>
#include <string.h>

#include "output/chart.h"
#include "output/json.h"
#include "trace/trace.h"

static const char *draws_name(enum rung_draws draws)
{
	return draws == RUNG_DRAWS_NEW ? "new" : "all";
}

/* 0 to 1; NaN, which becomes null in JSON, if nothing was requested */
static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : NAN;
}

/* ---- JSON ---- */

static json_t *tiers_json(const struct trace_result *result)
{
	json_t *array = json_array();

	for (unsigned t = 0; t < result->tier_count; t++) {
		const struct trace_tier *tier = &result->tiers[t];
		json_t *entry = json_object();

		tool_json_set(entry, "name", tool_json_text(tier->name));
		tool_json_set(entry, "rows", tool_json_u64(tier->rows));
		tool_json_set(entry, "hits", tool_json_u64(tier->hits));
		tool_json_set(entry, "hit_share",
		              tool_json_real(share(tier->hits, result->requests)));
		tool_json_set(entry, "predicted_hit_share",
		              tool_json_real(tier->predicted_hit_share));
		tool_json_append(array, entry);
	}
	return array;
}

static json_t *reals_json(const double *values)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < TRACE_SHARES; i++)
		tool_json_append(array, tool_json_real(values[i]));
	return array;
}

/* Static orders are in "methods" by name. The references have their own keys on the same level as
 * "methods", because their number and names are fixed. */
static json_t *curve_json(const struct trace_result *result)
{
	json_t *root = json_object(), *methods = json_object(), *rows = json_array();

	for (unsigned i = 0; i < TRACE_SHARES; i++)
		tool_json_append(rows, tool_json_u64(result->sizes[i]));
	tool_json_set(root, "share", reals_json(trace_shares));
	tool_json_set(root, "rows", rows);
	for (uint32_t c = 0; c < result->curve_count; c++) {
		const struct trace_curve *curve = &result->curves[c];

		if (curve->kind == TRACE_STATIC)
			tool_json_set(methods, curve->name, reals_json(curve->hit_share));
		else if (curve->kind == TRACE_ORACLE)
			tool_json_set(root, "oracle", reals_json(curve->hit_share));
		else
			tool_json_set(root, strcmp(curve->name, "LRU") == 0 ? "lru" : "belady",
			              reals_json(curve->hit_share));
	}
	tool_json_set(root, "methods", methods);
	return root;
}

/* Reads of lists; null if all of them are in memory. */
static json_t *structure_json(const struct trace_result *result)
{
	json_t *object;

	if (!result->lists_in_file)
		return json_null();
	object = json_object();
	tool_json_set(object, "device_reads", tool_json_u64(result->list_reads));
	tool_json_set(object, "device_read_bytes", tool_json_u64(result->list_read_bytes));
	tool_json_set(object, "reads_per_batch",
	              tool_json_real((double)result->list_reads / (double)result->batches));
	return object;
}

static json_t *trace_json(const struct trace_args *args, const struct trace_input *input,
                          const struct trace_result *result)
{
	json_t *root = json_object(), *dynamic = json_object();

	tool_json_set(root, "rows", tool_json_u64(result->requests));
	tool_json_set(root, "unique_rows", tool_json_u64(result->unique_rows));
	tool_json_set(root, "tiers", tiers_json(result));
	tool_json_set(root, "predicted_by", tool_json_text(result->predicted_by));
	tool_json_set(root, "curve", curve_json(result));
	tool_json_set(dynamic, "rows", tool_json_u64(result->kept));
	tool_json_set(dynamic, "counted_from", tool_json_u64(result->counted_from));
	tool_json_set(root, "dynamic", dynamic);
	tool_json_set(root, "epochs", tool_json_u64(args->epochs));
	tool_json_set(root, "batches", tool_json_u64(result->batches));
	tool_json_set(root, "edges", tool_json_u64(result->edges));
	tool_json_set(root, "seconds", tool_json_real(result->seconds));
	tool_json_set(root, "edges_per_s", tool_json_real((double)result->edges / result->seconds));
	tool_json_set(root, "fanout", tool_json_u32s(input->fanouts.hops, input->fanouts.count));
	tool_json_set(root, "batch", tool_json_u64(input->batch));
	tool_json_set(root, "draws", tool_json_text(draws_name(args->draws)));
	tool_json_set(root, "seed", tool_json_u64(args->seed));
	tool_json_set(root, "seeds", tool_json_u64(input->seed_count));
	tool_json_set(root, "structure", structure_json(result));
	return root;
}

/* ---- tables ---- */

static void print_summary(const struct trace_args *args, const struct trace_result *result)
{
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	printf("%u epoch%s, %llu batch%s: %s edges", args->epochs, args->epochs == 1 ? "" : "s",
	       (unsigned long long)result->batches, result->batches == 1 ? "" : "es",
	       tool_count_text(text, (double)result->edges));
	printf(" sampled in %s", tool_seconds_text(text, result->seconds));
	printf(", %s edges/s\n", tool_count_text(text, (double)result->edges / result->seconds));
	printf("%s requests", tool_count_text(text, (double)result->requests));
	printf(" for %s different rows\n", tool_count_text(text, (double)result->unique_rows));
	if (result->lists_in_file)
		printf("reads of lists: %llu, %s a batch, %s\n",
		       (unsigned long long)result->list_reads,
		       tool_count_text(text, (double)result->list_reads / (double)result->batches),
		       tool_bytes_text(more, (double)result->list_read_bytes));
	putchar('\n');
}

static void print_tiers(const struct trace_result *result)
{
	printf("%-8s %14s %14s %9s %11s\n", "tier", "rows", "hits", "share", "predicted");
	for (unsigned t = 0; t < result->tier_count; t++) {
		const struct trace_tier *tier = &result->tiers[t];

		printf("%-8s %14llu %14llu %7.1f %% %9.1f %%\n", tier->name,
		       (unsigned long long)tier->rows, (unsigned long long)tier->hits,
		       100 * share(tier->hits, result->requests), 100 * tier->predicted_hit_share);
	}
	printf("predicted by %s\n\n", strcmp(result->predicted_by, "score") == 0
	                                      ? "the staged score"
	                                      : "sampled batches of another seed");
}

/* A column for each curve, in the order in which they were computed, and a line for each size. */
static void print_curves(const struct trace_result *result)
{
	printf("hits in %% of the requests, with this share of the rows (in %%) resident\n%7s",
	       "rows");
	for (uint32_t c = 0; c < result->curve_count; c++)
		printf(" %10s", result->curves[c].name);
	putchar('\n');
	for (unsigned i = 0; i < TRACE_SHARES; i++) {
		printf("%7.1f", 100 * trace_shares[i]);
		for (uint32_t c = 0; c < result->curve_count; c++)
			printf(" %10.1f", 100 * result->curves[c].hit_share[i]);
		putchar('\n');
	}
	printf("LRU and Belady: %s %llu requests, the first third warms up\n",
	       result->kept < result->requests ? "the first" : "all",
	       (unsigned long long)result->kept);
}

int trace_report(const char *name, const struct trace_args *args, const struct trace_input *input,
                 const struct trace_result *result)
{
	if (args->common.json)
		return tool_json_print(name, trace_json(args, input, result)) < 0 ? TOOL_FAILED
		                                                                  : TOOL_DONE;
	print_summary(args, result);
	print_tiers(result);
	print_curves(result);
	return TOOL_DONE;
}

/* ---- chart ---- */

#define TEXT_BYTES 512

/* The last part of the path: "papers" of "data/papers/". */
static void dataset_name(const char *dir, char name[TEXT_BYTES])
{
	size_t length = strlen(dir), begin;

	while (length > 1 && dir[length - 1] == '/')
		length--;
	for (begin = length; begin > 0 && dir[begin - 1] != '/';)
		begin--;
	snprintf(name, TEXT_BYTES, "%.*s", (int)(length - begin), dir + begin);
}

/* "25, 10"; RUNG_HOPS_MAX numbers fit in the text. */
static void fanout_text(const struct tool_fanouts *fanouts, char text[TEXT_BYTES])
{
	int used = 0;

	text[0] = 0;
	for (uint32_t hop = 0; hop < fanouts->count; hop++) {
		const char *comma = hop ? ", " : "";

		if (fanouts->hops[hop] == UINT32_MAX)
			used += snprintf(text + used, TEXT_BYTES - (size_t)used, "%sall", comma);
		else
			used += snprintf(text + used, TEXT_BYTES - (size_t)used, "%s%u", comma,
			                 fanouts->hops[hop]);
	}
}

/* Name a curve as in the chart: a word that needs no explanation. */
static const char *plain_name(const struct trace_curve *curve)
{
	if (curve->kind == TRACE_ORACLE)
		return "best fixed order";
	if (strcmp(curve->name, "Belady") == 0)
		return "best possible (knows the future)";
	return strcmp(curve->name, "LRU") == 0 ? "LRU cache" : curve->name;
}

#define EQUAL_SHARE 0.005 /* curves this close everywhere cannot be distinguished in the chart */

static int coincide(const struct trace_curve *a, const struct trace_curve *b)
{
	for (unsigned i = 0; i < TRACE_SHARES; i++) {
		if (!(fabs(a->hit_share[i] - b->hit_share[i]) <= EQUAL_SHARE))
			return 0;
	}
	return 1;
}

/* Add the staged order, then the references, then the methods: styles are assigned in this order.
 * Curves that coincide with the staged one are left out, and named with it: "staged = blend". */
static void add_series(const struct trace_result *result, double y[][TRACE_SHARES],
                       char staged[TEXT_BYTES], struct chart *chart)
{
	int used = snprintf(staged, TEXT_BYTES, "%s", result->curves[0].name), equal = 0;

	chart->series[chart->series_count++] = (struct chart_series){ staged, y[0] };
	for (int methods = 0; methods <= 1; methods++) {
		for (uint32_t c = 1; c < result->curve_count; c++) {
			const struct trace_curve *curve = &result->curves[c];

			if ((curve->kind == TRACE_STATIC) != methods)
				continue;
			if (coincide(curve, &result->curves[0]))
				used += snprintf(staged + used, TEXT_BYTES - (size_t)used, "%s%s",
				                 equal++ ? ", " : " = ", plain_name(curve));
			else
				chart->series[chart->series_count++] =
					(struct chart_series){ plain_name(curve), y[c] };
		}
	}
}

/* Mark the size at which each tier ends, with the share of requests that this tier and the faster
 * ones serve. Tiers without rows, and the last one, need no mark. */
static void add_marks(const struct trace_result *result, const struct rung_dataset_info *info,
                      char names[][TEXT_BYTES], struct chart *chart)
{
	uint64_t end = 0, hits = 0;
	char bytes[TOOL_TEXT_BYTES];

	for (unsigned t = 0; t < result->tier_count; t++) {
		const uint32_t m = chart->mark_count;

		end += result->tiers[t].rows;
		hits += result->tiers[t].hits;
		if (!result->tiers[t].rows || end >= info->vertex_count || m == CHART_MARKS_MAX)
			continue;
		snprintf(names[m], TEXT_BYTES, "%s, %s: %.1f %%", result->tiers[t].name,
		         tool_bytes_text(bytes, (double)end * (double)info->stored_row_bytes),
		         100 * share(hits, result->requests));
		chart->marks[chart->mark_count++] =
			(struct chart_mark){ names[m],
			                     100 * (double)end / (double)info->vertex_count };
	}
}

void trace_write_svg(const struct trace_args *args, const struct trace_input *input,
                     const struct trace_result *result, FILE *out)
{
	const struct rung_dataset_info *info = rung_dataset_info(input->ds);
	double x[TRACE_SHARES], y[TRACE_CURVES_MAX][TRACE_SHARES];
	char title[TEXT_BYTES], subtitle[3 * TEXT_BYTES], dataset[TEXT_BYTES], fanout[TEXT_BYTES],
		staged[TEXT_BYTES], marks[CHART_MARKS_MAX][TEXT_BYTES], rows[TOOL_TEXT_BYTES],
		requests[TOOL_TEXT_BYTES];
	struct chart chart = {
		.title = title,
		.subtitle = subtitle,
		.x_label = "rows in memory, % of all",
		.y_label = "requests served from memory, %",
		.x_max = 100,
		.y_max = 100,
		.bytes_max = (double)info->vertex_count * (double)info->stored_row_bytes,
		.x = x,
		.point_count = TRACE_SHARES,
	};

	dataset_name(args->dir, dataset);
	fanout_text(&input->fanouts, fanout);
	snprintf(title, sizeof(title), "Hit rate against memory: %.400s", dataset);
	snprintf(subtitle, sizeof(subtitle),
	         "fanout %s; batch %u; %u epoch%s; %s rows; %s requests", fanout, input->batch,
	         args->epochs, args->epochs == 1 ? "" : "s",
	         tool_count_text(rows, (double)info->vertex_count),
	         tool_count_text(requests, (double)result->requests));
	for (unsigned i = 0; i < TRACE_SHARES; i++) {
		x[i] = 100 * trace_shares[i];
		for (uint32_t c = 0; c < result->curve_count; c++)
			y[c][i] = 100 * result->curves[c].hit_share[i];
	}
	add_series(result, y, staged, &chart);
	add_marks(result, info, marks, &chart);
	chart_write(&chart, out);
}
