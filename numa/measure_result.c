/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results of rung_numa_measure(): values from samples, and absent results.
 *
 * Each value is measured in the same way: the number of passes is calibrated until a region takes
 * opts.sample_seconds, then each sample times one region. Texts and samples are in the report's
 * arena, so results only point at them.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

/* Runs to find the number of passes. Each multiplies it by up to 1e6. */
#define CALIBRATIONS_MAX 4u
#define PROGRESS_UNITS   UINT64_C(1000) /* of a matrix */

int rung__measure_out_of_memory(void)
{
	return rung__fail(RUNG_E_NOMEM, "measuring: out of memory");
}

void rung__measure_step(struct rung__measuring *m, uint64_t total)
{
	m->done = 0;
	m->total = total;
}

/* The matrices differ in their number of values, but not as much in time: each is a thousand units
 * of the progress. */
int rung__measure_progress(struct rung__measuring *m)
{
	const uint64_t all = PROGRESS_UNITS * RUNG__MAX(m->matrix_count, (size_t)1),
		       part = RUNG__MIN(m->done, m->total) * PROGRESS_UNITS /
	                      RUNG__MAX(m->total, UINT64_C(1));

	if (m->opts.progress &&
	    m->opts.progress(m->opts.progress_ctx, m->step,
	                     RUNG__MIN(PROGRESS_UNITS * m->matrices_done + part, all), all))
		return rung__fail(RUNG_E_CANCELED, "measuring: canceled");
	return 0;
}

/* Append to the name of the step. */
static void add_text(struct rung__measuring *m, const char *format, ...)
{
	const size_t used = strlen(m->step);
	va_list args;

	va_start(args, format);
	vsnprintf(m->step + used, sizeof(m->step) - used, format, args);
	va_end(args);
}

/* "gather 512 bytes, node 0 -> 1", "nvme 4 KiB, depth 32" */
int rung__measure_next(struct rung__measuring *m, const struct rung_numa_result *like)
{
	const unsigned long long bytes = like->row_bytes;

	*m->step = 0;
	add_text(m, "%s", m->matrix_name);
	if (like->kind)
		add_text(m, " %s", like->kind);
	if (bytes)
		add_text(m, bytes % 1024 ? " %llu bytes" : " %llu KiB",
		         bytes % 1024 ? bytes : bytes / 1024);
	if (like->queue_depth)
		add_text(m, ", depth %u", like->queue_depth);
	if (like->memory_node >= 0 && like->cpu_node >= 0)
		add_text(m, ", node %d -> %d", like->cpu_node, like->memory_node);
	else if (like->memory_node >= 0)
		add_text(m, ", node %d", like->memory_node);
	return rung__measure_progress(m);
}

struct rung_numa_result rung__measure_blank(enum rung_numa_matrix matrix)
{
	return (struct rung_numa_result){
		.matrix = matrix,
		.cpu_node = -1,
		.memory_node = -1,
		.gpu = -1,
		.to_gpu = -1,
		.all_cores = -1,
		.placement_share = (double)NAN,
		.huge_share = (double)NAN,
		.of_copy = (double)NAN,
		.rows_in_flight = (double)NAN,
		.lines_in_flight = (double)NAN,
	};
}

/* Add a copy of `like` as the last result. Growing the array moves all results, so *result_out is
 * valid until the next call. The counter `done` may exceed an estimated total. */
static int add(struct rung__measuring *m, const struct rung_numa_result *like, uint32_t group,
               struct rung_numa_result **result_out)
{
	struct rung_numa_report *report = m->report;
	const size_t count = report->info.result_count;

	if (count == report->room) {
		const size_t room = report->room ? 2 * report->room : 64;
		struct rung__measure_entry *entries =
			rung__realloc_array(report->entries, room, sizeof(*entries));

		if (!entries)
			return rung__measure_out_of_memory();
		report->entries = entries;
		report->room = room;
	}
	report->entries[count] = (struct rung__measure_entry){ *like, group, (uint32_t)count };
	report->info.result_count++;
	*result_out = &report->entries[count].result;
	m->done++;
	return rung__measure_progress(m);
}

int rung__measure_absent(struct rung__measuring *m, const struct rung_numa_result *like,
                         uint32_t group, const char *why)
{
	struct rung_numa_result *result;
	/* `why` is often rung__measure_text() at the call, which is NULL without memory */
	int rc = why ? add(m, like, group, &result) : rung__measure_out_of_memory();

	if (rc == 0)
		result->absent = why;
	return rc;
}

int rung__measure_why(struct rung__measuring *m, int rc, const char **why_out)
{
	if (rc == RUNG_E_NOMEM)
		return rc;
	/* copied, because the next failure of this thread overwrites it */
	*why_out = rung__measure_text(m, "%s", rung_last_error());
	return *why_out ? 0 : rung__measure_out_of_memory();
}

const char *rung__measure_text(struct rung__measuring *m, const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	text = length < 0 ? NULL : rung__arena_alloc(&m->report->arena, (uint64_t)length + 1, 1);
	if (!text)
		return NULL;
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	return text;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct rung_numa_value rung__measure_value(const double *samples, size_t count, double *sorted)
{
	struct rung_numa_value value = { samples, count, (double)NAN, (double)NAN, (double)NAN };

	if (count == 0)
		return value;
	memcpy(sorted, samples, count * sizeof(*sorted)); /* samples stay in the order of time */
	qsort(sorted, count, sizeof(*sorted), by_size);
	value.min = sorted[0];
	value.max = sorted[count - 1];
	value.median =
		count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
	return value;
}

int rung__measure_samples(struct rung__measuring *m, size_t count, double **samples_out)
{
	*samples_out = rung__arena_alloc(&m->report->arena, count, sizeof(**samples_out));
	return *samples_out ? 0 : rung__measure_out_of_memory();
}

/* Set a value from seconds per pass. @param units  amount per pass; the value is units per second,
 * or with `inverse` seconds per unit */
static int set(struct rung__measuring *m, struct rung_numa_value *value, const double *seconds,
               double units, bool inverse)
{
	const uint32_t count = m->opts.samples;
	double *samples;
	int rc = rung__measure_samples(m, 2 * (size_t)count, &samples); /* with space for sorting */

	for (uint32_t i = 0; i < count && rc == 0; i++)
		samples[i] = inverse ? seconds[i] / units : units / seconds[i];
	if (rc == 0)
		*value = rung__measure_value(samples, count, samples + count);
	return rc;
}

int rung__measure_set_rate(struct rung__measuring *m, struct rung_numa_value *value,
                           const double *seconds, double units)
{
	return set(m, value, seconds, units, false);
}

int rung__measure_add_values(struct rung__measuring *m, const struct rung_numa_result *like,
                             uint32_t group, const double *seconds,
                             const struct rung__measure_pass *pass,
                             struct rung_numa_result **result_out)
{
	struct rung_numa_result *result;
	int rc = add(m, like, group, &result);

	if (rc == 0 && pass->bytes > 0)
		rc = set(m, &result->bytes_per_s, seconds, pass->bytes, false);
	if (rc == 0 && pass->items > 0)
		rc = set(m, &result->per_s, seconds, pass->items, false);
	if (rc == 0 && pass->hops > 0)
		rc = set(m, &result->latency_ns, seconds, pass->hops / 1e9, true); /* s to ns */
	if (rc == 0 && pass->gib > 0)
		rc = set(m, &result->seconds_per_gib, seconds, pass->gib, true);
	if (rc == 0 && result_out)
		*result_out = result;
	return rc;
}

int rung__measure_by_team(void *ctx, uint64_t passes, double *seconds_out)
{
	const struct rung__team_work *work = ctx;

	*seconds_out = rung__team_run(work->team, work->work, work->ctx, passes);
	return 0;
}

int rung__measure_calibrate(const struct rung__measuring *m, rung__run_fn run, void *ctx,
                            uint64_t *passes_out)
{
	const double aim = m->opts.sample_seconds;
	uint64_t passes = 1;
	double seconds = 0;
	/* warm-up, not used: caches, clock frequencies and page tables are not in their final
	 * state yet */
	int rc = run(ctx, 1, &seconds);

	for (unsigned tries = 0; tries < CALIBRATIONS_MAX && rc == 0; tries++) {
		rc = run(ctx, passes, &seconds);
		if (rc < 0 || seconds >= aim)
			break;
		/* 20 % more than needed, so that the next run is rarely too short by a little. The
		 * bounds keep a time of almost 0 from giving an infinite number. */
		passes = 1 + (uint64_t)((double)passes *
		                        RUNG__MIN(1.2 * aim / RUNG__MAX(seconds, 1e-7), 1e6));
	}
	*passes_out = passes;
	return rc;
}

int rung__measure_passes(struct rung__measuring *m, rung__run_fn run, void *ctx,
                         double **samples_out)
{
	uint64_t passes;
	int rc = rung__measure_samples(m, m->opts.samples, samples_out);

	if (rc == 0)
		rc = rung__measure_calibrate(m, run, ctx, &passes);
	for (uint32_t i = 0; i < m->opts.samples && rc == 0; i++) {
		rc = run(ctx, passes, &(*samples_out)[i]);
		(*samples_out)[i] /= (double)passes;
	}
	return rc;
}
