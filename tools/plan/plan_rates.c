/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of rows and reads from a profile. The library has them for the plan of a dataset only, with
 * the drive of its files; without a dataset it is the first drive of the profile.
 */
#include <math.h>

#include "plan/plan_rates.h"

#define RATE_SHARE 0.95 /* of the highest rate, which a queue depth has to reach */

/* Time at a measured size. */
struct timing {
	double bytes, seconds; /* bytes 0: not measured */
};

/* Between two sizes the time is interpolated. Sizes below all that were measured have the time of
 * the smallest; those above have the bytes per second of the largest. */
static double between(struct timing low, struct timing high, double bytes)
{
	if (low.bytes == 0)
		return high.seconds;
	if (high.bytes == 0)
		return low.seconds * bytes / low.bytes;
	return low.seconds +
	       (high.seconds - low.seconds) * (bytes - low.bytes) / (high.bytes - low.bytes);
}

/* Entry `i` is a read of the first drive, of the size of entry `first`. */
static int is_of(const struct rung_profile *profile, uint32_t i, uint32_t first)
{
	return i < profile->reads_count && profile->reads[i].drive == 0 &&
	       profile->reads[i].read_bytes == profile->reads[first].read_bytes;
}

/* The first entry of the next size. */
static uint32_t next_size(const struct rung_profile *profile, uint32_t first)
{
	uint32_t i = first;

	while (is_of(profile, i, first))
		i++;
	return i;
}

/* Seconds per read at a depth, of the size of entry `first`. Between two depths the latency is
 * interpolated, which is the depth divided by the rate. */
static double seconds_at(const struct rung_profile *profile, uint32_t first, uint32_t depth)
{
	const struct rung_profile_reads *reads = profile->reads;
	uint32_t i = first;
	double latency, before;

	while (is_of(profile, i + 1, first) && reads[i].depth < depth)
		i++;
	if (reads[i].depth <= depth)
		return 1 / reads[i].reads_per_s;
	latency = reads[i].depth / reads[i].reads_per_s;
	if (i > first) {
		before = reads[i - 1].depth / reads[i - 1].reads_per_s;
		latency = before + (latency - before) * (depth - reads[i - 1].depth) /
		                           (reads[i].depth - reads[i - 1].depth);
	}
	return latency / depth;
}

double plan_read_seconds(const struct rung_profile *profile, uint32_t depth, double bytes)
{
	struct timing low = { 0 }, high = { 0 };
	uint32_t first = 0;

	while (is_of(profile, first, first) && high.bytes == 0) {
		const double size = (double)profile->reads[first].read_bytes;

		*(size < bytes ? &low : &high) =
			(struct timing){ size, seconds_at(profile, first, depth) };
		first = next_size(profile, first);
	}
	return between(low, high, bytes);
}

uint32_t plan_read_depth(const struct rung_profile *profile, uint64_t bytes)
{
	uint32_t first = 0, i;
	double most = 0;

	if (profile->reads_count == 0)
		return 0;
	while (profile->reads[first].read_bytes < bytes &&
	       (i = next_size(profile, first), is_of(profile, i, i)))
		first = i;
	for (i = first; is_of(profile, i, first); i++)
		most = fmax(most, profile->reads[i].reads_per_s);
	for (i = first; profile->reads[i].reads_per_s < RATE_SHARE * most; i++)
		;
	return profile->reads[i].depth;
}

/* Seconds per row of one core of a node, or of all its cores, with rows in its own memory; 0: not
 * measured. */
static double node_row_seconds(const struct rung_profile *profile, int all_cores, uint32_t node,
                               uint64_t row_bytes, uint32_t *threads_out)
{
	struct timing low = { 0 }, high = { 0 };

	for (uint32_t i = 0; i < profile->rows_count && high.bytes == 0; i++) {
		const struct rung_profile_rows *rows = &profile->rows[i];

		if (!rows->all_cores != !all_cores || rows->cpu_node != node ||
		    rows->memory_node != node)
			continue;
		*(rows->row_bytes < row_bytes ? &low : &high) =
			(struct timing){ (double)rows->row_bytes, 1 / rows->rows_per_s };
		*threads_out = rows->threads;
	}
	return between(low, high, (double)row_bytes);
}

/* The least over the nodes; 0: not measured. */
static double least_row_seconds(const struct rung_profile *profile, int all_cores,
                                uint64_t row_bytes, uint32_t *threads_out)
{
	double least = 0;

	for (uint32_t i = 0; i < profile->rows_count; i++) {
		uint32_t threads = 1;
		const double seconds = node_row_seconds(
			profile, all_cores, profile->rows[i].cpu_node, row_bytes, &threads);

		if (seconds > 0 && (least == 0 || seconds < least)) {
			least = seconds;
			*threads_out = threads;
		}
	}
	return least;
}

double plan_row_seconds(const struct rung_profile *profile, uint32_t threads, uint64_t row_bytes,
                        uint32_t *threads_out)
{
	uint32_t all_threads = 1, one_thread = 1;
	const double all = least_row_seconds(profile, 1, row_bytes, &all_threads),
		     one = least_row_seconds(profile, 0, row_bytes, &one_thread);

	*threads_out = threads ? threads : all > 0 ? all_threads : 1;
	if (threads == 0 && all > 0)
		return all;
	/* more threads do not exceed the bandwidth that all cores reach */
	return fmax(one / *threads_out, all);
}
