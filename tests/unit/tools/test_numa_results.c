/* SPDX-License-Identifier: Apache-2.0 */
/* The four output formats of rung numa, for synthetic results of every kind, compared with golden
 * files. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "numa/numa.h"
#include "topology/state.h"

#define RESULTS_MAX 128
#define SAMPLES_MAX 512
#define BUS_A       "0000:1a:00.0"
#define BUS_B       "0000:2b:00.0" /* not in the topology */
#define KIB         UINT64_C(1024)
#define MIB         (1024 * KIB)

static struct rung__measure_entry entries[RESULTS_MAX];
static struct rung_numa_report report = { .entries = entries };
static double samples[SAMPLES_MAX];
static size_t sample_count;

/* ---- synthetic results ---- */

static struct rung_numa_result *add(enum rung_numa_matrix matrix, const char *kind, int cpu,
                                    int memory)
{
	struct rung_numa_result *result = &entries[report.info.result_count++].result;

	cr_assert_leq(report.info.result_count, RESULTS_MAX);
	*result = rung__measure_blank(matrix);
	result->kind = kind;
	result->cpu_node = cpu;
	result->memory_node = memory;
	return result;
}

/* Two samples whose median differs from all other medians. */
static struct rung_numa_value value(double least)
{
	struct rung_numa_value value = { .samples = &samples[sample_count], .count = 2 };
	const double median = least * (1 + (double)sample_count / 100);

	cr_assert_leq(sample_count + 2, SAMPLES_MAX);
	value.median = median;
	samples[sample_count++] = value.min = median * 0.97;
	samples[sample_count] = value.max = median * (1.1 + (double)(sample_count % 11) / 40);
	sample_count++;
	return value;
}

static void set_memory(struct rung_numa_result *result, uint64_t buffer, uint64_t advised)
{
	result->buffer_bytes = buffer;
	result->advised_bytes = advised;
	result->placement_share = 0.995;
	result->huge_share = 0.5;
}

static void set_threads(struct rung_numa_result *result, int all)
{
	result->all_cores = all;
	result->threads = all ? 8 : 1;
}

static void set_rate(struct rung_numa_result *result, double bytes_per_s, uint64_t row_bytes)
{
	result->bytes_per_s = value(bytes_per_s);
	result->row_bytes = row_bytes;
	if (row_bytes)
		result->per_s = value(bytes_per_s / (double)row_bytes);
}

static void add_bandwidth(void)
{
	static const char *const kinds[] = { "read", "write", "copy", "triad" };
	struct rung_numa_result *result;

	for (size_t k = 0; k < 4; k++) {
		for (int all = 1; all >= 0; all--) {
			result = add(RUNG_NUMA_BANDWIDTH, kinds[k], 0, 0);
			set_threads(result, all);
			set_memory(result, 512 * MIB, 256 * MIB);
			set_rate(result, all ? 4e10 : 9e9, 0);
		}
		if (k != 1) { /* node 3 has no result for writes */
			result = add(RUNG_NUMA_BANDWIDTH, kinds[k], 0, 3);
			set_threads(result, 1);
			set_memory(result, 64 * MIB, 256 * MIB);
			result->placement_share = NAN;
			set_rate(result, 2e10, 0);
		}
		result = add(RUNG_NUMA_BANDWIDTH, kinds[k], 3, 0);
		set_threads(result, 1);
		if (k == 2)
			result->absent = "the copy, \"alone\", is absent";
		else
			set_rate(result, 2.5e10, 0);
		add(RUNG_NUMA_BANDWIDTH, kinds[k], 3, 3)->absent = "node 3 has no room";
	}
}

static void add_latency(void)
{
	struct rung_numa_result *result;

	for (int memory = 0; memory <= 3; memory += 3) {
		result = add(RUNG_NUMA_LATENCY, NULL, 0, memory);
		set_threads(result, 0);
		set_memory(result, 128 * MIB, memory ? 1024 * MIB : 0);
		result->all_cores = 0;
		result->latency_ns = value(memory ? 140.5 : 81.25);
	}
	result->huge_share = result->placement_share = NAN;
	result = add(RUNG_NUMA_LATENCY, NULL, -1, 3);
	result->latency_ns = value(99);
	add(RUNG_NUMA_LATENCY, NULL, 3, 3)->absent = "node 3 has no room";
	for (uint32_t level = 0; level < 3; level++) {
		result = add(RUNG_NUMA_LOADED, NULL, 0, 3);
		set_threads(result, 0);
		set_memory(result, 128 * MIB, 64 * MIB);
		result->level = level;
		result->threads = 4 * level;
		if (level > 0)
			result->bytes_per_s = value(1e9 * level);
		result->latency_ns = value(90 + 100 * level);
	}
	add(RUNG_NUMA_LOADED, NULL, 3, 0)->absent = "one core";
}

static void add_gathers(void)
{
	static const uint64_t rows[] = { 64, 1536, 4096 };
	struct rung_numa_result *result;

	for (size_t r = 0; r < 3; r++) {
		for (int all = 1; all >= 0; all--) {
			result = add(RUNG_NUMA_GATHER, NULL, 0, 0);
			set_threads(result, all);
			set_memory(result, 256 * MIB, r == 1 ? 2048 * MIB : 64 * MIB);
			set_rate(result, all ? 1.5e10 : 3e9, rows[r]);
			result->of_copy = all ? 0.625 : NAN;
			if (!all) {
				result->rows_in_flight = 12.34;
				result->lines_in_flight = 12.34 * (double)rows[r] / 64;
			}
		}
		if (r == 1)
			continue;
		result = add(RUNG_NUMA_GATHER, NULL, 3, 0);
		set_threads(result, 1);
		result->row_bytes = rows[r];
		result->absent = r ? "too large a row" : "node 3 has no room";
	}
}

static struct rung_numa_result *add_gpu(enum rung_numa_matrix matrix, const char *kind, int gpu,
                                        int to)
{
	struct rung_numa_result *result = add(matrix, kind, -1, -1);

	result->gpu = gpu ? -1 : 0;
	result->gpu_bus_id = gpu ? BUS_B : BUS_A;
	if (matrix == RUNG_NUMA_PEER) {
		result->to_gpu = to ? -1 : 0;
		result->to_gpu_bus_id = to ? BUS_B : BUS_A;
	} else {
		result->memory_node = to;
	}
	return result;
}

static void add_gpus(void)
{
	static const char *const kinds[] = { "to_gpu", "from_gpu", "both", "read" };
	struct rung_numa_result *result;

	/* GPU 0 and node 0; GPU 0 and node 3; GPU 1 and node 0 */
	for (int place = 0; place < 3; place++) {
		const int gpu = place == 2, node = place == 1 ? 3 : 0;

		for (size_t k = 0; k < 4; k++) {
			result = add_gpu(RUNG_NUMA_GPU, kinds[k], gpu, node);
			set_memory(result, 64 * MIB, 0);
			if (place == 1 && k != 2)
				result->absent = "pinning: refused";
			else if (place != 2 || k != 3)
				set_rate(result, 2e10, 0);
			else
				report.info.result_count--; /* no result for reads */
		}
		for (uint64_t row = 64; place != 1 && row <= 4096; row *= 64) {
			result = add_gpu(RUNG_NUMA_GPU, "gather", gpu, node);
			set_memory(result, 64 * MIB, 128 * MIB);
			set_rate(result, 1e10, row);
		}
	}
	result = add(RUNG_NUMA_GPU, NULL, -1, -1);
	result->gpu_bus_id = "0000:3c:00.0";
	result->absent = "compute capability 3.5";
}

static void add_peers(void)
{
	struct rung_numa_result *result;

	for (int from = 0; from < 2; from++) {
		for (int to = 0; to < 2; to++) {
			result = add_gpu(RUNG_NUMA_PEER, "copy", from, to);
			if (from && to)
				result->absent = "no room";
			else
				set_rate(result, 3e11, 0);
			result = add_gpu(RUNG_NUMA_PEER, "gather", from, to);
			result->row_bytes = 256;
			if (from && !to)
				result->absent = "no peer access";
			else
				set_rate(result, 1.25e11, 256);
		}
	}
	add(RUNG_NUMA_PEER, NULL, -1, -1)->absent = "compute capability 3.5";
}

static void add_reads(int node, const char *drive, const char *file, uint32_t depth_max,
                      uint64_t bytes_max)
{
	for (uint64_t bytes = 4 * KIB; bytes <= bytes_max; bytes *= 4) {
		for (uint32_t depth = 1; depth <= depth_max; depth *= 8) {
			struct rung_numa_result *result = add(RUNG_NUMA_NVME, NULL, node, -1);

			result->drive = drive;
			result->file = file;
			result->engine = drive ? "io_uring" : "pread";
			result->threads = 1;
			result->queue_depth = depth;
			result->buffer_bytes = 2048 * MIB;
			set_rate(result, 1e8 * depth, bytes);
		}
	}
}

static void add_drives(void)
{
	struct rung_numa_result *result;

	add_reads(0, "nvme0n1", "/dev/nvme0n1", 64, 16 * KIB);
	add_reads(3, "nvme0n1", "/dev/nvme0n1", 1, 4 * KIB);
	result = add(RUNG_NUMA_NVME, NULL, 0, -1);
	result->drive = "nvme1n1";
	result->absent = "/dev/nvme1n1: Permission denied";
	add_reads(0, NULL, "/data/a \"b\", <c>", 8, 4 * KIB);
}

static void add_costs(void)
{
	struct rung_numa_result *result;

	for (uint64_t page = 4 * KIB; page <= 2 * MIB; page *= 512) {
		result = add(RUNG_NUMA_TOUCH, NULL, 0, 0);
		set_threads(result, page == 2 * MIB);
		set_memory(result, 512 * MIB, 0);
		result->page_bytes = page;
		result->seconds_per_gib = value(0.25);
	}
	add(RUNG_NUMA_TOUCH, NULL, 3, 3)->absent = "node 3 has no room";
	result = add(RUNG_NUMA_REGISTER, "io_uring", -1, 3);
	result->page_bytes = 4 * KIB;
	result->threads = 1;
	result->seconds_per_gib = value(0.0625);
	for (int i = 0; i < 2; i++) {
		result = add(RUNG_NUMA_REGISTER, "io_uring", -1, 0);
		result->page_bytes = 4 * KIB;
		result->absent = "RLIMIT_MEMLOCK is 64 KiB";
	}
}

static void add_all(void)
{
	report.info = (struct rung_numa_report_info){
		.size = sizeof(report.info),
		.kernel = "6.1.0-test",
		.cpu_model = "Test CPU <1> & \"2\"",
		.governor = "performance",
		.thp = "madvise",
		.stores = "non-temporal",
		.smt = 1,
		.hypervisor = 1,
		.last_level_cache_bytes = 32 * MIB,
		.matrices = RUNG_NUMA_ALL,
		.samples = 2,
		.sample_seconds = 0.2,
		.began_s = 1700000000,
		.seconds = 61.5,
	};
	add_bandwidth();
	add_latency();
	add_gathers();
	add_gpus();
	add_peers();
	add_drives();
	add_costs();
}

/* Results of every kind are absent, and nothing is known about the machine. */
static void add_reasons(void)
{
	report.info = (struct rung_numa_report_info){
		.size = sizeof(report.info),
		.stores = "plain",
		.smt = -1,
		.hypervisor = -1,
		.quick = 1,
		.samples = 1,
		.sample_seconds = 0.05,
		.matrices = RUNG_NUMA_GPU | RUNG_NUMA_TOUCH,
	};
	for (uint32_t bit = 1; bit < RUNG_NUMA_ALL; bit <<= 1) {
		struct rung_numa_result *result = add((enum rung_numa_matrix)bit, NULL, -1, -1);

		result->absent = "absent";
		if (bit == RUNG_NUMA_BANDWIDTH)
			result->kind = "read";
		if (bit == RUNG_NUMA_GATHER)
			result->row_bytes = 64;
	}
}

/* ---- output ---- */

/* One line per key and per result, without the version, which changes with each release. */
static void print_json(const struct numa_measured *measured)
{
	json_t *root = json_object(), *entry;
	const char *key;
	size_t i;

	numa_results_json(root, measured);
	json_object_del(json_object_get(root, "measured"), "version");
	json_object_foreach(root, key, entry)
	{
		printf("%s:", key);
		if (strcmp(key, "results") != 0) {
			json_dumpf(entry, stdout, JSON_REAL_PRECISION(9));
		} else {
			json_t *result;

			json_array_foreach(entry, i, result)
			{
				putchar('\n');
				json_dumpf(result, stdout, JSON_REAL_PRECISION(9));
			}
		}
		putchar('\n');
	}
	json_decref(root);
}

/* All formats, one after another. */
static char *print_all(void)
{
	static struct rung_topology_node nodes[] = { { .node = 0 }, { .node = 3 } };
	static const struct rung_topology topology = { .info.node_count = 2, .nodes = nodes };
	const struct numa_machine machine = { .topology = &topology, .info = topology.info };
	const struct numa_measured measured = {
		&topology, &report, report.info, 2, NULL, &machine,
	};
	FILE *const before = stdout;
	char *text;
	size_t length;

	stdout = open_memstream(&text, &length);
	cr_assert_not_null(stdout);
	cr_assert_eq(numa_results_print(&measured, 1), 0);
	puts("\n==== csv");
	cr_assert_eq(numa_results_csv(&measured), 0);
	puts("\n==== json");
	print_json(&measured);
	puts("\n==== svg");
	cr_assert_eq(numa_results_svg(&measured, stdout), 0);
	fclose(stdout);
	stdout = before;
	return text;
}

/* RUNG_UPDATE_GOLDEN=1 writes the file instead. */
static void compare(const char *name)
{
	char path[4096], line[4096];
	char *text = print_all(), *at = text;
	FILE *file;
	int number = 0;

	snprintf(path, sizeof(path), "%s/tests/cli/golden/%s", getenv("RUNG_SOURCE_DIR"), name);
	file = fopen(path, getenv("RUNG_UPDATE_GOLDEN") ? "w" : "r");
	cr_assert_not_null(file, "%s", path);
	if (getenv("RUNG_UPDATE_GOLDEN")) {
		fputs(text, file);
		at += strlen(at);
	}
	while (!getenv("RUNG_UPDATE_GOLDEN") && fgets(line, sizeof(line), file)) {
		number++;
		cr_assert(strncmp(at, line, strlen(line)) == 0, "%s:%d is\n%.*s", name, number,
		          (int)strcspn(at, "\n"), at);
		at += strlen(line);
	}
	cr_assert_str_empty(at);
	cr_assert_eq(fclose(file), 0);
	free(text);
}

Test(numa_results, every_kind_is_printed_in_every_format)
{
	add_all();
	compare("numa-results.golden");
}

Test(numa_results, every_kind_may_be_absent)
{
	add_reasons();
	compare("numa-absent.golden");
}
