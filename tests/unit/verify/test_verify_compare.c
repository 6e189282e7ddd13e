/* SPDX-License-Identifier: Apache-2.0 */
/* Staged data is compared with its sources: rows, lists, labels, score and splits, completely or by
 * sample, with little memory. */
#include "dataset/checksum.h"
#include "dataset/manifest.h"
#include "verify_fixture.h"

TestSuite(verify_compare, .init = setup, .fini = teardown);

static void all_agree(const struct rung_verify_report *report)
{
	cr_assert_eq(report->rows_compared, VERTICES);
	cr_assert_eq(report->lists_compared, VERTICES);
	cr_assert_eq(report->labels_compared, VERTICES);
	cr_assert_eq(report->scores_compared, VERTICES);
	cr_assert_eq(report->split_ids_compared, 400);
	cr_assert_eq(report->rows_different + report->lists_different + report->labels_different +
	                     report->scores_different + report->split_ids_different,
	             0);
	cr_assert_not(report->maps_disagree);
}

static uint64_t data_at(const char *npy, uint64_t data_bytes)
{
	size_t bytes;

	free(support_read_file(npy, &bytes));
	return bytes - data_bytes;
}

Test(verify_compare, everything_agrees_with_its_sources)
{
	struct rung_verify_opts opts = all_sources();
	struct rung_verify_report report = verified(&opts, 0);

	all_agree(&report);
	cr_assert_gt(report.block_seconds, 0);
	cr_assert_eq(support_deal(ds_dir, 3, 7), 0, "%s", rung_last_error());
	report = verified(&opts, 0);
	all_agree(&report);
}

Test(verify_compare, rows_that_differ_are_counted_to_the_last_byte)
{
	struct rung_verify_opts opts = all_sources();
	const uint64_t data = data_at(source, VERTICES * ROW_BYTES);
	struct rung_verify_report report;

	flip(source, data + 17 * ROW_BYTES);
	flip(source, data + 18 * ROW_BYTES - 1);
	flip(source, data + VERTICES * ROW_BYTES - 1);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.rows_different, 2);
	cr_assert(report.first_different == 17 || report.first_different == VERTICES - 1);
	cr_assert_eq(report.lists_different + report.labels_different, 0);
	cr_assert(strstr(rung_last_error(), "2 of 600 rows differ"), "%s", rung_last_error());
}

Test(verify_compare, labels_scores_and_splits_that_differ_are_counted)
{
	struct rung_verify_opts opts = all_sources();
	struct rung_verify_report report;

	flip(labels, data_at(labels, VERTICES * 8) + 8 * 5);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.labels_different, 1);
	cr_assert_eq(report.first_label_different, 5);
	cr_assert(strstr(rung_last_error(), "1 of 600 labels differ"), "%s", rung_last_error());
	opts.labels = NULL;
	flip(score, data_at(score, VERTICES * 4) + 4 * 599 + 1);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.scores_different, 1);
	cr_assert_eq(report.first_score_different, 599);
	opts.score = NULL;
	flip(train, data_at(train, 200 * 8) + 8); /* 594 becomes 578 */
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.split_ids_different, 1);
	cr_assert_eq(report.rows_different + report.lists_different, 0);
	/* the same number of ids, all of them different */
	opts.split_specs = (const char *[]){ valid, valid };
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.split_ids_different, 200);
	opts.split_names = (const char *[]){ "train", "test" };
	cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_NOENT);
	cr_assert(strstr(rung_last_error(), "split_test"), "%s", rung_last_error());
}

/* Changes an edge of the list, which has all sources first; an end has 8 bytes. */
Test(verify_compare, lists_that_differ_are_counted)
{
	struct rung_verify_opts opts = all_sources();
	const uint64_t data = data_at(edges, 2 * 8 * EDGES);
	struct rung_verify_report report;
	uint64_t pair[2];
	size_t bytes;
	unsigned char *npy = support_read_file(edges, &bytes);
	bool loop;

	memcpy(&pair[0], npy + data + 8 * 77, 8);
	memcpy(&pair[1], npy + data + 8 * (EDGES + 77), 8);
	free(npy);
	flip(edges, data + 8 * 77); /* another source: one list has another entry */
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.lists_different, 1);
	cr_assert_eq(report.first_list_different, pair[1]);
	cr_assert(strstr(rung_last_error(), "1 of 600 lists differ"), "%s", rung_last_error());
	flip(edges, data + 8 * 77);
	/* another destination: one list is longer, one shorter */
	flip(edges, data + 8 * (EDGES + 77));
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.lists_different, 2);
	flip(edges, data + 8 * (EDGES + 77));
	graph.undirected = 1;
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_gt(report.lists_different, VERTICES / 2);
	graph.undirected = 0;
	loop = pair[0] == pair[1];
	cr_assert_not(loop);
}

/* Writes the graph as columns, which are read in place, because sorting edges alone needs
 * megabytes. */
static void make_lists(void)
{
	static char spec[700];
	static const char *lists[] = { spec };
	char indptr[300], indices[300];
	struct rung_graph *loaded;
	const struct rung_csc *csc;

	snprintf(indptr, sizeof(indptr), "%s/indptr", dir);
	snprintf(indices, sizeof(indices), "%s/indices", dir);
	snprintf(spec, sizeof(spec), "csc:raw:%s,u64,%u,raw:%s,u32,%u", indptr, VERTICES + 1,
	         indices, EDGES);
	graph.vertex_count = VERTICES;
	cr_assert_eq(rung_graph_load(&graph, &loaded), 0, "%s", rung_last_error());
	csc = rung_graph_csc(loaded);
	cr_assert_eq(support_write_file(indptr, csc->indptr, (VERTICES + 1) * 8), 0);
	cr_assert_eq(support_write_file(indices, csc->indices, EDGES * 4), 0);
	rung_graph_destroy(loaded);
	graph.specs = lists;
}

struct watched {
	uint64_t rows, lists;
};

static int watch(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	struct watched *watched = ctx;

	cr_assert_leq(done, total, "%s", step);
	watched->rows += strcmp(step, "rows") == 0 && done == total;
	watched->lists += strcmp(step, "lists") == 0;
	return 0;
}

/* The least memory that works is reported. With it, rows need many passes and lists arrive in
 * several parts. */
Test(verify_compare, little_memory_needs_more_passes_with_the_same_result)
{
	struct rung_verify_opts opts = all_sources();
	struct watched watched = { 0, 0 };
	struct rung_verify_report report;
	int rc, tries = 0;

	flip(source, data_at(source, VERTICES * ROW_BYTES) + 300 * ROW_BYTES + 9);
	flip(edges, data_at(edges, 2 * 8 * EDGES) + 8 * 77);
	make_lists();
	opts.memory_bytes = 1;
	opts.progress = watch;
	opts.progress_ctx = &watched;
	while ((rc = rung_dataset_verify(ds_dir, &opts, &report)) == RUNG_E_INVAL) {
		cr_assert_gt(rung_last_error_min_bytes(), opts.memory_bytes, "%s",
		             rung_last_error());
		opts.memory_bytes = rung_last_error_min_bytes();
		cr_assert_lt(++tries, 20);
	}
	cr_assert_eq(rc, RUNG_E_CORRUPT, "%s", rung_last_error());
	cr_assert_gt(tries, 0);
	cr_assert_lt(opts.memory_bytes, 1 << 20);
	cr_assert_gt(watched.rows, 10);
	cr_assert_gt(watched.lists, 1);
	cr_assert_eq(report.rows_compared, VERTICES);
	cr_assert_eq(report.rows_different, 1);
	cr_assert_eq(report.first_different, 300);
	cr_assert_eq(report.lists_compared, VERTICES);
	cr_assert_eq(report.lists_different, 1);
}

Test(verify_compare, a_sample_has_the_given_size_and_finds_its_differences)
{
	struct rung_verify_opts opts = all_sources();
	const uint64_t data = data_at(source, VERTICES * ROW_BYTES);
	struct rung_verify_report report;
	uint64_t found = 0;

	opts.sample_rows = 100;
	report = verified(&opts, 0);
	cr_assert_eq(report.rows_compared, 100);
	cr_assert_eq(report.lists_compared, 100);
	cr_assert_eq(report.labels_compared, VERTICES);
	opts.sample_rows = VERTICES + 5;
	report = verified(&opts, 0);
	all_agree(&report);
	opts.sample_share = 0.25;
	opts.seed = 7;
	for (uint64_t v = 0; v < VERTICES; v += 2)
		flip(source, data + v * ROW_BYTES);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.rows_compared, 150);
	found = report.rows_different;
	/* expected 75, standard deviation 6 */
	cr_assert(found > 40 && found < 110, "%" PRIu64, found);
	cr_assert_eq(report.first_different % 2, 0);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.rows_different, found);
	opts.seed = 8;
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.rows_compared, 150);
	opts.sample_share = 1.5;
	cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_INVAL);
}

Test(verify_compare, a_sample_finds_lists_that_differ)
{
	struct rung_verify_opts opts = all_sources();
	struct rung_verify_report report;

	opts.sample_rows = 300;
	graph.undirected = 1; /* nearly every list differs */
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert_eq(report.lists_compared, 300);
	cr_assert(report.lists_different > 250 && report.lists_different <= 300, "%" PRIu64,
	          report.lists_different);
	graph.undirected = 0;
}

Test(verify_compare, sources_of_another_shape_are_rejected)
{
	struct rung_verify_opts opts = all_sources();

	opts.labels = train;
	cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "give the labels that were staged"), "%s",
	          rung_last_error());
	opts.labels = labels;
	opts.score = labels;
	cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_FORMAT);
	opts.score = score;
	opts.source = labels;
	cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "give the features that were staged"), "%s",
	          rung_last_error());
	opts.source = source;
	graph.specs = (const char *[]){ "none.npy" };
	cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_NOENT);
	graph.specs = specs;
}

/* Swaps two entries of a map and updates all checksums, as if a faulty program had staged it. */
static void stage_wrong_map(void)
{
	struct rung__manifest *m;
	const struct rung__manifest_file *map;
	size_t map_bytes, sums_bytes, text_bytes;
	char *text = (char *)support_read_file(file_at("manifest.json"), &text_bytes);
	unsigned char *ids = support_read_file(file_at("vertex_of_rank.npy"), &map_bytes), *sums,
		      entry[4];
	uint64_t sum;

	cr_assert_eq(rung__manifest_parse("manifest.json", text, text_bytes, &m), 0);
	memcpy(entry, ids + 4096, 4);
	memcpy(ids + 4096, ids + 4100, 4);
	memcpy(ids + 4100, entry, 4);
	cr_assert_eq(support_write_file(path, ids, map_bytes), 0);
	map = rung__manifest_file(m, "vertex_of_rank.npy");
	sum = rung__checksum(ids, map_bytes);
	sums = support_read_file(file_at("checksums.npy"), &sums_bytes);
	memcpy(sums + 4096 + 8 * map->first_block, &sum, 8);
	cr_assert_eq(support_write_file(path, sums, sums_bytes), 0);
	m->checksums_sums[0] = rung__checksum(sums, sums_bytes);
	free(text);
	cr_assert_eq(rung__manifest_format(m, &text), 0);
	cr_assert_eq(support_write_file(file_at("manifest.json"), text, strlen(text)), 0);
	rung__manifest_destroy(m);
	rung__free(text);
	free(ids);
	free(sums);
}

Test(verify_compare, maps_that_are_not_each_others_inverse_are_detected)
{
	struct rung_verify_opts opts = all_sources(), plain = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;

	stage_wrong_map();
	report = verified(&plain, 0); /* checksums match */
	cr_assert_eq(report.bad_count, 0);
	report = verified(&opts, RUNG_E_CORRUPT);
	cr_assert(report.maps_disagree);
	cr_assert_eq(report.rows_compared, 0);
	cr_assert(strstr(rung_last_error(), "not each other's inverse"), "%s", rung_last_error());
}

static int stop_at(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	(void)done;
	(void)total;
	return strcmp(step, ctx) == 0;
}

Test(verify_compare, it_can_be_canceled_in_every_step)
{
	static const char *const stages[] = { "checksums", "verify", "rows",
		                              "labels",    "score",  "lists" };
	struct rung_verify_opts opts = all_sources();

	opts.progress = stop_at;
	for (size_t i = 0; i < 6; i++) {
		opts.progress_ctx = (void *)stages[i];
		opts.sample_rows = i == 2 ? 50 : 0;
		cr_assert_eq(rung_dataset_verify(ds_dir, &opts, NULL), RUNG_E_CANCELED, "%s",
		             stages[i]);
	}
}

Test(verify_compare, nothing_leaks_whichever_allocation_fails)
{
	for (int sampled = 0; sampled < 2; sampled++) {
		struct rung_verify_opts opts = all_sources();
		int64_t allowed = 0;
		int rc;

		opts.sample_rows = sampled ? 30 : 0;
		opts.memory_bytes = 8 << 20;
		do {
			rung__alloc_limit(allowed++);
			rc = rung_dataset_verify(ds_dir, &opts, NULL);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d %s", rc, rung_last_error());
		} while (rc == RUNG_E_NOMEM);
		cr_assert_gt(allowed, 40);
	}
}
