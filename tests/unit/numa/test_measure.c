/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring a machine: placement of memory, huge pages, sizes of arrays and tables, whole calls,
 * and rejected options. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset.h"
#include "machine.h"
#include "measure.h"
#include "placement/placement.h"
#include "refuse.h"
#include "rung/rung.h"

/* ---- placement of memory ---- */

static struct rung_topology *this_machine(void)
{
	struct rung_topology *topology;

	cr_assert_eq(rung_topology_load(NULL, &topology), 0, "%s", rung_last_error());
	return topology;
}

/* A node with memory and with a CPU that this process may use, or -1. */
static int own_node(const struct rung_topology *topology)
{
	const struct rung_topology_node *node;

	for (size_t i = 0; (node = rung_topology_node(topology, i)) != NULL; i++) {
		if (node->has_memory && node->memory_allowed != 0 && node->cpus_allowed.count)
			return (int)node->node;
	}
	return -1;
}

Test(measure, memory_placed_on_a_node_is_found_there)
{
	struct rung_topology *topology = this_machine();
	const uint64_t bytes = 8u << 20;
	unsigned char *memory = rung__map_pages(bytes);
	int node = own_node(topology), err = 0;
	double share;

	if (node < 0)
		cr_skip("no node has both memory and a CPU for this process");
	cr_assert(isnan(rung__placement_share(memory, bytes, (uint32_t)node, &err)),
	          "untouched memory is on no node");
	cr_assert_neq(err, 0);
	err = rung__placement_prefer(memory, bytes, (uint32_t)node);
	if (err)
		cr_skip("mbind: %s", strerror(err));
	memset(memory, 1, bytes);
	share = rung__placement_share(memory, bytes, (uint32_t)node, &err);
	if (err)
		cr_skip("move_pages: %s", strerror(err));
	cr_assert_geq(share, 0.95);
	cr_assert_eq(rung__placement_share(memory, bytes, RUNG_NODES_MAX - 1, &err), 0,
	             "the memory must be on no other node");
	cr_assert_neq(rung__placement_prefer(memory, bytes, RUNG_NODES_MAX - 1), 0,
	              "no known machine has such a node");
	rung__unmap_pages(memory, bytes);
	rung_topology_destroy(topology);
}

/* ---- huge pages ---- */

static double huge_share(const char *path, uintptr_t at, uint64_t bytes)
{
	struct rung__mapped mapped = { .at = (const unsigned char *)at, .bytes = bytes };

	rung__mapped_query(path, &mapped, 1);
	return mapped.reported ? (double)mapped.huge_bytes / (double)bytes : -1;
}

Test(measure, huge_pages_are_those_of_the_mapping)
{
	char path[] = "/tmp/rung-smaps-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");

	fputs("1000-3000 rw-p 00000000 00:00 0 \nSize:  8 kB\nAnonHugePages:      8 kB\n"
	      "400000-c00000 rw-p 00000000 00:00 0  [heap]\nSize:               8192 kB\n"
	      "Rss: 5 kB\nAnonHugePages:      2048 kB\n"
	      "c00000-d00000 rw-p 00000000 00:00 0 \nSize:               1024 kB\n",
	      file);
	fclose(file);
	cr_assert_eq(huge_share(path, 0x400000, 0x800000), 0.25);
	cr_assert_eq(huge_share(path, 0xbff000, 0x1000), 0.25, "a part of a mapping");
	cr_assert_eq(huge_share(path, 0x1000, 0x2000), 1);
	cr_assert_eq(huge_share(path, 0xc00000, 0x1000), -1, "the kernel does not report it");
	cr_assert_eq(huge_share(path, 0x3000, 0x1000), -1, "in no mapping");
	cr_assert_eq(huge_share("/nonexistent", 0x1000, 0x2000), -1);
	unlink(path);
}

/* ---- sizes ---- */

/* sizes of the last-level cache in bytes; 0: unknown */
static const uint64_t caches[] = { 0, UINT64_C(1) << 20, UINT64_C(260) << 20, UINT64_C(1) << 30 };

/* A machine with two nodes, of which the second has less free memory. */
static struct rung_topology *nodes_with(uint64_t first_kib, uint64_t second_kib)
{
	struct rung_topology *topology;
	char root[256];

	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	support_put(root, "/sys/devices/system/cpu/online", "0\n");
	support_put(root, "/sys/devices/system/node/online", "0-1\n");
	support_put_node(root, 0, "0\n", first_kib, first_kib);
	support_put_node(root, 1, "\n", second_kib, second_kib);
	cr_assert_eq(rung_topology_load(root, &topology), 0, "%s", rung_last_error());
	support_remove(root);
	return topology;
}

static void choose(struct rung__measuring *m, struct rung__measure_node nodes[2], uint64_t cache,
                   uint32_t cores, const struct rung_numa_measure_opts *opts)
{
	*m = (struct rung__measuring){
		.topology = m->topology, .opts = *opts, .nodes = nodes, .node_count = 2
	};
	for (size_t i = 0; i < 2; i++) {
		nodes[i] =
			(struct rung__measure_node){ .node = rung_topology_node(m->topology, i) };
		nodes[i].core_count = i == 0 ? cores : 0;
		nodes[i].cache_bytes = i == 0 ? cache : 0;
	}
	rung__measure_sizes(m);
}

Test(measure, arrays_and_tables_fit_in_memory_whatever_the_caches)
{
	static const uint32_t rows[] = { 4, 4096, 65536 };
	static const uint32_t cores[] = { 1, 2, 64 };
	struct rung__measuring m = { .topology = nodes_with(1 << 20, 16 << 20) };

	for (size_t c = 0; c < RUNG__ARRAY_LEN(caches) * RUNG__ARRAY_LEN(cores); c++) {
		for (size_t r = 0; r < 2 * RUNG__ARRAY_LEN(rows); r++) {
			struct rung_numa_measure_opts opts = RUNG_NUMA_MEASURE_OPTS_INIT;
			const uint64_t cache = caches[c / RUNG__ARRAY_LEN(cores)];
			struct rung__measure_node nodes[2];

			opts.quick = r % 2;
			opts.row_bytes = &rows[r / 2];
			opts.row_count = 1;
			choose(&m, nodes, cache, cores[c % RUNG__ARRAY_LEN(cores)], &opts);
			cr_assert_geq(m.array_bytes_advised, 2 * cache);
			for (size_t i = 0; i < 2; i++) {
				const uint64_t array = nodes[i].array_bytes;
				const uint64_t table = nodes[i].table_bytes;
				const uint64_t room = rung__measure_available(&m, i);

				cr_assert_eq(array % RUNG__MEASURE_HUGE_BYTES, 0);
				cr_assert_geq(array, 16u << 20);
				cr_assert_geq(table, 2 * array);
				cr_assert_leq(table + array + rung__measure_ids_bytes(&m, array),
				              room, "%lu + %lu of %lu", (unsigned long)table,
				              (unsigned long)array, (unsigned long)room);
				cr_assert_leq(m.gpu_sizes.table_bytes, room);
				if (room > 8 * m.array_bytes_advised)
					cr_assert_geq(array, m.array_bytes_advised,
					              "there is memory for the advised size");
			}
		}
	}
	rung_topology_destroy((struct rung_topology *)m.topology);
}

Test(measure, a_nearly_full_node_shrinks_only_its_own_arrays)
{
	const struct rung_numa_measure_opts opts = RUNG_NUMA_MEASURE_OPTS_INIT;
	struct rung__measuring m = { .topology = nodes_with(64 << 20, 300 << 10) };
	struct rung__measure_node nodes[2];

	choose(&m, nodes, UINT64_C(260) << 20, 8, &opts);
	cr_assert_eq(nodes[0].array_bytes, UINT64_C(4 * 260) << 20);
	cr_assert_eq(nodes[0].table_bytes, UINT64_C(2 * 4 * 260) << 20);
	cr_assert_leq(3 * nodes[1].array_bytes, UINT64_C(150) << 20);
	rung_topology_destroy((struct rung_topology *)m.topology);
}

/* ---- whole calls ---- */

static struct rung_numa_measure_opts small(uint32_t matrices)
{
	struct rung_numa_measure_opts opts = RUNG_NUMA_MEASURE_OPTS_INIT;

	opts.matrices = matrices;
	opts.quick = 1;
	opts.samples = 1;
	opts.sample_seconds = 1e-4;
	opts.memory_bytes_max = 80u << 20; /* independent of the machine's caches */
	return opts;
}

static struct rung_numa_report *measured(const struct rung_topology *topology,
                                         const struct rung_numa_measure_opts *opts)
{
	struct rung_numa_report *report = NULL;

	cr_assert_eq(rung_numa_measure(topology, opts, &report), 0, "%s", rung_last_error());
	return report;
}

Test(measure, a_container_that_refuses_placement_is_measured_by_first_touch)
{
	const struct rung_numa_measure_opts opts = small(RUNG_NUMA_LATENCY | RUNG_NUMA_TOUCH);
	struct rung_topology *topology = this_machine();
	const struct rung_numa_result *result;
	struct rung_numa_report *report;
	int node = own_node(topology), count = 0;

	if (node < 0)
		cr_skip("no node has both memory and a CPU for this process");
	if (!refuse_placement())
		cr_skip("seccomp is not available: %s", strerror(errno));
	report = measured(topology, &opts);
	for (size_t i = 0; (result = rung_numa_report_result(report, i)) != NULL; i++) {
		cr_assert(isnan(result->placement_share), "permission denied");
		if (result->memory_node == node && result->cpu_node == node && !result->absent)
			count++;
		else if (result->absent && result->cpu_node == node &&
		         strstr(result->absent, "cannot be put"))
			cr_assert(strstr(result->absent, "mbind: ") &&
			                  strstr(result->absent, strerror(EPERM)),
			          "%s", result->absent);
	}
	cr_assert_gt(count, 0, "memory near the process's CPUs needs no placement");
	rung_numa_report_destroy(report);
	rung_topology_destroy(topology);
}

static uint64_t put_cache(const char *root, uint64_t bytes)
{
	char name[100], text[50];

	snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu%u/cache/index0/level",
	         support_first_cpu());
	support_put(root, name, "3\n");
	snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu%u/cache/index0/size",
	         support_first_cpu());
	snprintf(text, sizeof(text), "%luK\n", (unsigned long)(bytes >> 10));
	support_put(root, name, bytes ? text : "\n");
	return bytes ? RUNG__MAX(2 * bytes, 16u << 20) : 64u << 20;
}

Test(measure, caches_larger_than_memory_make_tables_smaller_than_advised)
{
	struct rung_numa_measure_opts opts =
		small(RUNG_NUMA_BANDWIDTH | RUNG_NUMA_LATENCY | RUNG_NUMA_GATHER);
	struct rung_topology *topology = this_machine();
	const uint64_t memory = UINT64_C(100) << 20;
	const int node = own_node(topology);
	char root[256];

	if (node < 0)
		cr_skip("no node has both memory and a CPU for this process");
	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	opts.memory_bytes_max = memory;
	opts.threads_max = 1;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(caches); i++) {
		const uint64_t advised = put_cache(root, caches[i]);
		const struct rung_numa_result *result;
		struct rung_numa_report *report;
		unsigned there = 0;

		cr_assert_eq(rung__numa_measure(root, topology, &opts, &report), 0, "%s",
		             rung_last_error());
		for (size_t r = 0; (result = rung_numa_report_result(report, r)) != NULL; r++) {
			const uint64_t tables = result->matrix == RUNG_NUMA_GATHER ? 2 : 1;

			if (result->cpu_node != node || result->memory_node != node)
				continue;
			cr_assert_null(result->absent, "cache of %lu: %s", (unsigned long)caches[i],
			               result->absent);
			cr_assert_eq(result->advised_bytes, tables * advised);
			cr_assert_lt(result->buffer_bytes, memory);
			cr_assert_eq(result->buffer_bytes < result->advised_bytes,
			             3 * advised >= memory);
			there++;
		}
		cr_assert_eq(there, 8 + 1 + 8,
		             "streams, a chase, rows of four sizes by all cores and by one core");
		rung_numa_report_destroy(report);
	}
	support_remove(root);
	rung_topology_destroy(topology);
}

Test(measure, the_report_contains_the_requested_measurements)
{
	const struct rung_numa_measure_opts opts = small(RUNG_NUMA_GPU | RUNG_NUMA_PEER);
	struct rung_numa_report_info info = { .size = sizeof(info) };
	struct rung_topology *topology = this_machine();
	struct rung_numa_report *report = measured(topology, &opts);

	cr_assert_eq(rung_numa_report_info(report, &info), 0);
	cr_assert_eq(info.matrices, opts.matrices);
	cr_assert_eq(info.samples, 1);
	cr_assert_eq(info.sample_seconds, 1e-4);
	cr_assert_geq(info.result_count, 2); /* at least these, even without a GPU */
	cr_assert_eq(rung_numa_report_result(report, 0)->matrix, RUNG_NUMA_GPU);
	cr_assert_eq(rung_numa_report_result(report, info.result_count - 1)->matrix,
	             RUNG_NUMA_PEER);
	cr_assert_null(rung_numa_report_result(report, info.result_count));
	info.size = sizeof(info) + 8;
	cr_assert_eq(rung_numa_report_info(report, &info), RUNG_E_ABI);
	rung_numa_report_destroy(report);
	rung_numa_report_destroy(NULL);
	rung_topology_destroy(topology);
}

Test(measure, invalid_options_are_rejected)
{
	struct rung_topology *topology = this_machine();
	struct rung_numa_report *report = NULL;
	const uint32_t rows[] = { 512, 3 };
	const char *files[] = { NULL };
	struct rung_numa_measure_opts cases[7];
	const char *says[] = { "matrices 0x200",     "1001 samples",        "regions of nan s",
		               "rows of 3 bytes",    "file 0 of 1 is NULL", "65 row sizes",
		               "512 reads in flight" };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++)
		cases[i] = small(RUNG_NUMA_GPU);
	cases[0].matrices = RUNG_NUMA_ALL + 1;
	cases[1].samples = 1001;
	cases[2].sample_seconds = NAN;
	cases[3].row_bytes = rows;
	cases[3].row_count = 2;
	cases[4].files = files;
	cases[4].file_count = 1;
	cases[5].row_count = 65;
	cases[6].depths = rows;
	cases[6].depth_count = 1;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		cr_assert_eq(rung_numa_measure(topology, &cases[i], &report), RUNG_E_INVAL);
		cr_assert(strstr(rung_last_error(), says[i]), "%s", rung_last_error());
		cr_assert_null(report);
	}
	rung_topology_destroy(topology);
}

Test(measure, names_of_matrices)
{
	cr_assert_str_eq(rung_numa_matrix_name(RUNG_NUMA_LOADED), "loaded");
	cr_assert_null(rung_numa_matrix_name((enum rung_numa_matrix)0));
	cr_assert_null(
		rung_numa_matrix_name((enum rung_numa_matrix)(RUNG_NUMA_GPU | RUNG_NUMA_NVME)));
}

static int cancel(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	unsigned *calls = ctx;

	cr_assert(*step);
	cr_assert(done <= total && total == 3000, "%llu of %llu", done, total); /* of 3 matrices */
	return ++*calls == 2;
}

Test(measure, a_call_can_be_canceled)
{
	struct rung_numa_measure_opts opts =
		small(RUNG_NUMA_TOUCH | RUNG_NUMA_GPU | RUNG_NUMA_PEER);
	struct rung_topology *topology = this_machine();
	struct rung_numa_report *report = NULL;
	unsigned calls = 0;

	opts.progress = cancel;
	opts.progress_ctx = &calls;
	cr_assert_eq(rung_numa_measure(topology, &opts, &report), RUNG_E_CANCELED);
	cr_assert_eq(calls, 2);
	cr_assert_null(report);
	rung_topology_destroy(topology);
}

/* Notes the progress while a file is written, and cancels after it. */
static int cancel_after_writing(void *ctx, const char *step, unsigned long long done,
                                unsigned long long total)
{
	unsigned long long *most = ctx;

	cr_assert_leq(done, total);
	if (!strstr(step, "writing"))
		return *most > 0;
	cr_assert_geq(done, *most);
	*most = done;
	return 0;
}

Test(measure, the_progress_advances_while_a_file_is_written)
{
	struct rung_numa_measure_opts opts = small(RUNG_NUMA_NVME);
	struct rung_topology *topology = this_machine();
	struct rung_numa_report *report = NULL;
	unsigned long long most = 0;
	int rc;

	opts.dir = ".";
	opts.dir_bytes = 16 << 20;
	opts.progress = cancel_after_writing;
	opts.progress_ctx = &most;
	rc = rung_numa_measure(topology, &opts, &report);
	if (rc == 0) /* nothing followed that could be canceled */
		rung_numa_report_destroy(report);
	cr_assert(rc == 0 || rc == RUNG_E_CANCELED, "%s", rung_last_error());
	cr_assert_gt(most, 0);
	rung_topology_destroy(topology);
}

/* Allows 0, 1, 2, ... allocations until the call succeeds. */
Test(measure, nothing_leaks_whichever_allocation_fails)
{
	const struct rung_numa_measure_opts opts = small(RUNG_NUMA_REGISTER | RUNG_NUMA_GPU);
	struct rung_topology *topology = this_machine();
	struct rung_numa_report *report = NULL;
	int rc = RUNG_E_NOMEM;

	for (int64_t allowed = 0; rc < 0; allowed++) {
		rung__alloc_limit(allowed);
		rc = rung_numa_measure(topology, &opts, &report);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d after %ld allocations: %s", rc,
		          (long)allowed, rung_last_error());
		cr_assert_lt(allowed, 10000);
	}
	rung_numa_report_destroy(report);
	rung_topology_destroy(topology);
}
