/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of a store, and the phrase that names its bottleneck. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output/rates.h"
#include "tool.h"

/* Less waiting is not worth more memory. */
#define WAITS 0.1

/* Counters grow, but a snapshot of a running store need not add up. */
static double grown(uint64_t before, uint64_t after)
{
	return after > before ? (double)(after - before) : 0;
}

static double share_of(double part, double whole)
{
	return whole > 0 ? fmin(part / whole, 1) : (double)NAN;
}

static const char *bottleneck(const struct tool_rates *rates, double cold, int reading)
{
	const int waits = rates->wait >= WAITS;

	/* the larger part of the time decides */
	if (waits && rates->wait_sample > rates->wait - rates->wait_sample)
		return "waits for sampling";
	if (waits && reading)
		return "waits for the drive";
	if (waits && (cold > 0 || rates->rows <= 0))
		return "waits for rows";
	if (rates->rows <= 0)
		return "idle: no rows are requested";
	return cold > 0 ? "the trainer computes; rows are ready" : "all rows come from memory";
}

static void add_source(struct tool_rates *rates, const char *name, double share)
{
	rates->sources[rates->source_count].name = name;
	rates->sources[rates->source_count++].share = share;
}

/* The last tier is that of the files: its hits include those of the cache. */
static void add_sources(const struct rung_store_stats *before, const struct rung_store_stats *after,
                        double rows, double *cold, struct tool_rates *out)
{
	double cached = grown(before->cache_hits, after->cache_hits);

	out->memory = rows > 0 ? 1 : (double)NAN;
	for (uint32_t t = 0; t < after->tier_count; t++) {
		const struct rung_tier_stats *tier = &after->tiers[t];
		const double hits = grown(before->tiers[t].hits, tier->hits);

		if (tier->rows == 0)
			continue;
		if (strcmp(tier->name, "nvme") != 0) {
			add_source(out, tier->name, share_of(hits, rows));
			continue;
		}
		*cold = hits;
		cached = fmin(cached, hits);
		if (after->cache_rows)
			add_source(out, "cache", share_of(cached, rows));
		add_source(out, tier->name, share_of(hits - cached, rows));
		out->memory = rows > 0 ? 1 - share_of(hits - cached, rows) : (double)NAN;
	}
}

void tool_rates_of(const struct rung_store_stats *before, const struct rung_store_stats *after,
                   double seconds, struct tool_rates *out)
{
	const double reads = grown(before->device_reads, after->device_reads),
		     read_s = grown(before->read_ns, after->read_ns) / 1e9;
	double rows = 0, bytes = 0, cold = 0;

	*out = (struct tool_rates){ .seconds = seconds };
	for (uint32_t t = 0; t < after->tier_count; t++) {
		rows += grown(before->tiers[t].hits, after->tiers[t].hits);
		bytes += grown(before->tiers[t].bytes, after->tiers[t].bytes);
	}
	out->rows = rows / seconds;
	out->row_bytes = bytes / seconds;
	out->reads = reads / seconds;
	out->read_bytes = grown(before->device_read_bytes, after->device_read_bytes) / seconds;
	/* Little's law; reads that have not completed yet are only seen in the current number */
	out->queue = reads > 0 ? read_s / seconds : (double)after->reads_in_flight;
	out->read_s = reads > 0 ? read_s / reads : (double)NAN;
	out->wait_sample =
		fmin(grown(before->wait_sample_ns, after->wait_sample_ns) / 1e9 / seconds, 1);
	out->wait = fmin(out->wait_sample +
	                         grown(before->wait_rows_ns, after->wait_rows_ns) / 1e9 / seconds,
	                 1);
	add_sources(before, after, rows, &cold, out);
	out->bottleneck = bottleneck(out, cold, reads > 0 || after->reads_in_flight > 0);
}

const char *tool_rates_line(char text[TOOL_RATES_BYTES], const struct tool_rates *rates)
{
	char rows[TOOL_TEXT_BYTES], reads[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES];
	char memory[TOOL_TEXT_BYTES] = "";

	if (!isnan(rates->memory))
		snprintf(memory, sizeof(memory), ", %.0f %% from memory", 100 * rates->memory);
	snprintf(text, TOOL_RATES_BYTES,
	         "%s rows/s%s; reads %s/s, %s/s, %.1f in flight; waits %.0f %%",
	         tool_count_text(rows, rates->rows), memory, tool_count_text(reads, rates->reads),
	         tool_bytes_text(bytes, rates->read_bytes), rates->queue, 100 * rates->wait);
	return text;
}
