/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that plans derive from a machine profile. Every choice is written with its reason, so
 * that a user sees the measurements that led to it.
 *
 * Reads in flight: by Little's law a drive that completes X reads per second with latency L has X
 * times L of them in flight. With fewer reads the drive idles; with more, reads queue. The knee of
 * the curve is chosen: the smallest depth that reaches nearly the highest rate. The curve is that
 * of reads of one row, because longer reads, of several rows, saturate the drive at smaller depths.
 *
 * The gap: two rows in one read cost the bytes between them, two reads cost the fixed cost of one
 * more read. In a long read a byte takes 1 / B, where B is the highest measured bandwidth. So a gap
 * is worth reading if it has at most (time of a read of one row) * B minus the bytes of the row.
 * Then no merged read takes longer than separate reads of its rows, however many rows and gaps it
 * has.
 *
 * Threads: as many as reach the rate of all cores together, if each thread works at the measured
 * rate of a single core. Beyond that, memory is saturated.
 */
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/profile_rates.h"
#include "rung/store.h"

#define RATE_BYTES 32
#define NEARLY     0.95 /* this share of the highest rate counts as reaching it */
/* reads per second of a refill thread, with the driver's work for them, which is most of it; rung's
 * own work would permit several times as many (bench/null_device) */
#define READS_PER_THREAD   300000.0
#define REFILL_THREADS_MAX 8u
/* the same limit as in io/engine/merge_gap.c, which measures the gap at open */
#define GAP_BYTES_MAX 65536u

/* ---- drives ---- */

/*
 * Find the drive with this name in the profile.
 * @return its index, or the drive count if no drive has this name; "" matches none, because the
 *          kernel did not name the drive
 */
static uint32_t find_drive(const struct rung_profile *profile, const char *name)
{
	uint32_t i = 0;

	while (i < profile->drive_count &&
	       (name[0] == 0 || strcmp(profile->drives[i].name, name) != 0))
		i++;
	return i;
}

/* Write the reason for a drive. With several files there is one text: a drive that is missing from
 * the profile replaces the text of a drive that was found. */
static void explain_drive(const struct rung_profile *profile, const char *own, bool found,
                          struct rung_tuning *tuning)
{
	const char *first =
		profile->drives[0].name[0] ? profile->drives[0].name : "a drive without a name";

	if (found && tuning->drive_why[0] == 0)
		snprintf(tuning->drive_why, RUNG_WHY_BYTES, "the features are on this drive");
	else if (!found && own[0])
		snprintf(tuning->drive_why, RUNG_WHY_BYTES,
		         "the features are on %s, for which the profile has no reads; %s, its "
		         "first drive, is used instead",
		         own, first);
	else if (!found)
		snprintf(tuning->drive_why, RUNG_WHY_BYTES,
		         "the kernel does not name the drive of the features; %s, the first of the "
		         "profile, is used instead",
		         first);
}

/* By file, the drive whose rates represent it: its own, or else the first of the profile. */
static void choose_drives(const struct rung_plan *plan, const struct rung_profile *profile,
                          struct rung_tuning *tuning)
{
	tuning->drive_count = plan->file_count;
	for (uint32_t file = 0; file < plan->file_count; file++) {
		const uint32_t found = find_drive(profile, plan->drive_names[file]);

		tuning->drive_idx[file] = found < profile->drive_count ? found : 0;
		strcpy(tuning->drives[file], profile->drives[tuning->drive_idx[file]].name);
		explain_drive(profile, plan->drive_names[file], found < profile->drive_count,
		              tuning);
	}
}

/* Text of a rate with three digits: "812", "59.1 k", "3.10 M". */
static const char *rate_text(char text[RATE_BYTES], double rate)
{
	static const char *const units[] = { "", " k", " M", " G", " T" };
	unsigned unit = 0;

	/* a little below 1000, which would be printed with four digits */
	for (; rate >= 999.5 && unit + 1 < RUNG__ARRAY_LEN(units); unit++)
		rate /= 1000;
	snprintf(text, RATE_BYTES,
	         unit == 0      ? "%.0f%s"
	         : rate < 9.995 ? "%.2f%s"
	         : rate < 99.95 ? "%.1f%s"
	                        : "%.0f%s",
	         rate, units[unit]);
	return text;
}

/* ---- reads in flight ---- */

/*
 * The smallest depth that reaches nearly the highest rate.
 * @param most_out  the highest rate in reads per second, at any depth up to the largest measured
 *                  one
 */
static uint32_t knee(const struct rung__drive_reads *reads, uint64_t bytes, double *most_out)
{
	const uint32_t depth_max = RUNG__MIN(rung__read_depth_max(reads), RUNG__QUEUE_DEPTH_MAX);
	uint32_t depth = 1;

	*most_out = 0;
	for (uint32_t d = 1; d <= depth_max; d++)
		*most_out = RUNG__MAX(*most_out, 1e9 / rung__read_ns(reads, d, bytes));
	while (depth < depth_max && 1e9 / rung__read_ns(reads, depth, bytes) < NEARLY * *most_out)
		depth++;
	return depth;
}

static void choose_depth(const struct rung_plan *plan, const struct rung_profile *profile,
                         uint64_t read_bytes, struct rung_tuning *tuning)
{
	/* one depth for all files: that of the drive that needs the largest */
	for (uint32_t file = 0; file < plan->file_count; file++) {
		const struct rung__drive_reads reads =
			rung__drive_reads(profile, tuning->drive_idx[file]);
		char text[RATE_BYTES], most_text[RATE_BYTES];
		double most, rate;
		const uint32_t depth = knee(&reads, read_bytes, &most);

		if (depth <= tuning->queue_depth)
			continue;
		rate = 1e9 / rung__read_ns(&reads, depth, read_bytes);
		tuning->queue_depth = depth;
		snprintf(tuning->queue_depth_why, RUNG_WHY_BYTES,
		         "%s reads/s of %" PRIu64
		         " bytes, each of which takes %.3g us; with more in flight at most %s "
		         "reads/s",
		         rate_text(text, rate), read_bytes, depth / rate * 1e6,
		         rate_text(most_text, most));
	}
}

/* ---- threads that read ---- */

/* One number for all files: that of the fastest drive. */
static void choose_refill_threads(const struct rung_plan *plan, const struct rung_profile *profile,
                                  uint64_t read_bytes, struct rung_tuning *tuning)
{
	double rate = 0;
	char text[RATE_BYTES], thread_text[RATE_BYTES];

	for (uint32_t file = 0; file < plan->file_count; file++) {
		const struct rung__drive_reads reads =
			rung__drive_reads(profile, tuning->drive_idx[file]);

		rate = RUNG__MAX(rate,
		                 1e9 / rung__read_ns(&reads, tuning->queue_depth, read_bytes));
	}
	tuning->refill_threads = 1;
	while (tuning->refill_threads < REFILL_THREADS_MAX &&
	       rate > tuning->refill_threads * READS_PER_THREAD)
		tuning->refill_threads++;
	snprintf(tuning->refill_threads_why, RUNG_WHY_BYTES,
	         "the drive completes %s reads/s, a refill thread up to %s", rate_text(text, rate),
	         rate_text(thread_text, READS_PER_THREAD));
}

/* ---- bytes that a read skips ---- */

static void choose_merge_gap(const struct rung_plan *plan, const struct rung_profile *profile,
                             uint64_t read_bytes, struct rung_tuning *tuning)
{
	double gap = GAP_BYTES_MAX;
	uint64_t bytes;

	/* one gap for all files: that of the drive for which merging gains the least */
	for (uint32_t file = 0; file < plan->file_count; file++) {
		const struct rung__drive_reads reads =
			rung__drive_reads(profile, tuning->drive_idx[file]);
		const double byte_ns = rung__read_byte_ns(&reads, tuning->queue_depth),
			     read_ns = rung__read_ns(&reads, tuning->queue_depth, read_bytes);

		if (byte_ns == 0) {
			snprintf(tuning->merge_gap_why, RUNG_WHY_BYTES,
			         "the profile has reads of only one size: the cost of a byte is "
			         "measured when a store is opened");
			return;
		}
		if (file > 0 && read_ns / byte_ns - (double)read_bytes >= gap)
			continue;
		/* never below 0: reads of one row may already reach the highest bandwidth */
		gap = RUNG__MAX(read_ns / byte_ns - (double)read_bytes, 0);
		snprintf(tuning->merge_gap_why, RUNG_WHY_BYTES,
		         "another read of %" PRIu64
		         " bytes takes %.3g us, a long read %.3g us for each 1024 bytes",
		         read_bytes, read_ns / 1e3, byte_ns * 1.024);
	}
	/* reads are aligned, so only whole sectors of a gap count */
	bytes = rung__align_down((uint64_t)RUNG__MIN(gap, GAP_BYTES_MAX),
	                         RUNG__MAX(plan->sector_bytes, 1u));
	/* 0 would leave the gap to the measurement at open */
	tuning->merge_gap_bytes = bytes ? (uint32_t)bytes : RUNG_MERGE_GAP_NONE;
}

/* ---- threads that gather ---- */

/* Threads that saturate the memory of one node. The reason quotes the rates of the first node.
 * @return 0: the node was not measured with one core and with all cores */
static uint32_t threads_of(const struct rung_profile *profile, uint32_t node, uint64_t row_bytes,
                           struct rung_tuning *tuning)
{
	const double one = rung__row_ns(profile, RUNG__CORES_ONE, node, node, row_bytes),
		     all = rung__row_ns(profile, RUNG__CORES_ALL, node, node, row_bytes);
	const uint32_t cores = rung__row_threads(profile, node);
	char text[RATE_BYTES], all_text[RATE_BYTES];
	uint32_t threads = 1;

	if (one == 0 || all == 0)
		return 0;
	while (threads < cores && threads / one < NEARLY / all)
		threads++;
	if (tuning->threads == 0)
		snprintf(tuning->threads_why, RUNG_WHY_BYTES,
		         "a core of node %" PRIu32 " copies %s rows/s of %" PRIu64
		         " bytes, its %" PRIu32 " cores %s",
		         node, rate_text(text, 1e9 / one), row_bytes, cores,
		         rate_text(all_text, 1e9 / all));
	return threads;
}

/* Gather threads: the sum over all nodes whose CPUs may gather. If these are unknown or were not
 * measured, the threads of the fastest measured node. */
static void choose_threads(const struct rung_plan *plan, const struct rung_profile *profile,
                           struct rung_tuning *tuning)
{
	uint32_t nodes = 0, node;
	size_t length;

	if (plan->device.device != RUNG_DEVICE_CPU) {
		snprintf(tuning->threads_why, RUNG_WHY_BYTES, "a GPU gathers");
		return;
	}
	for (node = 0; node < RUNG_NODES_MAX; node++) {
		if (rung__nodes_have(&plan->cpu_nodes, node) &&
		    threads_of(profile, node, plan->row_bytes, tuning) > 0) {
			tuning->threads += threads_of(profile, node, plan->row_bytes, tuning);
			nodes++;
		}
	}
	if (nodes == 0 && rung__row_ns_near(profile, RUNG__CORES_ALL, plan->row_bytes, &node) > 0)
		tuning->threads = threads_of(profile, node, plan->row_bytes, tuning);
	if (tuning->threads == 0)
		snprintf(tuning->threads_why, RUNG_WHY_BYTES,
		         "the profile has no rates of rows by all cores of a node");
	length = strlen(tuning->threads_why);
	if (nodes > 1)
		snprintf(tuning->threads_why + length, RUNG_WHY_BYTES - length,
		         "; the same on each of %" PRIu32 " nodes", nodes);
}

void rung__plan_choose(const struct rung_plan *plan, const struct rung_profile *profile,
                       struct rung_tuning *tuning_out)
{
	const uint64_t read_bytes =
		/* a read of one row consists of whole sectors */
		rung__align_up(plan->row_bytes, RUNG__MAX(plan->sector_bytes, 1u));

	*tuning_out = (struct rung_tuning){ .drive_count = 0 };
	choose_threads(plan, profile, tuning_out);
	rung__interleave_explain(plan, tuning_out);
	if (profile->reads_count == 0) {
		snprintf(tuning_out->drive_why, RUNG_WHY_BYTES,
		         "the profile has no reads of a drive");
		return;
	}
	/* the gap needs the depth, and both need the drives */
	choose_drives(plan, profile, tuning_out);
	choose_depth(plan, profile, read_bytes, tuning_out);
	choose_refill_threads(plan, profile, read_bytes, tuning_out);
	choose_merge_gap(plan, profile, read_bytes, tuning_out);
}

const struct rung_tuning *rung_plan_tuning(const struct rung_plan *plan)
{
	return plan->has_choice ? &plan->tuning : NULL;
}
