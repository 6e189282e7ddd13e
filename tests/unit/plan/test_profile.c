/* SPDX-License-Identifier: Apache-2.0 */
/* Machine profiles: the values that plans use, and rejection of invalid profiles. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "dataset.h"
#include "rung/rung.h"

static char dir[256], path[300];

static void setup(void)
{
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	snprintf(path, sizeof(path), "%s/machine.json", dir);
}

static void teardown(void)
{
	support_remove(dir);
}

TestSuite(profile, .init = setup, .fini = teardown, .timeout = 60);

#define GATHER(cores, cpu, memory, bytes, rate)                                                    \
	"{\"matrix\": \"gather\", \"cores\": \"" cores "\", \"cpu_node\": " cpu                    \
	", \"memory_node\": " memory ", \"absent\": null, \"row_bytes\": " bytes                   \
	", \"rows_per_s\": {\"median\": " rate ", \"min\": 1, \"max\": 9, \"samples\": [1]}}"
#define ALL(cpu, memory, threads, rate)                                                            \
	"{\"matrix\": \"gather\", \"cores\": \"all\", \"cpu_node\": " cpu                          \
	", \"memory_node\": " memory ", \"absent\": null, \"row_bytes\": 512"                      \
	", \"threads\": " threads ", \"rows_per_s\": {\"median\": " rate "}}"
#define READ(drive, bytes, depth, rate)                                                            \
	"{\"drive\": " drive ", \"file\": \"f\", \"cpu_node\": 0, \"row_bytes\": " bytes           \
	", \"queue_depth\": " depth ", \"reads_per_s\": " rate "}"
#define PROFILE(results, reads)                                                                    \
	"{\"schema\": 1, \"measured\": {}, \"results\": [" results "], \"nvme_read\": [" reads "]" \
	"}"
#define GOOD GATHER("one", "0", "0", "512", "5e6")

static int load(const char *text, struct rung_profile *out)
{
	cr_assert_eq(support_write_file(path, text, strlen(text)), 0);
	*out = (struct rung_profile){ .size = sizeof(*out) };
	return rung_profile_load(path, out);
}

static void check_rows(const struct rung_profile_rows *rows, const struct rung_profile_rows *should)
{
	cr_assert(rows->all_cores == should->all_cores && rows->threads == should->threads &&
	                  rows->cpu_node == should->cpu_node &&
	                  rows->memory_node == should->memory_node &&
	                  rows->row_bytes == should->row_bytes &&
	                  rows->rows_per_s == should->rows_per_s,
	          "%s, %u threads, nodes %u and %u, %d bytes, %g", rows->all_cores ? "all" : "one",
	          rows->threads, rows->cpu_node, rows->memory_node, (int)rows->row_bytes,
	          rows->rows_per_s);
}

Test(profile, rates_of_rows_and_of_all_drives_are_read)
{
	struct rung_profile p;

	/* one result per line */
	/* clang-format off */
	cr_assert_eq(load(PROFILE(
		GATHER("one", "1", "1", "4096", "1e6") ","
		ALL("0", "0", "16", "9e9") ","
		GATHER("one", "0", "1", "512", "8e9") ","
		GATHER("one", "0", "0", "512", "5e6") ","
		GATHER("one", "1", "1", "512", "6000000") ","
		GATHER("one", "1", "1", "512", "5") ","
		"{\"matrix\": \"gather\", \"cores\": \"one\", \"cpu_node\": 2, \"memory_node\": 2,"
		" \"absent\": \"no memory\", \"row_bytes\": 64},"
		"{\"matrix\": \"latency\", \"cpu_node\": 0}",
		READ("\"a\"", "4096", "8", "80e3") ","
		READ("\"a\"", "4096", "1", "1e4") ","
		READ("\"a\"", "512", "8", "9e4") ","
		READ("\"b\"", "512", "8", "9e9") ","
		READ("\"a\"", "512", "8", "95000")), &p), 0, "%s", rung_last_error());
	/* clang-format on */
	check_rows(&p.rows[0], &(struct rung_profile_rows){ 0, 1, 0, 0, 512, 5e6 });
	check_rows(&p.rows[1], &(struct rung_profile_rows){ 0, 1, 0, 1, 512, 8e9 });
	check_rows(&p.rows[2], &(struct rung_profile_rows){ 0, 1, 1, 1, 512, 6e6 });
	check_rows(&p.rows[3], &(struct rung_profile_rows){ 0, 1, 1, 1, 4096, 1e6 });
	check_rows(&p.rows[4], &(struct rung_profile_rows){ 1, 16, 0, 0, 512, 9e9 });
	cr_assert_eq(p.rows_count, 5);
	cr_assert_eq(p.drive_count, 2);
	cr_assert_str_eq(p.drives[0].name, "a");
	cr_assert_str_eq(p.drives[1].name, "b");
	cr_assert_eq(p.reads_count, 4);
	cr_assert(p.reads[0].drive == 0 && p.reads[0].read_bytes == 512 && p.reads[0].depth == 8 &&
	          p.reads[0].reads_per_s == 95e3);
	cr_assert(p.reads[1].drive == 0 && p.reads[1].read_bytes == 4096 && p.reads[1].depth == 1 &&
	          p.reads[1].reads_per_s == 1e4);
	cr_assert(p.reads[2].drive == 0 && p.reads[2].depth == 8 && p.reads[2].reads_per_s == 80e3);
	cr_assert(p.reads[3].drive == 1 && p.reads[3].read_bytes == 512 &&
	          p.reads[3].reads_per_s == 9e9);
}

Test(profile, files_of_a_drive_are_combined_and_unnamed_drives_separate)
{
#define READ_FILE(drive, file, rate)                                                               \
	"{\"drive\": " drive ", \"file\": \"" file                                                 \
	"\", \"row_bytes\": 512, \"queue_depth\": 8, \"reads_per_s\": " rate "}"
	struct rung_profile p;

	/* one read per line */
	/* clang-format off */
	cr_assert_eq(load(PROFILE(GOOD,
		READ_FILE("null", "x", "1e3") ","
		READ_FILE("\"a\"", "y", "2e3") ","
		READ_FILE("\"a\"", "z", "5e3") ","
		READ_FILE("null", "y", "4e3") ","
		READ_FILE("null", "x", "3e3")), &p), 0, "%s", rung_last_error());
	/* clang-format on */
	cr_assert_eq(p.drive_count, 3);
	cr_assert(p.drives[0].name[0] == 0 && p.drives[2].name[0] == 0);
	cr_assert_eq(p.reads_count, 3);
	cr_assert(p.reads[0].reads_per_s == 3e3 && p.reads[1].reads_per_s == 5e3 &&
	          p.reads[2].reads_per_s == 4e3);
}

#define GPU(from, bytes, rate)                                                                     \
	"{\"from\": \"" from "\", \"gpu\": 0, \"row_bytes\": " bytes ", \"rows_per_s\": " rate "}"
#define WITH_GPU(list)                                                                             \
	"{\"schema\": 1, \"measured\": {}, \"results\": [" GOOD                                    \
	"], \"nvme_read\": [], \"gpu_gather\": " list "}"

Test(profile, rates_of_gpus_are_read_for_each_tier)
{
	struct rung_profile p;

	/* one rate per line */
	/* clang-format off */
	cr_assert_eq(load(WITH_GPU("["
		GPU("host", "512", "3e7") ","
		GPU("gpu", "512", "2e9") ","
		GPU("gpu", "64", "5e9") ","
		GPU("host", "512", "4e7") ","
		GPU("peer", "512", "3e8") ","
		GPU("peer", "512", "2e8") ","
		GPU("peer", "512", "4e8") "]"), &p), 0, "%s", rung_last_error());
	/* clang-format on */
	cr_assert_eq(p.gpu_rows_count, 2);
	cr_assert(p.gpu_rows[0].row_bytes == 64 && p.gpu_rows[0].rows_per_s == 5e9);
	cr_assert(p.gpu_rows[1].row_bytes == 512 && p.gpu_rows[1].rows_per_s == 2e9);
	/* the rate of the slowest pair of GPUs */
	cr_assert(p.peer_rows_count == 1 && p.peer_rows[0].rows_per_s == 2e8);
	/* the rate of the nearest node */
	cr_assert(p.link_rows_count == 1 && p.link_rows[0].rows_per_s == 4e7);
	cr_assert_eq(load(PROFILE(GOOD, ""), &p), 0); /* from a version that did not measure GPUs */
	cr_assert_eq(p.gpu_rows_count + p.peer_rows_count + p.link_rows_count, 0);
}

Test(profile, invalid_profiles_are_rejected_by_name)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
		{ "", "not a machine profile" },
		{ "{\"schema\": 1,", "line 1" },
		{ "[]", "schema 1" },
		{ "{\"schema\": 2, \"measured\": {}}", "schema 1" },
		{ "{\"schema\": 1}", "schema 1" }, /* a topology, not a profile */
		{ "{\"schema\": 1, \"measured\": {}}", "\"results\"" },
		{ "{\"schema\": 1, \"measured\": {}, \"results\": {}}", "\"results\"" },
		{ PROFILE("", ""), "no single-core rates of gathering rows" },
		{ PROFILE(GATHER("one", "0", "0", "0", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "-5", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "99999999999999", "5e6"), ""),
		  "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "1.5", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(GOOD "," ALL("0", "0", "0", "1e6"), ""), "\"results: gather\"" },
		{ PROFILE(GOOD "," ALL("0", "0", "99999", "1e6"), ""), "\"results: gather\"" },
		{ PROFILE(GOOD "," ALL("0", "0", "null", "1e6"), ""), "\"results: gather\"" },
		{ PROFILE(GOOD "," ALL("0", "0", "2", "0"), ""), "\"results: gather\"" },
		{ PROFILE(GOOD "," ALL("0", "1024", "2", "1e6"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "-1", "0", "512", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "null", "null", "512", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(ALL("0", "0", "2", "1e6") "," GATHER("one", "0", "1", "512", "5e6"), ""),
		  "no single-core rates of gathering rows" },
		{ PROFILE(GATHER("one", "0", "0", "512", "0"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "512", "-1"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "512", "1e300"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "512", "\"5\""), ""), "\"results: gather\"" },
		{ PROFILE(GOOD, "5"), "\"nvme_read\"" },
		{ PROFILE(GOOD, "{}"), "\"nvme_read\"" },
		{ PROFILE(GOOD, READ("\"a\"", "512", "0", "1e5")), "\"nvme_read\"" },
		{ PROFILE(GOOD, READ("\"a\"", "512", "4294967297", "1e5")), "\"nvme_read\"" },
		{ PROFILE(GOOD, READ("\"a\"", "512", "1", "null")), "\"nvme_read\"" },
		{ WITH_GPU("5"), "\"gpu_gather\"" },
		{ WITH_GPU("[5]"), "\"gpu_gather\"" },
		{ WITH_GPU("[" GPU("gpu", "0", "1e9") "]"), "\"gpu_gather\"" },
		{ WITH_GPU("[" GPU("gpu", "512", "null") "]"), "\"gpu_gather\"" },
		{ WITH_GPU("[" GPU("nvme", "512", "1e9") "]"), "\"gpu_gather\"" },
		{ PROFILE(GOOD, READ("7", "512", "1", "1e5")), "\"nvme_read: drive\"" },
		{ PROFILE(GOOD, READ("\"a-name-of-more-than-63-letters-is-none-that-the-kernel-"
		                     "gives-to-a-disk\"",
		                     "512", "1", "1e5")),
		  "\"nvme_read: drive\"" },
		{ "{\"schema\": 1, \"schema\": 1}", "not a machine profile" },
	};
	struct rung_profile p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(load(bad[i].text, &p), RUNG_E_FORMAT, "%s", bad[i].text);
		cr_assert(strstr(rung_last_error(), bad[i].words), "'%s' not in '%s'", bad[i].words,
		          rung_last_error());
		cr_assert(strstr(rung_last_error(), path));
	}
	cr_assert_eq(load(PROFILE(GOOD, ""), &p), 0, "%s", rung_last_error());
	cr_assert_eq(p.reads_count, 0);
}

Test(profile, results_beyond_the_limits_are_skipped)
{
	static char text[1000000];
	struct rung_profile p;
	size_t at = (size_t)sprintf(text, "{\"schema\": 1, \"measured\": {}, \"results\": [");

	for (int i = 0; i < 1300; i++)
		at += (size_t)sprintf(text + at, "%s" GATHER("one", "0", "%d", "%d", "5e6"),
		                      i ? "," : "", i < 1000, 100 + i);
	at += (size_t)sprintf(text + at, "], \"nvme_read\": [");
	for (int i = 0; i < 2000; i++)
		at += (size_t)sprintf(text + at, "%s" READ("\"drive%d\"", "%d", "8", "5e5"),
		                      i ? "," : "", i % 20, 512 + i);
	sprintf(text + at, "]}");
	cr_assert_eq(load(text, &p), 0, "%s", rung_last_error());
	cr_assert_eq(p.rows_count, RUNG_PROFILE_ROWS_MAX);
	/* rates of near memory are kept */
	cr_assert(p.rows[299].memory_node == 0 && p.rows[300].memory_node == 1);
	cr_assert_eq(p.drive_count, RUNG_PROFILE_DRIVES_MAX);
	cr_assert_eq(p.reads_count, RUNG_PROFILE_READS_MAX);
	for (uint32_t i = 1; i < p.reads_count; i++)
		cr_assert(p.reads[i].drive == p.reads[i - 1].drive
		                  ? p.reads[i].read_bytes > p.reads[i - 1].read_bytes
		                  : p.reads[i].drive == p.reads[i - 1].drive + 1);
}

Test(profile, missing_files_and_callers_of_other_versions_are_errors)
{
	struct rung_profile p = { .size = sizeof(p) };

	cr_assert_eq(rung_profile_load(path, &p), RUNG_E_NOENT);
	cr_assert(strstr(rung_last_error(), "rung numa --json"), "%s", rung_last_error());
	cr_assert_eq(rung_profile_load(NULL, &p), RUNG_E_INVAL);
	cr_assert_eq(load(PROFILE(GOOD, ""), &p), 0);
	p.size = sizeof(p) + 8;
	cr_assert_eq(rung_profile_load(path, &p), RUNG_E_ABI);
}
