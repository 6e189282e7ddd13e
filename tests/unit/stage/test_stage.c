/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: the files that it writes, and the inputs that it rejects. For interrupted runs see
 * test_stage_stopped.c, for output folders test_stage_out.c. */
#include <math.h>

#include "base/base.h"
#include "stage_fixture.h"

TestSuite(stage, .init = setup, .fini = teardown, .timeout = 300);

static const char *put_npy(const char *name, const char *descr, const char *shape, const void *data,
                           size_t bytes)
{
	static char paths[8][400];
	static int next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	cr_assert_eq(support_write_npy(path, descr, shape, data, bytes), 0);
	return path;
}

static void rows_are_right(const char *folder, uint64_t vertices, uint64_t row_bytes)
{
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;
	unsigned char *file, *row = malloc(row_bytes);
	struct rung_dataset *ds;
	uint64_t count, *vertex;
	char path[512];
	size_t bytes;

	snprintf(path, sizeof(path), "%s/features.000.npy", folder);
	file = support_read_file(path, &bytes);
	cr_assert_eq(bytes, 4096 + vertices * row_bytes);
	cr_assert_eq(rung_dataset_open(folder, &ds), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex), 0);
	cr_assert_eq(count, vertices);
	for (uint64_t r = 0; r < vertices; r++) {
		support_row(vertex[r], row_bytes, row);
		cr_assert_eq(memcmp(file + 4096 + r * row_bytes, row, row_bytes), 0,
		             "rank %" PRIu64, r);
	}
	rung_free(vertex);
	rung_dataset_close(ds);
	verify.source = features;
	cr_assert_eq(rung_dataset_verify(folder, &verify, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.rows_compared, vertices);
	rung_verify_report_fini(&report);
	free(file);
	free(row);
}

Test(stage, a_small_dataset_is_staged_and_reported)
{
	struct rung_stage_report report;
	struct rung_dataset *ds;
	uint64_t bytes = 0;

	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_not(exists(partial));
	rows_are_right(out, VERTICES, ROW_BYTES);
	cr_assert_eq(report.vertex_count, VERTICES);
	cr_assert_eq(report.edge_count, EDGES);
	cr_assert_eq(report.row_bytes, ROW_BYTES);
	cr_assert_eq(report.feature_bytes, VERTICES * ROW_BYTES);
	cr_assert_gt(report.free_bytes, report.bytes_written);
	cr_assert_eq(report.score.iterations, 2); /* one iteration per hop */
	cr_assert_eq(report.score.batches_sampled, 4);
	cr_assert_eq(rung_dataset_open(out, &ds), 0);
	for (size_t i = 0; i < rung_dataset_info(ds)->file_count; i++)
		bytes += rung_dataset_file(ds, i)->bytes;
	cr_assert_eq(report.bytes_written, bytes);
	rung_dataset_close(ds);
}

Test(stage, rows_are_right_for_all_widths_threads_and_block_counts)
{
	static const uint64_t widths[] = { 1, 4, 100, 1536, 4096, 5000, 300000 };

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		/* the widest rows are read one by one, without the bounce buffer */
		uint64_t vertices = widths[i] > 100000 ? 150 : 6000;

		opts.threads = (uint32_t)i % 4;
		opts.force = i > 0;
		cr_assert_eq(support_sources(dir, vertices, 3 * vertices, widths[i], i), 0);
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
		rows_are_right(out, vertices, widths[i]);
		cr_assert_not(exists(partial));
	}
}

Test(stage, the_same_input_gives_the_same_bytes_for_any_number_of_threads)
{
	char other[310];

	cr_assert_eq(support_sources(dir, 3000, 20000, 64, 8), 0);
	opts.threads = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0);
	snprintf(other, sizeof(other), "%s2", out);
	opts.out_dir = other;
	opts.threads = 3;
	cr_assert_eq(rung_stage(&opts, NULL), 0);
	same_files(out, other);
}

Test(stage, one_row_and_no_edges_work)
{
	const char *lone[1];

	lone[0] = put_npy("none.npy", "<i8", "(2, 0)", NULL, 0);
	snprintf(features, sizeof(features), "%s",
	         put_npy("one.npy", "|u1", "(1, 3)",
	                 (unsigned char[]){ support_row_byte(0, 0), support_row_byte(0, 1),
	                                    support_row_byte(0, 2) },
	                 3));
	opts.graph.specs = lone;
	opts.labels = NULL;
	opts.split_count = 0;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	rows_are_right(out, 1, 3);
}

Test(stage, a_given_score_orders_the_rows)
{
	float score[VERTICES];
	struct rung_dataset *ds;
	uint64_t count, *vertex;

	for (unsigned v = 0; v < VERTICES; v++)
		score[v] = (float)(v * 17 % VERTICES);
	opts.score_spec = put_npy("score.npy", "<f4", "(60,)", score, sizeof(score));
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &ds), 0);
	cr_assert_str_eq(rung_dataset_info(ds)->score_method, "given");
	cr_assert_eq(rung_dataset_info(ds)->score_iterations, 0);
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex), 0);
	for (uint64_t r = 0; r < count; r++)
		cr_assert_float_eq(score[vertex[r]], (float)(VERTICES - 1 - r), 0);
	rung_free(vertex);
	rung_dataset_close(ds);
}

Test(stage, bf16_and_carried_parameters_are_kept)
{
	static const uint32_t fanouts[] = { 15, 10, 5 };
	struct rung_dataset *ds;
	uint16_t rows[VERTICES * 2] = { 0 };

	opts.features = put_npy("bf16.npy", "|V2", "(60, 2)", rows, sizeof(rows));
	opts.fanouts = fanouts;
	opts.fanout_count = 3;
	opts.batch_size = 77;
	opts.score.method = RUNG_SCORE_DEGREE;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &ds), 0);
	cr_assert_eq(rung_dataset_info(ds)->features.dtype, RUNG_BF16);
	cr_assert_eq(rung_dataset_info(ds)->fanouts[2], 5);
	cr_assert_eq(rung_dataset_info(ds)->batch_size, 77);
	cr_assert_str_eq(rung_dataset_info(ds)->score_method, "degree");
	cr_assert_float_eq(rung_dataset_info(ds)->score_damping, 0, 0);
	rung_dataset_close(ds);
}

/* Stages with a method and opens the dataset. */
static struct rung_dataset *staged_by(enum rung_score_method method)
{
	struct rung_dataset *ds = NULL;

	opts.force = 1;
	opts.score.method = method;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &ds), 0, "%s", rung_last_error());
	return ds;
}

Test(stage, the_manifest_records_the_parameters_of_the_score)
{
	static const struct {
		enum rung_score_method method;
		const char *name;
		uint32_t iterations; /* 0: damping does not apply either */
		uint64_t batches;    /* 0: nothing is sampled */
	} cases[] = {
		{ RUNG_SCORE_DEFAULT, "blend", 0, 4 },
		{ RUNG_SCORE_BLEND, "blend", 0, 4 },
		{ RUNG_SCORE_PRESAMPLE, "presample", 0, 2 },
		{ RUNG_SCORE_EXPECTED, "expected", 0, 0 },
		{ RUNG_SCORE_DEGREE, "degree", 0, 0 },
		{ RUNG_SCORE_PPR, "ppr", 3, 0 },
		{ RUNG_SCORE_WRPAGERANK, "wrpagerank", 3, 0 },
		{ RUNG_SCORE_RPAGERANK, "rpagerank", 3, 0 },
	};

	opts.score.iterations = 3;
	opts.score.seed = 77;
	opts.score.draws = RUNG_DRAWS_NEW;
	opts.batch_size = 5;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rung_dataset *ds = staged_by(cases[i].method);
		const struct rung_dataset_info *info = rung_dataset_info(ds);

		cr_assert_str_eq(info->score_method, cases[i].name);
		cr_assert_eq(info->score_iterations, cases[i].iterations, "%s", cases[i].name);
		cr_assert_float_eq(info->score_damping, cases[i].iterations ? 0.85 : 0, 1e-12, "%s",
		                   cases[i].name);
		cr_assert_eq(info->score_sampled, cases[i].batches > 0, "%s", cases[i].name);
		cr_assert_eq(info->score_batches, cases[i].batches, "%s", cases[i].name);
		cr_assert_eq(info->score_seed, cases[i].batches ? 77 : 0, "%s", cases[i].name);
		cr_assert_eq(info->draws, RUNG_DRAWS_NEW);
		rung_dataset_close(ds);
	}
	opts.score.seed = UINT64_C(1) << 63;
	opts.score.method = RUNG_SCORE_BLEND;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "9223372036854775808"), "%s", rung_last_error());
	opts.score.draws = (enum rung_draws)7;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "7 is not a valid value"), "%s", rung_last_error());
}

Test(stage, the_score_uses_the_fanouts_and_batches_of_the_dataset)
{
	static const uint32_t fanouts[] = { 2, 1, 1 };
	struct rung_graph_opts graph_opts = opts.graph;
	struct rung_score_opts score_opts = RUNG_SCORE_OPTS_INIT;
	struct rung_graph *graph;
	struct rung_dataset *ds;
	uint64_t count, *vertex, *ids;
	float wanted[VERTICES], *score;
	struct rung_source *src;

	opts.fanouts = fanouts;
	opts.fanout_count = 3;
	opts.batch_size = 4;
	ds = staged_by(RUNG_SCORE_EXPECTED);
	graph_opts.vertex_count = VERTICES;
	cr_assert_eq(rung_graph_load(&graph_opts, &graph), 0);
	cr_assert_eq(rung_source_open(train, &src), 0);
	cr_assert_eq(rung_source_read_vertices(src, VERTICES, 1, &count, &ids), 0);
	score_opts.method = RUNG_SCORE_EXPECTED;
	score_opts.fanouts = fanouts;
	score_opts.hop_count = 3;
	score_opts.batch_size = 4;
	score_opts.train = ids;
	score_opts.train_count = count;
	cr_assert_eq(rung_score_compute(rung_graph_csc(graph), &score_opts, wanted, NULL), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex), 0);
	cr_assert_eq(rung_dataset_load_array(ds, "score", NULL, (void **)&score), 0);
	for (uint64_t r = 0; r < VERTICES; r++)
		cr_assert_eq(score[r], wanted[vertex[r]], "rank %" PRIu64, r);
	rung_free(score);
	rung_free(vertex);
	rung_free(ids);
	rung_source_close(src);
	rung_graph_destroy(graph);
	rung_dataset_close(ds);
}

Test(stage, a_repeated_id_is_rejected_in_every_split)
{
	static float score[VERTICES];

	splits[0].spec = put_npy("twice.npy", "<i8", "(4,)", (int64_t[]){ 5, 7, 59, 7 }, 32);
	fails(RUNG_E_FORMAT, "twice.npy: entries 1 and 3 are both 7; give each id once");
	splits[0].name = "other";
	fails(RUNG_E_FORMAT, "twice.npy: entries 1 and 3 are both 7");
	splits[0].name = "train";
	opts.score_spec = put_npy("score.npy", "<f4", "(60,)", score, sizeof(score));
	fails(RUNG_E_FORMAT, "twice.npy: entries 1 and 3 are both 7");
}

Test(stage, an_empty_train_split_is_rejected_if_a_score_is_computed)
{
	static const unsigned char mask[VERTICES];
	static float score[VERTICES];

	splits[0].spec = put_npy("empty.npy", "<i8", "(0,)", NULL, 0);
	fails(RUNG_E_FORMAT, "empty.npy: has no train vertex; omit the split 'train'");
	splits[0].spec = put_npy("mask.npy", "|b1", "(60,)", mask, sizeof(mask));
	fails(RUNG_E_FORMAT, "mask.npy: has no train vertex");
	opts.dry_run = 1;
	fails(RUNG_E_FORMAT, "mask.npy: has no train vertex");
	opts.dry_run = 0;
	splits[0].name = "other";
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	splits[0].name = "train";
	opts.force = 1;
	opts.score_spec = put_npy("score.npy", "<f4", "(60,)", score, sizeof(score));
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
}

Test(stage, a_given_score_may_be_infinite_but_not_nan)
{
	float score[VERTICES] = { 0 };
	struct rung_dataset *ds;
	uint64_t count, *vertex;

	score[41] = NAN;
	opts.score_spec = put_npy("nan.npy", "<f4", "(60,)", score, sizeof(score));
	fails(RUNG_E_FORMAT, "nan.npy: score 41 is NaN");
	score[41] = INFINITY;
	opts.score_spec = put_npy("inf.npy", "<f4", "(60,)", score, sizeof(score));
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &ds), 0);
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex), 0);
	cr_assert_eq(vertex[0], 41);
	rung_free(vertex);
	rung_dataset_close(ds);
}

/* The minimum is twice the graph. The memory for the score, in addition to the graph, grows with
 * each hop. */
Test(stage, the_reported_memory_includes_the_score)
{
	static const uint32_t fanouts[] = { 5, 5, 5, 5 };
	struct rung_stage_report few, many;

	opts.dry_run = 1;
	opts.fanouts = fanouts;
	opts.score.method = RUNG_SCORE_DEGREE;
	cr_assert_eq(rung_stage(&opts, &few), 0);
	cr_assert_gt(few.memory_bytes, 2 * (8 * (VERTICES + 1) + 4 * EDGES));
	opts.score.method = RUNG_SCORE_EXPECTED;
	opts.fanout_count = 1;
	cr_assert_eq(rung_stage(&opts, &few), 0);
	opts.fanout_count = 4;
	cr_assert_eq(rung_stage(&opts, &many), 0);
	cr_assert_geq(many.memory_bytes, few.memory_bytes + 3 * 4 * VERTICES);
}

Test(stage, inconsistent_lengths_are_rejected)
{
	static const unsigned char zeros[VERTICES * 8];

	opts.features = put_npy("zero.npy", "|u1", "(0, 4)", NULL, 0);
	fails(RUNG_E_FORMAT, "has 0 rows");
	opts.features = put_npy("thin.npy", "|u1", "(60, 0)", NULL, 0);
	fails(RUNG_E_FORMAT, "rows of 0 bytes");
	opts.features = features;
	opts.graph.vertex_count = 61;
	fails(RUNG_E_FORMAT, "has 60 rows, but the graph has 61 vertices");
	cr_assert(strstr(rung_last_error(), "--vertices"));
	opts.graph.vertex_count = 0;
	opts.labels = put_npy("l.npy", "|u1", "(59,)", zeros, 59);
	fails(RUNG_E_FORMAT, "has 59 labels");
	opts.labels = NULL;
	splits[1].spec = put_npy("mask.npy", "|b1", "(61,)", (unsigned char[61]){ 0 }, 61);
	fails(RUNG_E_FORMAT, "the mask has 61 entries, but there are 60 vertices");
	splits[1].spec = put_npy("many.npy", "|u1", "(61,)", (unsigned char[61]){ 0 }, 61);
	fails(RUNG_E_FORMAT, "has 61 ids");
	splits[1].spec = put_npy("real.npy", "<f4", "(15,)", zeros, 60);
	fails(RUNG_E_FORMAT, "this is f32 and 1-D");
	splits[1].spec = put_npy("flat.npy", "|u1", "(30, 2)", zeros, 60);
	fails(RUNG_E_FORMAT, "this is u8 and 2-D");
	splits[1].spec = valid;
	opts.score_spec = put_npy("s.npy", "<f4", "(15,)", zeros, 60);
	fails(RUNG_E_FORMAT, "has 15 scores");
	opts.score_spec = put_npy("d.npy", "<f8", "(60,)", zeros, 480);
	fails(RUNG_E_FORMAT, "scores are f64");
	opts.score_spec = NULL;
	opts.features = put_npy("few.npy", "|u1", "(20, 3)", zeros, 60);
	opts.split_count = 0;
	fails(RUNG_E_RANGE, "edges.npy");
}

Test(stage, ids_out_of_range_are_named_with_position_and_value)
{
	splits[0].spec = put_npy("a.npy", "<i4", "(3,)", (int32_t[]){ 5, -7, 1 }, 12);
	fails(RUNG_E_RANGE, "entry 1 is -7, but vertex ids are 0 to 59");
	splits[0].spec = put_npy("b.npy", "|i1", "(2,)", (int8_t[]){ 5, -128 }, 2);
	fails(RUNG_E_RANGE, "entry 1 is -128");
	splits[0].spec = put_npy("c.npy", "<i8", "(2,)", (int64_t[]){ INT64_MIN, 0 }, 16);
	fails(RUNG_E_RANGE, "entry 0 is -9223372036854775808");
	splits[0].spec = put_npy("d.npy", "<u8", "(3,)", (uint64_t[]){ 0, 1, UINT64_MAX }, 24);
	fails(RUNG_E_RANGE, "entry 2 is 18446744073709551615");
	splits[0].spec = put_npy("e.npy", "<u2", "(2,)", (uint16_t[]){ 59, 60 }, 4);
	fails(RUNG_E_RANGE, "entry 1 is 60");
}

Test(stage, split_names_are_checked)
{
	static const char *const bad[] = {
		"",         "a/b",
		"..",       "a b",
		"\xc3\xa4", "0123456789012345678901234567890123456789012345678901234567890123"
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		splits[1].name = bad[i];
		fails(RUNG_E_INVAL, "letters, digits");
	}
	splits[1].name = "train";
	fails(RUNG_E_INVAL, "split 'train' is given twice");
}
