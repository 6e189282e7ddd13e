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

#define LINE_COLUMNS  100
#define REASON_INDENT 13

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

/* The last size without a unit: someone who types 4 usually means GiB. */
static struct {
	uint64_t bytes;
	char number[24]; /* "4 bytes", as errors of the library print it */
	char hint[64];
} small_size;

void tool_size_note(const char *option, uint64_t bytes)
{
	const unsigned long long number = bytes;

	small_size.bytes = bytes;
	snprintf(small_size.number, sizeof(small_size.number), " %llu bytes", number);
	snprintf(small_size.hint, sizeof(small_size.hint), "; did you mean %s %lluGiB?", option,
	         number);
}

const char *tool_size_hint(uint64_t bytes)
{
	return bytes && bytes == small_size.bytes ? small_size.hint : "";
}

/* A message does not follow a bar on its line. */
static void clear_bar(void)
{
	if (tool_interrupt_bar(0))
		fputs("\r\033[K", stderr);
}

int tool_fail(const char *name, int status)
{
	const char *text = rung_last_error(), *hint = "";

	/* main() ends the process by the signal, and die() prints the message */
	if (status == RUNG_E_CANCELED && tool_interrupted())
		return TOOL_FAILED;
	/* results printed earlier come first if both streams go to one file */
	fflush(stdout);
	clear_bar();
	/* no text: the status may be from a function of the tool that has not called the library */
	if (status == RUNG_E_INVAL && small_size.bytes && strstr(text, small_size.number))
		hint = small_size.hint;
	fprintf(stderr, "%s: %s%s\n", name, *text ? text : rung_status_text(status), hint);
	return tool_exit_code(status);
}

int tool_error(const char *name, int code, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	clear_bar();
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

	if (count > 0 && count < 9.95 && count != floor(count)) {
		/* not "%g" alone, which has an exponent below 0.0001 */
		snprintf(text, TOOL_TEXT_BYTES, count < 0.01 ? "%.3f" : "%.2g", count);
		return text;
	}
	if (count < 99.95 && count != floor(count)) {
		snprintf(text, TOOL_TEXT_BYTES, "%.1f", count);
		return text;
	}
	return scaled_text(text, count, 1000, units, 5);
}

/* Below one second: two or three digits, as the times of a batch or of a read have a larger spread
 * than the fourth. */
static const char *fraction_text(char text[TOOL_TEXT_BYTES], double seconds)
{
	static const char *const units[] = { "ms", "us", "ns" };
	unsigned unit = 0;

	/* a little below 1, because 999.7 us would be printed as "1000 us" */
	for (seconds *= 1e3; seconds < 0.9995 && unit < 2; unit++)
		seconds *= 1e3;
	snprintf(text, TOOL_TEXT_BYTES, seconds < 9.95 && unit < 2 ? "%.1f %s" : "%.0f %s", seconds,
	         units[unit]);
	return text;
}

/* Two units at most; minutes from 100 s and hours from 100 min on. */
const char *tool_seconds_text(char text[TOOL_TEXT_BYTES], double seconds)
{
	double whole = floor(seconds); /* so that 119.7 s is not printed as "1 min 60 s" */

	if (seconds > 0 && seconds < 0.9995)
		return fraction_text(text, seconds);
	if (seconds < 100)
		snprintf(text, TOOL_TEXT_BYTES,
		         seconds > 0 && seconds < 9.995 ? "%.2f s" : "%.0f s", seconds);
	else if (seconds < 6000)
		snprintf(text, TOOL_TEXT_BYTES, "%.0f min %02.0f s", floor(whole / 60),
		         fmod(whole, 60));
	else
		snprintf(text, TOOL_TEXT_BYTES, "%.0f h %02.0f min", floor(whole / 3600),
		         floor(fmod(whole, 3600) / 60));
	return text;
}

/* The smallest value of a bucket; see RUNG_LATENCY_BUCKETS. */
static double bucket_start(unsigned bucket)
{
	return bucket < 8 ? bucket : ldexp(8 + bucket % 8, (int)(bucket / 8) - 1);
}

double tool_percentile(const uint64_t buckets[RUNG_LATENCY_BUCKETS], double share)
{
	double count = 0, before = 0, wanted;
	unsigned bucket = 0;

	for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
		count += (double)buckets[b];
	if (!tool_percentile_known((uint64_t)count, share))
		return (double)NAN;
	wanted = share * count;
	while (before + (double)buckets[bucket] <= wanted && bucket + 1 < RUNG_LATENCY_BUCKETS)
		before += (double)buckets[bucket++];
	/* the values of a bucket are assumed to be evenly distributed in it */
	return bucket_start(bucket) + (bucket_start(bucket + 1) - bucket_start(bucket)) *
	                                      (wanted - before) / (double)buckets[bucket];
}

double tool_latency_sum(const uint64_t buckets[RUNG_LATENCY_BUCKETS])
{
	double sum = 0;

	for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
		sum += (double)buckets[b] * (bucket_start(b) + bucket_start(b + 1)) / 2;
	return sum;
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

int tool_node_to_probe(const struct rung_topology *topology)
{
	const struct rung_topology_node *node;
	uint64_t most = 0;
	int best = -1;

	for (size_t i = 0; (node = rung_topology_node(topology, i)) != NULL; i++) {
		if (node->memory_allowed != 0 && node->free_bytes != RUNG_UNKNOWN &&
		    node->free_bytes > most) {
			most = node->free_bytes;
			best = (int)node->node;
		}
	}
	return best;
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

void tool_wrap(int indent, const char *format, ...)
{
	va_list args;
	char *text;
	int length, at = 0;

	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0)
		return;
	for (const char *word = text; *word;) {
		const int bytes = (int)strcspn(word, " ");

		if (word != text && at + 1 + bytes > LINE_COLUMNS)
			at = printf("\n%*s", indent, "") - 1;
		else if (word != text)
			at += printf(" ");
		at += printf("%.*s", bytes, word);
		word += bytes + (word[bytes] == ' ');
	}
	putchar('\n');
	free(text);
}

/* A line "  label      value: reason". A setting without a value was not derived from the profile,
 * and has no reason or one why not. */
static void print_reason(const char *label, const char *value, const char *why)
{
	tool_wrap(REASON_INDENT, "  %-*s%s%s%s", REASON_INDENT - 2, label, value,
	          *value ? ": " : "", why);
}

void tool_print_tuning(const struct rung_tuning *tuning, const char *profile)
{
	char text[RUNG_FEATURE_FILES_MAX * sizeof(tuning->drives[0])] = "";
	size_t used = 0;

	tool_wrap(2, "chosen by %s:", profile);
	for (uint32_t i = 0; i < tuning->drive_count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : "",
		                         *tuning->drives[i] ? tuning->drives[i] : "without a name");
	print_reason("drive", text, tuning->drive_why);
	snprintf(text, sizeof(text), "%u", tuning->queue_depth);
	if (tuning->queue_depth)
		print_reason("depth", text, tuning->queue_depth_why);
	*text = 0;
	if (tuning->merge_gap_bytes)
		snprintf(text, sizeof(text), "%u bytes",
		         tuning->merge_gap_bytes == RUNG_MERGE_GAP_NONE ? 0
		                                                        : tuning->merge_gap_bytes);
	if (*tuning->merge_gap_why)
		print_reason("gap", text, tuning->merge_gap_why);
	snprintf(text, sizeof(text), "%u", tuning->refill_threads);
	if (tuning->refill_threads > 1)
		print_reason("refill", text, tuning->refill_threads_why);
	*text = 0;
	if (tuning->threads)
		snprintf(text, sizeof(text), "%u", tuning->threads);
	print_reason("threads", text, tuning->threads_why);
	print_reason("host rows", tuning->interleaved ? "interleaved" : "",
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
	const char *why = stats->engine_why ? stats->engine_why : "";
	int at = printf("engine: %s", stats->engine);

	if (strcmp(stats->engine, "none") != 0) /* "none": all rows are in memory */
		at += printf(", %s, depth %u, sectors of %u bytes",
		             stats->direct ? "O_DIRECT" : "page cache", stats->queue_depth,
		             stats->sector_bytes);
	if (stats->refill_threads > 1)
		at += printf(", %u refill threads", stats->refill_threads);
	if (*why)
		printf(at + 2 + (int)strlen(why) > LINE_COLUMNS ? ";\n        %s" : "; %s", why);
	putchar('\n');
	/* files on other file systems can have other engines */
	for (uint32_t f = 1; f < stats->file_count; f++) {
		if (strcmp(stats->file_engines[f], stats->engine) != 0)
			printf("        features.%03u.npy: %s\n", f, stats->file_engines[f]);
	}
}
