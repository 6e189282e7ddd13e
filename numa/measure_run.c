/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of rung_numa_measure(): options, the order of the matrices, and the report.
 *
 * Wrong options and files are reported before anything is measured. The report owns all memory of
 * its results, so the topology may be destroyed before it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "measure.h"

/* defaults and limits of the options; seconds are the least length of a timed region */
#define SAMPLES              5u
#define SAMPLES_QUICK        3u
#define SAMPLES_MAX          1000u
#define SAMPLE_SECONDS       0.2
#define SAMPLE_SECONDS_QUICK 0.05
#define SAMPLE_SECONDS_MAX   60.0
#define ROW_BYTES_MIN        4u
#define ROW_BYTES_MAX        (1u << 20)

/* In the order of measuring. Gathers come after latencies, from which they compute the rows in
 * flight. */
static const struct {
	enum rung_numa_matrix matrix;
	const char *name; /* name in options, JSON and progress */
	int (*measure)(struct rung__measuring *m);
} matrices[] = {
	{ RUNG_NUMA_BANDWIDTH, "bandwidth", rung__measure_bandwidth },
	{ RUNG_NUMA_LATENCY, "latency", rung__measure_latency },
	{ RUNG_NUMA_LOADED, "loaded", rung__measure_loaded },
	{ RUNG_NUMA_GATHER, "gather", rung__measure_gather },
	{ RUNG_NUMA_GPU, "gpu", rung__measure_gpu },
	{ RUNG_NUMA_PEER, "peer", rung__measure_peer },
	{ RUNG_NUMA_NVME, "nvme", rung__measure_nvme },
	{ RUNG_NUMA_TOUCH, "touch", rung__measure_touch },
	{ RUNG_NUMA_REGISTER, "register", rung__measure_register },
};

const char *rung_numa_matrix_name(enum rung_numa_matrix matrix)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(matrices); i++) {
		if (matrices[i].matrix == matrix)
			return matrices[i].name;
	}
	return NULL;
}

/* ---- one call ---- */

/* queue depths of drives */
static const uint32_t depths[] = { 1, 2, 4, 8, 16, 32, 64, 128 };
static const uint32_t depths_quick[] = { 1, 8, 32, 128 };

/* Copy the caller's options, check them and fill in defaults. Lists are not copied: the call
 * borrows them until it returns. */
static int copy_opts(const struct rung_numa_measure_opts *given,
                     struct rung_numa_measure_opts *opts)
{
	int rc = rung__opts_copy_in(opts, sizeof(*opts), given, "rung_numa_measure_opts");

	if (rc < 0)
		return rc;
	if (opts->matrices & ~(uint32_t)RUNG_NUMA_ALL)
		return rung__fail(RUNG_E_INVAL,
		                  "measuring: matrices 0x%" PRIx32
		                  " are out of range; the largest value is 0x%x",
		                  opts->matrices, (unsigned)RUNG_NUMA_ALL);
	if (opts->samples > SAMPLES_MAX)
		return rung__fail(RUNG_E_INVAL, "measuring: %" PRIu32 " samples; use at most %u",
		                  opts->samples, SAMPLES_MAX);
	/* written so that NaN is refused, too */
	if (!(opts->sample_seconds >= 0 && opts->sample_seconds <= SAMPLE_SECONDS_MAX))
		return rung__fail(
			RUNG_E_INVAL,
			"measuring: timed regions of %g s; use more than 0 and at most %g",
			opts->sample_seconds, SAMPLE_SECONDS_MAX);
	if (opts->row_count > RUNG__MEASURE_ROWS_MAX || (opts->row_count && !opts->row_bytes))
		return rung__fail(RUNG_E_INVAL,
		                  "measuring: %zu row sizes; use a list of at most %u",
		                  opts->row_count, RUNG__MEASURE_ROWS_MAX);
	for (size_t i = 0; i < opts->row_count; i++) {
		if (opts->row_bytes[i] < ROW_BYTES_MIN || opts->row_bytes[i] > ROW_BYTES_MAX)
			return rung__fail(RUNG_E_INVAL,
			                  "measuring: rows of %" PRIu32 " bytes; use %u to %u",
			                  opts->row_bytes[i], ROW_BYTES_MIN, ROW_BYTES_MAX);
	}
	if (opts->depth_count > RUNG__MEASURE_ROWS_MAX ||
	    (opts->depth_count == 0) != (opts->depths == NULL))
		return rung__fail(RUNG_E_INVAL,
		                  "measuring: %zu queue depths; use a list of 1 to %u, or no list",
		                  opts->depth_count, RUNG__MEASURE_ROWS_MAX);
	for (size_t i = 0; i < opts->depth_count; i++) {
		if (opts->depths[i] < 1 || opts->depths[i] > RUNG__MEASURE_DEPTH_MAX)
			return rung__fail(RUNG_E_INVAL,
			                  "measuring: %" PRIu32 " reads in flight; use 1 to %u",
			                  opts->depths[i], RUNG__MEASURE_DEPTH_MAX);
	}
	for (size_t i = 0; i < opts->file_count; i++) {
		if (!opts->files || !opts->files[i])
			return rung__fail(RUNG_E_INVAL, "measuring: file %zu of %zu is NULL", i,
			                  opts->file_count);
	}
	opts->matrices = opts->matrices ? opts->matrices : (uint32_t)RUNG_NUMA_ALL;
	opts->samples = opts->samples ? opts->samples : opts->quick ? SAMPLES_QUICK : SAMPLES;
	if (!opts->depths) {
		opts->depths = opts->quick ? depths_quick : depths;
		opts->depth_count =
			opts->quick ? RUNG__ARRAY_LEN(depths_quick) : RUNG__ARRAY_LEN(depths);
	}
	if (opts->sample_seconds <= 0)
		opts->sample_seconds = opts->quick ? SAMPLE_SECONDS_QUICK : SAMPLE_SECONDS;
	return 0;
}

/* Read the machine and choose sizes; nothing is measured yet. Latencies are NaN until they are
 * measured. */
static int prepare(struct rung__measuring *m)
{
	struct rung_topology_info info = { .size = sizeof(info) };
	struct rung_numa_report_info *about = &m->report->info;
	int rc;

	rung_topology_info(m->topology, &info);
	m->node_count = info.node_count;
	about->size = sizeof(*about);
	about->matrices = m->opts.matrices;
	about->quick = m->opts.quick != 0;
	about->samples = m->opts.samples;
	about->sample_seconds = m->opts.sample_seconds;
	m->nodes = rung__zalloc_array(m->node_count, sizeof(*m->nodes));
	m->latency_ns =
		rung__zalloc_array((uint64_t)m->node_count * m->node_count, sizeof(*m->latency_ns));
	if (!m->nodes || !m->latency_ns)
		return rung__measure_out_of_memory();
	for (size_t i = 0; i < m->node_count * m->node_count; i++)
		m->latency_ns[i] = (double)NAN;
	rc = rung__measure_machine(m);
	/* one node shows whether this process may bind memory at all */
	for (size_t i = 0; i < m->node_count && rc == 0; i++) {
		if (m->nodes[i].node->has_memory && m->nodes[i].node->memory_allowed != 0) {
			m->policy.size = sizeof(m->policy);
			rc = rung_numa_probe_policy(m->nodes[i].node->node, &m->policy);
			break;
		}
	}
	if (rc < 0)
		return rc;
	rung__measure_sizes(m);
	return 0;
}

/* Order of the results: by matrix, group, CPU node, memory node. They are measured in a different
 * order, because memory is allocated once for all CPU nodes. */
static int by_nodes(const void *a, const void *b)
{
	const struct rung__measure_entry *x = a, *y = b;

	if (x->result.matrix != y->result.matrix)
		return x->result.matrix < y->result.matrix ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->result.cpu_node != y->result.cpu_node)
		return x->result.cpu_node < y->result.cpu_node ? -1 : 1;
	if (x->result.memory_node != y->result.memory_node)
		return x->result.memory_node < y->result.memory_node ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

/* Measure all requested matrices, then sort the results. */
static int measure(struct rung__measuring *m)
{
	struct rung_numa_report *report = m->report;
	const uint64_t begin_ns = rung__now_ns();
	int rc = prepare(m);

	m->matrix_count = (size_t)__builtin_popcount(m->opts.matrices);
	report->info.began_s = (int64_t)time(NULL);
	if (rc == 0 && (m->opts.matrices & RUNG_NUMA_NVME))
		rc = rung__measure_nvme_check(m);
	for (size_t i = 0; i < RUNG__ARRAY_LEN(matrices) && rc == 0; i++) {
		if (!(m->opts.matrices & (uint32_t)matrices[i].matrix))
			continue;
		m->matrix_name = matrices[i].name;
		snprintf(m->step, sizeof(m->step), "%s", m->matrix_name);
		rc = matrices[i].measure(m);
		m->matrices_done++;
	}
	if (rc == 0)
		qsort(report->entries, report->info.result_count, sizeof(*report->entries),
		      by_nodes);
	report->info.seconds = (double)(rung__now_ns() - begin_ns) / 1e9;
	return rc;
}

int rung__numa_measure(const char *root, const struct rung_topology *topology,
                       const struct rung_numa_measure_opts *opts,
                       struct rung_numa_report **report_out)
{
	struct rung__measuring m = { .root = root, .topology = topology };
	int rc = copy_opts(opts, &m.opts);

	if (rc < 0)
		return rc;
	m.report = rung__zalloc(sizeof(*m.report));
	if (!m.report)
		return rung__measure_out_of_memory();
	rc = measure(&m);
	/* these serve measuring only; the report keeps the arena */
	rung__free(m.nodes);
	rung__free(m.latency_ns);
	if (rc < 0) {
		rung_numa_report_destroy(m.report);
		return rc;
	}
	*report_out = m.report;
	return 0;
}

int rung_numa_measure(const struct rung_topology *topology,
                      const struct rung_numa_measure_opts *opts,
                      struct rung_numa_report **report_out)
{
	return rung__numa_measure("", topology, opts, report_out);
}

int rung_numa_report_info(const struct rung_numa_report *report,
                          struct rung_numa_report_info *info_out)
{
	return rung__opts_copy_out(info_out, &report->info, sizeof(report->info),
	                           "rung_numa_report_info");
}

const struct rung_numa_result *rung_numa_report_result(const struct rung_numa_report *report,
                                                       size_t idx)
{
	return idx < report->info.result_count ? &report->entries[idx].result : NULL;
}

void rung_numa_report_destroy(struct rung_numa_report *report)
{
	if (!report)
		return;
	rung__arena_free(&report->arena);
	rung__free(report->entries);
	rung__free(report);
}
