/* SPDX-License-Identifier: Apache-2.0 */
/* Machine profiles: what plans take from them, and what is no profile. */
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

#define GATHER(cores, cpu, memory, bytes, rate) \
	"{\"matrix\": \"gather\", \"cores\": \"" cores "\", \"cpu_node\": " cpu ", \"memory_node\": " memory ", \"absent\": null, \"row_bytes\": " bytes \
	", \"rows_per_s\": {\"median\": " rate ", \"min\": 1, \"max\": 9, \"samples\": [1]}}"
#define READ(drive, bytes, depth, rate) \
	"{\"drive\": " drive ", \"file\": \"f\", \"cpu_node\": 0, \"row_bytes\": " bytes ", \"queue_depth\": " depth ", \"reads_per_s\": " rate "}"
#define PROFILE(results, reads) "{\"schema\": 1, \"measured\": {}, \"results\": [" results "], \"nvme_read\": [" reads "]}"
#define GOOD GATHER("one", "0", "0", "512", "5e6")

static int load(const char *text, struct rung_profile *out)
{
	cr_assert_eq(support_write_file(path, text, strlen(text)), 0);
	*out = (struct rung_profile){ .size = sizeof(*out) };
	return rung_profile_load(path, out);
}

Test(profile, rates_of_one_core_and_the_first_drive_are_taken)
{
	struct rung_profile p;

	cr_assert_eq(load(PROFILE(
		GATHER("one", "1", "1", "4096", "1e6") "," GATHER("all", "0", "0", "512", "9e9") "," GATHER("one", "0", "1", "512", "8e9") ","
		GATHER("one", "0", "0", "512", "5e6") "," GATHER("one", "1", "1", "512", "6000000") ","
		"{\"matrix\": \"gather\", \"cores\": \"one\", \"cpu_node\": 2, \"memory_node\": 2, \"absent\": \"no memory\", \"row_bytes\": 64},"
		"{\"matrix\": \"latency\", \"cpu_node\": 0}",
		READ("\"a\"", "4096", "8", "80e3") "," READ("\"a\"", "4096", "1", "1e4") "," READ("\"a\"", "512", "8", "9e4") ","
		READ("\"b\"", "512", "8", "9e9") "," READ("\"a\"", "512", "8", "95000")), &p), 0, "%s", rung_last_error());
	cr_assert_eq(p.rows_count, 2);
	cr_assert(p.rows[0].row_bytes == 512 && p.rows[0].rows_per_s == 6e6);   /* the faster node's */
	cr_assert(p.rows[1].row_bytes == 4096 && p.rows[1].rows_per_s == 1e6);
	cr_assert_eq(p.reads_count, 3);
	cr_assert(p.reads[0].read_bytes == 512 && p.reads[0].depth == 8 && p.reads[0].reads_per_s == 95e3);
	cr_assert(p.reads[1].read_bytes == 4096 && p.reads[1].depth == 1 && p.reads[1].reads_per_s == 1e4);
	cr_assert(p.reads[2].depth == 8 && p.reads[2].reads_per_s == 80e3);
}

#define GPU(from, bytes, rate) "{\"from\": \"" from "\", \"gpu\": 0, \"row_bytes\": " bytes ", \"rows_per_s\": " rate "}"
#define WITH_GPU(list) "{\"schema\": 1, \"measured\": {}, \"results\": [" GOOD "], \"nvme_read\": [], \"gpu_gather\": " list "}"

Test(profile, rates_of_gpus_are_taken_for_each_rung)
{
	struct rung_profile p;

	cr_assert_eq(load(WITH_GPU("[" GPU("host", "512", "3e7") "," GPU("gpu", "512", "2e9") "," GPU("gpu", "64", "5e9") "," GPU("host", "512", "4e7") ","
	                           GPU("peer", "512", "3e8") "," GPU("peer", "512", "2e8") "," GPU("peer", "512", "4e8") "]"), &p), 0, "%s", rung_last_error());
	cr_assert_eq(p.gpu_rows_count, 2);
	cr_assert(p.gpu_rows[0].row_bytes == 64 && p.gpu_rows[0].rows_per_s == 5e9);
	cr_assert(p.gpu_rows[1].row_bytes == 512 && p.gpu_rows[1].rows_per_s == 2e9);
	cr_assert(p.peer_rows_count == 1 && p.peer_rows[0].rows_per_s == 2e8);   /* the slowest pair's */
	cr_assert(p.link_rows_count == 1 && p.link_rows[0].rows_per_s == 4e7);   /* the nearest node's */
	cr_assert_eq(load(PROFILE(GOOD, ""), &p), 0);   /* of a version that did not measure them */
	cr_assert_eq(p.gpu_rows_count + p.peer_rows_count + p.link_rows_count, 0);
}

Test(profile, what_is_none_is_refused_by_name)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
		{ "", "is no machine profile" },
		{ "{\"schema\": 1,", "line 1" },
		{ "[]", "schema 1" },
		{ "{\"schema\": 2, \"measured\": {}}", "schema 1" },
		{ "{\"schema\": 1}", "schema 1" },   /* a topology */
		{ "{\"schema\": 1, \"measured\": {}}", "\"results\"" },
		{ "{\"schema\": 1, \"measured\": {}, \"results\": {}}", "\"results\"" },
		{ PROFILE("", ""), "no rates of gathering rows" },
		{ PROFILE(GATHER("one", "0", "0", "0", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "-5", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "99999999999999", "5e6"), ""), "\"results: gather\"" },
		{ PROFILE(GATHER("one", "0", "0", "1.5", "5e6"), ""), "\"results: gather\"" },
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
		{ "{\"schema\": 1, \"schema\": 1}", "is no machine profile" },
	};
	struct rung_profile p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(load(bad[i].text, &p), RUNG_E_FORMAT, "%s", bad[i].text);
		cr_assert(strstr(rung_last_error(), bad[i].words), "'%s' not in '%s'", bad[i].words, rung_last_error());
		cr_assert(strstr(rung_last_error(), path));
	}
	cr_assert_eq(load(PROFILE(GOOD, ""), &p), 0, "%s", rung_last_error());
	cr_assert_eq(p.reads_count, 0);
}

Test(profile, more_than_there_is_room_for_is_passed_over)
{
	static char text[400000];
	struct rung_profile p;
	size_t at = (size_t)sprintf(text, "{\"schema\": 1, \"measured\": {}, \"results\": [");

	for (int i = 0; i < 100; i++)
		at += (size_t)sprintf(text + at, "%s" GATHER("one", "0", "0", "%d", "5e6"), i ? "," : "", 100 + i);
	at += (size_t)sprintf(text + at, "], \"nvme_read\": [");
	for (int i = 0; i < 1000; i++)
		at += (size_t)sprintf(text + at, "%s" READ("null", "%d", "8", "5e5"), i ? "," : "", 512 + i);
	sprintf(text + at, "]}");
	cr_assert_eq(load(text, &p), 0, "%s", rung_last_error());
	cr_assert_eq(p.rows_count, RUNG_PROFILE_ROWS_MAX);
	cr_assert_eq(p.reads_count, RUNG_PROFILE_READS_MAX);
}

Test(profile, files_that_are_not_there_and_callers_of_other_versions)
{
	struct rung_profile p = { .size = sizeof(p) };

	cr_assert_eq(rung_profile_load(path, &p), RUNG_E_NOENT);
	cr_assert(strstr(rung_last_error(), "rung numa --json"), "%s", rung_last_error());
	cr_assert_eq(rung_profile_load(NULL, &p), RUNG_E_INVAL);
	cr_assert_eq(load(PROFILE(GOOD, ""), &p), 0);
	p.size = sizeof(p) + 8;
	cr_assert_eq(rung_profile_load(path, &p), RUNG_E_ABI);
}
