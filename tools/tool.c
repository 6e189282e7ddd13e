/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers shared by the subcommands: failures, numbers, tables. Arguments are in args/, stores in
 * cmd/open.c, progress in output/progress.c.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "tool.h"

/* Statuses with a dedicated exit code; all other failures are TOOL_FAILED. */
int tool_exit_code(int status)
{
	switch (status) {
	case RUNG_E_INVAL:
		return TOOL_USAGE;
	case RUNG_E_CORRUPT:
		return TOOL_CORRUPT;
	case RUNG_E_NODEV:
		return TOOL_NO_HARDWARE;
	default:
		return status < 0 ? TOOL_FAILED : TOOL_DONE;
	}
}

int tool_fail(const char *name, int status)
{
	const char *text = rung_last_error();

	/* main() ends the process by the signal, and die() prints the message */
	if (status == RUNG_E_CANCELED && tool_interrupted())
		return TOOL_FAILED;
	/* results printed earlier come first if both streams go to one file */
	fflush(stdout);
	/* no text: the status may be from a function of the tool that has not called the library */
	fprintf(stderr, "%s: %s\n", name, *text ? text : rung_status_text(status));
	return tool_exit_code(status);
}

int tool_error(const char *name, int code, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return code;
}

void tool_output_lost(const char *name, int err)
{
	/* The rest of the buffer cannot be written. Without these two calls tool_error() and the
	 * flush at exit would fail again and print a second message. */
	__fpurge(stdout);
	clearerr(stdout);
	tool_error(name, TOOL_FAILED, "standard output could not be written%s%s", err ? ": " : "",
	           err ? strerror(err) : "");
}

int tool_flush(const char *name)
{
	const int lost = ferror(stdout); /* an earlier write failed, for a reason now unknown */

	errno = 0;
	if (fflush(stdout) == 0 && !lost)
		return TOOL_DONE;
	tool_output_lost(name, errno);
	return TOOL_FAILED;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Callers check this first, because loading a missing split is an error of the library. */
static int has_split(const struct rung_dataset_info *info, const char *name)
{
	for (size_t i = 0; i < info->split_count; i++) {
		if (strcmp(info->split_names[i], name) == 0)
			return 1;
	}
	return 0;
}

int tool_train_ranks(const struct rung_dataset *ds, uint64_t *count_out, uint64_t **ids_out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	uint64_t *given = NULL, *ids, count = info->vertex_count, kept = 0;
	int rc;

	if (has_split(info, "train")) {
		rc = rung_dataset_load_ids(ds, "split_train", &count, &given);
		if (rc < 0)
			return rc;
	}
	/* a copy, because without a split the ids are generated here: the caller uses free() in
	 * both cases */
	ids = malloc((count ? count : 1) * sizeof(*ids));
	if (!ids) {
		rung_free(given);
		return RUNG_E_NOMEM;
	}
	for (uint64_t i = 0; i < count; i++)
		ids[i] = given ? given[i] : i;
	/* A split keeps the order in which it was given, and may repeat ids; after sorting, equal
	 * ids are adjacent. */
	if (given)
		qsort(ids, count, sizeof(*ids), compare_ids);
	for (uint64_t i = 0; i < count; i++) {
		if (kept == 0 || ids[kept - 1] != ids[i])
			ids[kept++] = ids[i];
	}
	rung_free(given);
	*count_out = kept;
	*ids_out = ids;
	return 0;
}

void tool_fanouts_of(const struct tool_fanouts *given, const struct rung_dataset_info *info,
                     struct tool_fanouts *out)
{
	*out = *given;
	if (given->count)
		return;
	out->count = info->fanout_count < RUNG_HOPS_MAX ? info->fanout_count : RUNG_HOPS_MAX;
	memcpy(out->hops, info->fanouts, out->count * sizeof(out->hops[0]));
}

/* Three digits and a unit: "812 B", "1.20 KiB", "62.2 MiB"; `step` is the ratio of two units. */
static const char *scaled_text(char *text, double value, double step, const char *const *units,
                               int unit_count)
{
	int unit = 0;

	/* a little below the step, because 1023.99 KiB would be printed as "1024 KiB" */
	while (unit + 1 < unit_count && value >= step * 0.99995) {
		value /= step;
		unit++;
	}
	snprintf(text, TOOL_TEXT_BYTES,
	         unit == 0     ? "%.0f%s"
	         : value < 10  ? "%.2f%s"
	         : value < 100 ? "%.1f%s"
	                       : "%.0f%s",
	         value, units[unit]);
	return text;
}

const char *tool_bytes_text(char text[TOOL_TEXT_BYTES], double bytes)
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB" };

	return scaled_text(text, bytes, 1024, units, 6);
}

const char *tool_count_text(char text[TOOL_TEXT_BYTES], double count)
{
	static const char *const units[] = { "", " k", " M", " G", " T" };

	return scaled_text(text, count, 1000, units, 5);
}

/* Two units at most; minutes from 100 s and hours from 100 min on. */
const char *tool_seconds_text(char text[TOOL_TEXT_BYTES], double seconds)
{
	double whole = floor(seconds); /* so that 119.7 s is not printed as "1 min 60 s" */

	if (seconds < 100)
		snprintf(text, TOOL_TEXT_BYTES, seconds < 10 ? "%.2f s" : "%.0f s", seconds);
	else if (seconds < 6000)
		snprintf(text, TOOL_TEXT_BYTES, "%.0f min %02.0f s", floor(whole / 60),
		         fmod(whole, 60));
	else
		snprintf(text, TOOL_TEXT_BYTES, "%.0f h %02.0f min", floor(whole / 3600),
		         floor(fmod(whole, 3600) / 60));
	return text;
}

const char *tool_assumed_text(char text[TOOL_ASSUMED_BYTES], uint32_t assumed)
{
	size_t used = 0;

	text[0] = 0;
	/* each bit is a tier that holds rows and has no rate in the profile */
	for (uint32_t bit = 1; bit < RUNG_ASSUMED_ALL; bit <<= 1) {
		if (assumed & bit)
			used += (size_t)snprintf(text + used, TOOL_ASSUMED_BYTES - used, "%s%s",
			                         used ? ", "
			                              : ", which has no rates of GPU reads from ",
			                         rung_assumed_name((enum rung_assumed)bit));
	}
	if (used)
		snprintf(text + used, TOOL_ASSUMED_BYTES - used,
		         ": they are assumed; measure them with rung numa");
	return text;
}

/* "host: 12.0 GiB on node 1", "host: 24.0 GiB on nodes 0, 1 in turn, blocks of 2.0 MiB", without a
 * line end, because the share of the pages follows on the same line once the store is open. */
static void print_placement(const struct rung_placement *placement)
{
	char bytes[TOOL_TEXT_BYTES];

	printf("%s: %s on node%s", placement->name,
	       tool_bytes_text(bytes, (double)placement->bytes),
	       placement->nodes.count > 1 ? "s" : "");
	for (uint32_t n = 0; n < placement->nodes.count; n++)
		printf("%s %u", n ? "," : "", placement->nodes.ids[n]);
	if (placement->nodes.count > 1)
		printf(" in turn, blocks of %s",
		       tool_bytes_text(bytes, (double)placement->block_bytes));
	if (placement->row_count)
		printf(", ranks from %llu", (unsigned long long)placement->rank_first);
}

void tool_print_placements(const struct rung_store_stats *stats)
{
	for (uint32_t i = 0; i < stats->placement_count; i++) {
		const struct rung_store_placement *placement = &stats->placements[i];

		if (placement->placement.nodes.count == 0) /* left to the kernel */
			continue;
		print_placement(&placement->placement);
		/* NaN: move_pages() is refused here, and `why` has the reason */
		if (!isnan(placement->node_share))
			printf("; %.1f %% of its pages are placed as planned",
			       100 * placement->node_share);
		printf("%s%s\n", *placement->why ? "; " : "", placement->why);
	}
}

void tool_print_plan(const struct rung_plan *plan)
{
	const struct rung_plan_tier *tier;
	const struct rung_placement *placement;
	char bytes[TOOL_TEXT_BYTES];

	printf("%-8s %14s %12s %12s\n", "tier", "rows", "bytes", "hits");
	for (unsigned i = 0; (tier = rung_plan_tier(plan, i)) != NULL; i++) {
		printf("%-8s %14llu %12s ", tier->name, (unsigned long long)tier->row_count,
		       tool_bytes_text(bytes, (double)tier->bytes));
		if (isnan(tier->hit_share)) /* nothing was predicted */
			printf("%12s\n", "-");
		else
			printf("%10.1f %%\n", 100 * tier->hit_share);
	}
	/* on a machine with one node no block has a planned node, and nothing is printed */
	for (size_t i = 0; (placement = rung_plan_placement(plan, i)) != NULL; i++) {
		if (placement->nodes.count == 0)
			continue;
		print_placement(placement);
		putchar('\n');
	}
}

void tool_print_tuning(const struct rung_tuning *tuning, const char *profile)
{
	printf("chosen by %s:\n", profile);
	printf("  drive      ");
	for (uint32_t i = 0; i < tuning->drive_count; i++)
		printf("%s%s", i ? ", " : "",
		       *tuning->drives[i] ? tuning->drives[i] : "without a name");
	printf("%s%s\n", tuning->drive_count ? ": " : "", tuning->drive_why);
	/* a setting of 0 or without a reason was not derived from the profile */
	if (tuning->queue_depth)
		printf("  depth      %u: %s\n", tuning->queue_depth, tuning->queue_depth_why);
	if (*tuning->merge_gap_why) {
		printf("  gap        ");
		if (tuning->merge_gap_bytes)
			printf("%u bytes: ", tuning->merge_gap_bytes == RUNG_MERGE_GAP_NONE
			                             ? 0
			                             : tuning->merge_gap_bytes);
		printf("%s\n", tuning->merge_gap_why);
	}
	printf("  threads    ");
	if (tuning->threads)
		printf("%u: ", tuning->threads);
	printf("%s\n", tuning->threads_why);
	printf("  host rows  %s%s\n", tuning->interleaved ? "interleaved: " : "",
	       tuning->interleaved_why);
}

void tool_print_hits(const struct rung_store_stats *stats)
{
	uint64_t all = 0; /* rows that were requested; 0 for a run that was interrupted early */

	for (uint32_t i = 0; i < stats->tier_count; i++)
		all += stats->tiers[i].hits;
	printf("%-8s %14s %14s %9s\n", "tier", "rows", "hits", "share");
	for (uint32_t i = 0; i < stats->tier_count; i++) {
		printf("%-8s %14llu %14llu ", stats->tiers[i].name,
		       (unsigned long long)stats->tiers[i].rows,
		       (unsigned long long)stats->tiers[i].hits);
		if (all)
			printf("%7.1f %%\n", 100 * (double)stats->tiers[i].hits / (double)all);
		else
			printf("%9s\n", "-");
	}
}

void tool_print_engine(const struct rung_store_stats *stats)
{
	printf("engine: %s", stats->engine);
	if (strcmp(stats->engine, "none") != 0) /* "none": all rows are in memory */
		printf(", %s, depth %u, sectors of %u bytes",
		       stats->direct ? "O_DIRECT" : "page cache", stats->queue_depth,
		       stats->sector_bytes);
	if (stats->engine_why && *stats->engine_why)
		printf("; %s", stats->engine_why);
	putchar('\n');
}
