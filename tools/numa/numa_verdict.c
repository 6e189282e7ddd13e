/* SPDX-License-Identifier: Apache-2.0 */
/* What the results mean for reading rows, in a few sentences. */
#include "numa/numa_results.h"

#include <math.h>

#define ROW_BYTES 1024u
#define REACHES   0.95 /* of the highest rate: a larger depth only adds latency */

/* Mean of the medians of reads by all cores: near (CPUs and memory of one node) or not. NaN: not
 * measured. */
static double mean_read(const struct numa_measured *measured, int near)
{
	const struct rung_numa_result *result;
	double sum = 0;
	size_t count = 0;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if (numa_is_of(result, RUNG_NUMA_BANDWIDTH, "read", 0) && result->all_cores > 0 &&
		    (result->cpu_node == result->memory_node) == near) {
			sum += result->bytes_per_s.median;
			count++;
		}
	}
	return count ? sum / (double)count : NAN;
}

static void print_remote(const struct numa_measured *measured)
{
	const double near = mean_read(measured, 1), far = mean_read(measured, 0);
	char a[TOOL_TEXT_BYTES], b[TOOL_TEXT_BYTES];

	if (isnan(near))
		return;
	if (isnan(far))
		printf("All cores of a node read its memory at %s GB/s.\n",
		       numa_digits(a, near / 1e9));
	else
		printf("Remote reads cost %.1f x: all cores of a node read %s GB/s from near "
		       "memory, %s from far memory.\n",
		       near / far, numa_digits(a, near / 1e9), numa_digits(b, far / 1e9));
}

/* One core and rows of 1 KiB, near: the rate that a gathering thread reaches. */
static void print_gather(const struct numa_measured *measured)
{
	const struct rung_numa_result *result;
	char text[TOOL_TEXT_BYTES];

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if (!numa_is_of(result, RUNG_NUMA_GATHER, NULL, 0) || result->all_cores != 0 ||
		    result->row_bytes != ROW_BYTES || result->cpu_node != result->memory_node)
			continue;
		printf("One core gathers 1 KiB rows at %s GB/s",
		       numa_digits(text, result->bytes_per_s.median / 1e9));
		if (isfinite(result->of_copy))
			printf(", %.2f of its copy", result->of_copy);
		printf(".\n");
		return;
	}
}

/* The highest rate of each drive and the smallest depth that nearly reaches it. */
static void print_peaks(const struct numa_measured *measured)
{
	const struct rung_numa_result *result, *other, *best;
	char text[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES];
	size_t depth_count, count = 1;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i += count) {
		uint32_t depth;

		count = 1;
		if (!numa_is_of(result, RUNG_NUMA_NVME, NULL, 0))
			continue;
		count = numa_count_reads(measured, i, &depth_count);
		best = result;
		for (size_t j = i; j < i + count; j++) {
			other = numa_result(measured, j);
			best = other->per_s.median > best->per_s.median ? other : best;
		}
		depth = best->queue_depth;
		for (size_t j = i; j < i + count; j++) {
			other = numa_result(measured, j);
			if (other->row_bytes == best->row_bytes && other->queue_depth < depth &&
			    other->per_s.median >= REACHES * best->per_s.median)
				depth = other->queue_depth;
		}
		tool_wrap(2, "%s peaks at %s k reads/s of %s, from depth %u.",
		          best->drive ? best->drive : best->file,
		          numa_digits(text, best->per_s.median / 1000),
		          tool_bytes_text(bytes, (double)best->row_bytes), depth);
	}
}

void numa_verdict_print(const struct numa_measured *measured)
{
	if (!numa_any_value(measured, RUNG_NUMA_ALL))
		return;
	putchar('\n');
	print_remote(measured);
	print_gather(measured);
	print_peaks(measured);
	if (measured->info.quick)
		printf("Next, for plans: rung numa --json > machine.json\n");
	else
		printf("Next: rung plan DIR --profile machine.json, with the file of rung numa "
		       "--json\n");
}
