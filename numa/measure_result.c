/* SPDX-License-Identifier: Apache-2.0 */
/* Results of rung_numa_measure(): values out of samples, and what is absent. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define CALIBRATIONS_MAX 4u

static const struct {
	enum rung_numa_matrix matrix;
	const char *name;
} names[] = {
	{ RUNG_NUMA_BANDWIDTH, "bandwidth" }, { RUNG_NUMA_LATENCY, "latency" },
	{ RUNG_NUMA_LOADED, "loaded" },	      { RUNG_NUMA_GATHER, "gather" },
	{ RUNG_NUMA_GPU, "gpu" },	      { RUNG_NUMA_PEER, "peer" },
	{ RUNG_NUMA_NVME, "nvme" },	      { RUNG_NUMA_TOUCH, "touch" },
	{ RUNG_NUMA_REGISTER, "register" },
};

const char *rung_numa_matrix_name(enum rung_numa_matrix matrix)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++) {
		if (names[i].matrix == matrix)
			return names[i].name;
	}
	return NULL;
}

static int no_memory(void)
{
	return rung__fail(RUNG_E_NOMEM, "measuring: out of memory");
}

void rung__measure_step(struct rung__measuring *m, enum rung_numa_matrix matrix, uint64_t total)
{
	m->step = rung_numa_matrix_name(matrix);
	m->done = 0;
	m->total = total;
}

static int tell(struct rung__measuring *m)
{
	if (m->opts.progress && m->opts.progress(m->opts.progress_ctx, m->step, m->done, RUNG__MAX(m->done, m->total)))
		return rung__fail(RUNG_E_CANCELED, "measuring: canceled");
	return 0;
}

struct rung_numa_result rung__measure_blank(enum rung_numa_matrix matrix)
{
	return (struct rung_numa_result){
		.matrix = matrix, .cpu_node = -1, .memory_node = -1, .gpu = -1, .to_gpu = -1, .all_cores = -1,
		.placed_share = (double)NAN, .huge_share = (double)NAN, .of_copy = (double)NAN, .rows_in_flight = (double)NAN,
		.lines_in_flight = (double)NAN,
	};
}

int rung__measure_add(struct rung__measuring *m, const struct rung_numa_result *like, uint32_t group, struct rung_numa_result **result_out)
{
	struct rung_numa_report *report = m->report;
	const size_t count = report->info.result_count;

	if (count == report->room) {
		const size_t room = report->room ? 2 * report->room : 64;
		struct rung__measure_entry *entries = rung__realloc_array(report->entries, room, sizeof(*entries));

		if (!entries)
			return no_memory();
		report->entries = entries;
		report->room = room;
	}
	report->entries[count] = (struct rung__measure_entry){ *like, group, (uint32_t)count };
	report->info.result_count++;
	*result_out = &report->entries[count].result;
	m->done++;
	return tell(m);
}

int rung__measure_absent(struct rung__measuring *m, const struct rung_numa_result *like, uint32_t group, const char *why)
{
	struct rung_numa_result *result;
	int rc = why ? rung__measure_add(m, like, group, &result) : no_memory();

	if (rc == 0)
		result->absent = why;
	return rc;
}

const char *rung__measure_text(struct rung__measuring *m, const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	text = length < 0 ? NULL : rung__arena_take(&m->report->arena, (uint64_t)length + 1, 1);
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
	memcpy(sorted, samples, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), by_size);
	value.min = sorted[0];
	value.max = sorted[count - 1];
	value.median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
	return value;
}

int rung__measure_set(struct rung__measuring *m, struct rung_numa_value *value, const double *seconds, double units, bool inverse)
{
	const uint32_t count = m->opts.samples;
	double *samples = rung__arena_take(&m->report->arena, count, sizeof(*samples));
	double *sorted = rung__malloc_array(count, sizeof(*sorted));

	if (!samples || !sorted) {
		rung__free(sorted);
		return no_memory();
	}
	for (uint32_t i = 0; i < count; i++)
		samples[i] = inverse ? seconds[i] / units : units / seconds[i];
	*value = rung__measure_value(samples, count, sorted);
	rung__free(sorted);
	return 0;
}

uint64_t rung__measure_calibrate(const struct rung__measuring *m, struct rung__team *team, rung__work_fn work, void *ctx)
{
	uint64_t passes = 1;

	rung__team_run(team, work, ctx, 1);   /* dropped: caches, frequencies and page tables are not yet as they will be */
	for (unsigned tries = 0; tries < CALIBRATIONS_MAX; tries++) {
		const double seconds = rung__team_run(team, work, ctx, passes);

		if (seconds >= m->opts.sample_seconds)
			break;
		passes = (uint64_t)((double)passes * RUNG__MIN(1.2 * m->opts.sample_seconds / RUNG__MAX(seconds, 1e-7), 1e6)) + 1;
	}
	return passes;
}

int rung__measure_passes(struct rung__measuring *m, struct rung__team *team, rung__work_fn work, void *ctx, double **samples_out)
{
	double *samples = rung__arena_take(&m->report->arena, m->opts.samples, sizeof(*samples));
	uint64_t passes;

	if (!samples)
		return no_memory();
	passes = rung__measure_calibrate(m, team, work, ctx);
	for (uint32_t i = 0; i < m->opts.samples; i++)
		samples[i] = rung__team_run(team, work, ctx, passes) / (double)passes;
	*samples_out = samples;
	return 0;
}
