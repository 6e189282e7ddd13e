/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that are members of .npz files. Deflated members larger than the budget give the same
 * files as plain sources, with every plan that supports them, resumed and verified. Damage of
 * stored members is detected wherever they are read in order. */
#include "base/base.h"
#include "npz.h"
#include "source/source.h"
#include "stage_fixture.h"
#include "rows/stage_schedule.h"
#include "stage/stage_memory.h"

TestSuite(stage_deflated, .init = setup, .fini = teardown, .timeout = 300);

#define WIDE_ROWS  31000u
#define WIDE_BYTES 1500u
#define MANY_ROWS  140000u
#define MANY_EDGES 180000u

static char reference[310], npz[310], npz_features[330], npz_labels[330], npz_edges[330];

/* Features that deflate well, so that the tests are fast. */
static void write_features(uint64_t rows, uint64_t row_bytes)
{
	unsigned char *data = calloc(rows, row_bytes);
	char shape[64];

	for (uint64_t v = 0; v < rows; v++)
		support_row(v, RUNG__MIN(row_bytes, 40u), data + v * row_bytes);
	snprintf(shape, sizeof(shape), "(%llu, %llu)", (unsigned long long)rows,
	         (unsigned long long)row_bytes);
	cr_assert_eq(support_write_npy(features, "|u1", shape, data, rows * row_bytes), 0);
	free(data);
}

static void deflate_sources(void)
{
	snprintf(npz, sizeof(npz), "%s/data.npz", dir);
	deflate_into(npz, "node_feat.npy", features);
	deflate_into(npz, "node_label.npy", labels);
	deflate_into(npz, "edge_index.npy", edges);
	snprintf(npz_features, sizeof(npz_features), "%s:node_feat", npz);
	snprintf(npz_labels, sizeof(npz_labels), "%s:node_label", npz);
	snprintf(npz_edges, sizeof(npz_edges), "%s:edge_index", npz);
}

/* Stages the reference from plain sources and removes these, so that nothing can read them by
 * mistake. */
static void stage_reference(uint64_t rows, uint64_t row_bytes, uint64_t edge_count)
{
	cr_assert_eq(support_sources(dir, rows, edge_count, 1, 9), 0);
	write_features(rows, row_bytes);
	snprintf(reference, sizeof(reference), "%s/reference", dir);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.out_dir = reference;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.out_dir = out;
	deflate_sources();
	specs[0] = npz_edges;
	opts.features = npz_features;
	opts.labels = npz_labels;
	cr_assert_eq(unlink(features) + unlink(labels) + unlink(edges), 0);
}

/* Stages with the least memory that works. */
static struct rung_stage_report stage_with_least(void)
{
	struct rung_stage_report report;
	int rc, tries = 0;

	opts.memory_bytes = 1;
	while ((rc = rung_stage(&opts, &report)) == RUNG_E_INVAL &&
	       rung_last_error_min_bytes() > opts.memory_bytes && tries++ < 9)
		opts.memory_bytes = rung_last_error_min_bytes();
	cr_assert_eq(rc, 0, "%s", rung_last_error());
	cr_assert_leq(report.memory_bytes, report.budget_bytes);
	same_files(reference, out);
	no_leftovers(out);
	support_remove(out);
	return report;
}

/* A given score, so that rows need most of the memory. */
static void write_score(void)
{
	static float score[WIDE_ROWS];
	static char path[310];
	char shape[32];

	for (unsigned v = 0; v < WIDE_ROWS; v++)
		score[v] = (float)(v * 7919 % WIDE_ROWS);
	snprintf(path, sizeof(path), "%s/score.npy", dir);
	snprintf(shape, sizeof(shape), "(%u,)", WIDE_ROWS);
	cr_assert_eq(support_write_npy(path, "<f4", shape, score, sizeof(score)), 0);
	opts.score_spec = path;
}

Test(stage_deflated, features_larger_than_the_budget_are_inflated_as_they_are_read)
{
	struct rung_stage_report report;

	write_score();
	stage_reference(WIDE_ROWS, WIDE_BYTES, 900);
	for (int plan = RUNG_ROW_ORDER_AUTO; plan <= RUNG_ROW_ORDER_PARTITION; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		opts.memory_bytes = UINT64_C(14) << 20;
		cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
		cr_assert_leq(report.memory_bytes, opts.memory_bytes);
		cr_assert_lt(3 * opts.memory_bytes, report.feature_bytes);
		cr_assert_gt(report.range_count, 3);
		same_files(reference, out);
		support_remove(out);
	}
	report = stage_with_least();
	cr_assert_lt(3 * report.budget_bytes, report.feature_bytes);
	opts.row_order = RUNG_ROW_ORDER_GATHER;
	fails(RUNG_E_INVAL, "cannot be read one by one");
}

Test(stage_deflated, labels_and_edges_are_inflated_as_they_are_read)
{
	stage_reference(MANY_ROWS, 8, MANY_EDGES);
	for (int in_files = 0; in_files < 2; in_files++) {
		rung__stage_graph_in_files = in_files;
		opts.memory_bytes = 0;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		same_files(reference, out);
		support_remove(out);
	}
	opts.row_order = RUNG_ROW_ORDER_PARTITION;
	stage_with_least();
}

/* Writes the lists of the reference as two deflated members and returns their csc: spec. */
static void make_columns(char *spec, size_t spec_bytes)
{
	struct rung_graph_opts graph = opts.graph;
	char indptr[310], indices[310], shape[32];
	struct rung_graph *loaded;
	const struct rung_csc *csc;

	graph.vertex_count = MANY_ROWS;
	cr_assert_eq(rung_graph_load(&graph, &loaded), 0, "%s", rung_last_error());
	csc = rung_graph_csc(loaded);
	snprintf(indptr, sizeof(indptr), "%s/indptr.npy", dir);
	snprintf(indices, sizeof(indices), "%s/indices.npy", dir);
	snprintf(shape, sizeof(shape), "(%u,)", MANY_ROWS + 1);
	cr_assert_eq(support_write_npy(indptr, "<u8", shape, csc->indptr,
	                               (MANY_ROWS + 1) * sizeof(uint64_t)),
	             0);
	snprintf(shape, sizeof(shape), "(%llu,)", (unsigned long long)csc->edge_count);
	cr_assert_eq(support_write_npy(indices, "<u4", shape, csc->indices, csc->edge_count * 4),
	             0);
	rung_graph_destroy(loaded);
	deflate_into(npz, "indptr", indptr);
	deflate_into(npz, "indices", indices);
	cr_assert_eq(unlink(indptr) + unlink(indices), 0);
	snprintf(spec, spec_bytes, "csc:%s:indptr,%s:indices", npz, npz);
}

/* In files and sorted in files, each with the least memory. Columns that are read as rows twice
 * give the original graph. */
Test(stage_deflated, columns_are_inflated_as_they_are_read)
{
	char spec[700];

	stage_reference(MANY_ROWS, 8, 2 * MANY_EDGES);
	make_columns(spec, sizeof(spec));
	specs[0] = spec;
	stage_with_least();
	rung__stage_graph_in_files = true;
	stage_with_least();
	opts.graph.dedup = opts.graph.undirected = 1;
	opts.memory_bytes = 0;
	support_remove(reference);
	opts.out_dir = reference;
	rung__stage_graph_in_files = false;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.out_dir = out;
	rung__stage_graph_in_files = true;
	stage_with_least();
}

static unsigned long long stop_done;

static int stop_in_features(void *ctx, const char *name, unsigned long long done,
                            unsigned long long total)
{
	(void)ctx;
	(void)total;
	return stop_done && strcmp(name, "features") == 0 && done >= stop_done;
}

Test(stage_deflated, a_stopped_run_resumes_to_the_same_bytes)
{
	const unsigned long long bytes = (unsigned long long)WIDE_ROWS * WIDE_BYTES;

	stage_reference(WIDE_ROWS, WIDE_BYTES, 900);
	opts.memory_bytes = UINT64_C(16) << 20;
	opts.progress = stop_in_features;
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_PARTITION; plan++) {
		for (int part = 2; part <= 5; part += 3) {
			opts.row_order = (enum rung_row_order)plan;
			opts.resume = 0;
			stop_done = bytes * (unsigned)part *
			            (plan == RUNG_ROW_ORDER_PARTITION ? 4 : 5) / 8;
			cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED, "%d %d: %s", plan,
			             part, rung_last_error());
			stop_done = 0;
			opts.resume = 1;
			cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
			same_files(reference, out);
			no_leftovers(out);
			support_remove(out);
		}
	}
}

Test(stage_deflated, verify_compares_samples_and_repairs_from_them)
{
	static const char *const names[] = { "features.000.npy", "labels.npy",
		                             "graph_indices.npy" };
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;
	struct rung_graph_opts graph = opts.graph;

	stage_reference(MANY_ROWS, 40, MANY_EDGES);
	graph.vertex_count = MANY_ROWS;
	verify.source = npz_features;
	verify.labels = npz_labels;
	verify.graph = &graph;
	cr_assert_eq(rung_dataset_verify(reference, &verify, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.rows_compared + report.lists_compared + report.labels_compared,
	             3 * MANY_ROWS);
	verify.sample_rows = 5000;
	cr_assert_eq(rung_dataset_verify(reference, &verify, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.rows_compared + report.lists_compared, 10000);
	verify.repair = 1;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++) {
		unsigned char *bytes;
		char path[400];
		size_t count;

		snprintf(path, sizeof(path), "%s/%s", reference, names[i]);
		bytes = support_read_file(path, &count);
		bytes[count - 77] ^= 4;
		cr_assert_eq(support_write_file(path, bytes, count), 0);
		free(bytes);
		cr_assert_eq(rung_dataset_verify(reference, &verify, &report), 0, "%s",
		             rung_last_error());
		cr_assert_eq(report.repaired_count, 1);
		rung_verify_report_fini(&report);
	}
}

/* Writes the file as a stored member with one bit changed. */
static const char *damaged_member(const char *npy)
{
	static char specs_of[5][330];
	static int next;
	char *spec = specs_of[next++ % 5];

	snprintf(npz, sizeof(npz), "%s/%d.npz", dir, next);
	add_to_npz(npz, "m.npy", npy, ZIP_CM_STORE);
	damage_stored(npz, 8);
	snprintf(spec, sizeof(specs_of[0]), "%s:m", npz);
	return spec;
}

static void finds_damage(void)
{
	assert_error(rung_stage(&opts, NULL), RUNG_E_FORMAT,
	             ".npz:m: damaged: its CRC differs from the one in its zip entry");
	cr_assert_not(exists(out));
	support_remove(partial);
}

Test(stage_deflated, a_damaged_stored_member_is_detected_if_read_in_order)
{
	static float score[VERTICES];
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;
	char score_file[310];

	opts.score.method = RUNG_SCORE_DEGREE;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	verify.source = damaged_member(features);
	assert_error(rung_dataset_verify(out, &verify, &report), RUNG_E_FORMAT, "its CRC differs");
	support_remove(out);
	rung__stage_range_rows_max = 7;
	opts.features = verify.source;
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_PARTITION; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		finds_damage();
	}
	/* rows are read at their offsets: only a reader of the whole file can detect the damage */
	opts.row_order = RUNG_ROW_ORDER_GATHER;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	support_remove(out);
	opts.row_order = RUNG_ROW_ORDER_AUTO;
	opts.features = features;
	opts.labels = damaged_member(labels);
	finds_damage();
	opts.labels = labels;
	splits[1].spec = damaged_member(valid);
	finds_damage();
	splits[1].spec = valid;
	snprintf(score_file, sizeof(score_file), "%s/score.npy", dir);
	cr_assert_eq(support_write_npy(score_file, "<f4", "(60,)", score, sizeof(score)), 0);
	opts.score_spec = damaged_member(score_file);
	finds_damage();
	opts.score_spec = NULL;
	specs[0] = damaged_member(edges);
	for (int in_files = 0; in_files < 2; in_files++) {
		rung__stage_graph_in_files = in_files;
		finds_damage();
	}
}

Test(stage_deflated, damaged_stored_columns_are_detected)
{
	static const uint64_t indptr[VERTICES + 1] = { [1] = 2, [2] = 4 };
	static const uint32_t narrow[4] = { 5, 6, 7, 8 };
	uint64_t offsets[VERTICES + 1], wide[4] = { 5, 6, 7, 8 };
	char indptr_file[310], narrow_file[310], wide_file[310], spec[1000];
	const char *files[2];

	for (unsigned v = 0; v <= VERTICES; v++)
		offsets[v] = v < 3 ? indptr[v] : 4;
	snprintf(indptr_file, sizeof(indptr_file), "%s/indptr.npy", dir);
	snprintf(narrow_file, sizeof(narrow_file), "%s/narrow.npy", dir);
	snprintf(wide_file, sizeof(wide_file), "%s/wide.npy", dir);
	cr_assert_eq(support_write_npy(indptr_file, "<u8", "(61,)", offsets, sizeof(offsets)), 0);
	cr_assert_eq(support_write_npy(narrow_file, "<u4", "(4,)", narrow, sizeof(narrow)),
	             0); /* this file is read in place */
	cr_assert_eq(support_write_npy(wide_file, "<u8", "(4,)", wide, sizeof(wide)),
	             0); /* and this one through a buffer */
	opts.score.method = RUNG_SCORE_DEGREE;
	specs[0] = spec;
	for (int i = 0; i < 6; i++) {
		rung__stage_graph_in_files = i % 2;
		files[0] = i < 4 ? indptr_file : damaged_member(indptr_file);
		files[1] = i < 2   ? damaged_member(narrow_file)
		           : i < 4 ? damaged_member(wide_file)
		                   : wide_file;
		snprintf(spec, sizeof(spec), "csc:%s,%s", files[0], files[1]);
		finds_damage();
	}
}
