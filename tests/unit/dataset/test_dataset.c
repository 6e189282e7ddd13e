/* SPDX-License-Identifier: Apache-2.0 */
/* Opening staged datasets: their contents, and rejection of incomplete and forged folders. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/checksum.h"
#include "dataset.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "rung/rung.h"
#include "expect_error.h"

#define VERTICES  500u
#define EDGES     3000u
#define ROW_BYTES 24u

static char dir[256], ds_dir[300], path[512];

static void setup(void)
{
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	snprintf(ds_dir, sizeof(ds_dir), "%s/ds", dir);
	cr_assert_eq(support_dataset(dir, VERTICES, EDGES, ROW_BYTES, 3), 0, "%s",
	             rung_last_error());
}

static void teardown(void)
{
	support_remove(dir);
}

TestSuite(dataset, .init = setup, .fini = teardown);

static const char *file_at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", ds_dir, name);
	return path;
}

static void fails(int status, const char *words)
{
	struct rung_dataset *ds = NULL;

	assert_error(rung_dataset_open(ds_dir, &ds), status, words);
	cr_assert_null(ds);
}

static struct rung_dataset *opened(void)
{
	struct rung_dataset *ds = NULL;

	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0, "%s", rung_last_error());
	return ds;
}

Test(dataset, info_describes_the_staged_data)
{
	struct rung_dataset *ds = opened();
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	uint64_t sizes = 0;

	cr_assert_str_eq(rung_dataset_dir(ds), ds_dir);
	cr_assert_eq(info->format_version, 1);
	cr_assert_eq(info->vertex_count, VERTICES);
	cr_assert_eq(info->edge_count, EDGES);
	cr_assert_eq(info->features.dtype, RUNG_U8);
	cr_assert_eq(info->features.row_bytes, ROW_BYTES);
	cr_assert_eq(info->row_stride, ROW_BYTES);
	cr_assert_eq(info->feature_bytes, VERTICES * ROW_BYTES);
	cr_assert_eq(info->index_bytes, 4);
	cr_assert_str_eq(info->score_method, "wrpagerank");
	cr_assert_eq(info->score_iterations, 5);
	cr_assert_float_eq(info->score_damping, 0.85, 1e-12);
	cr_assert_eq(info->fanout_count, 2);
	cr_assert_eq(info->fanouts[0], 25);
	cr_assert_eq(info->fanouts[1], 10);
	cr_assert_eq(info->batch_size, 1024);
	cr_assert_eq(info->draws, RUNG_DRAWS_ALL);
	cr_assert_eq(info->score_sampled, 0);
	cr_assert_eq(info->has_labels, 1);
	cr_assert_eq(info->split_count, 2);
	cr_assert_str_eq(info->split_names[0], "train");
	cr_assert_str_eq(info->split_names[1], "valid");
	cr_assert_eq(info->file_count, 11);
	for (size_t i = 0; i < info->file_count; i++) {
		const struct rung_dataset_file *file = rung_dataset_file(ds, i);
		struct stat st;

		cr_assert_eq(stat(file_at(file->name), &st), 0, "%s", path);
		cr_assert_eq((uint64_t)st.st_size, file->bytes, "%s", path);
		cr_assert_eq(file->data_offset, file->array.dtype == RUNG_DTYPE_NONE ? 0 : 4096);
		sizes += file->bytes;
	}
	cr_assert_gt(sizes, info->feature_bytes);
	cr_assert_null(rung_dataset_file(ds, info->file_count));
	rung_dataset_close(ds);
}

/* Staging again exchanges the folders, and removes the old one. */
static void stage_again(void)
{
	support_remove(ds_dir);
	cr_assert_eq(support_dataset(dir, VERTICES, EDGES, ROW_BYTES, 4), 0, "%s",
	             rung_last_error());
}

Test(dataset, an_open_dataset_reads_its_own_files_after_it_was_staged_again)
{
	static const char *const names[] = { "vertex_of_rank", "rank_of_vertex", "labels", "score",
		                             "split_train" };
	struct rung_dataset *before = opened(), *ds = opened();
	struct rung_graph *graphs[2];
	struct rung_plan *plan;
	void *expected[RUNG__ARRAY_LEN(names)], *found;
	struct rung_array_info info;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++)
		cr_assert_eq(rung_dataset_load_array(before, names[i], NULL, &expected[i]), 0);
	cr_assert_eq(rung_dataset_load_graph(before, &graphs[0]), 0);
	stage_again();
	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++) {
		cr_assert_eq(rung_dataset_load_array(ds, names[i], &info, &found), 0, "%s",
		             rung_last_error());
		cr_assert_arr_eq(found, expected[i], info.row_count * info.row_bytes, "%s",
		                 names[i]);
		rung_free(found);
		rung_free(expected[i]);
	}
	cr_assert_eq(rung_dataset_load_graph(ds, &graphs[1]), 0, "%s", rung_last_error());
	cr_assert_arr_eq(rung_graph_csc(graphs[0])->indices, rung_graph_csc(graphs[1])->indices,
	                 EDGES * 4);
	/* rows are not kept open, and those at the path are of the new dataset */
	assert_error(rung_plan_create(ds, NULL, &plan), RUNG_E_FORMAT,
	             "its folder was staged again after it was opened; open it again");
	rung_graph_destroy(graphs[0]);
	rung_graph_destroy(graphs[1]);
	rung_dataset_close(before);
	rung_dataset_close(ds);
}

Test(dataset, arrays_are_in_rank_order_and_maps_are_inverses)
{
	struct rung_dataset *ds = opened();
	uint64_t count, *vertices, *ranks, *train;
	struct rung_array_info info;
	int64_t *labels;
	float *score;
	void *data;

	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertices), 0);
	cr_assert_eq(count, VERTICES);
	cr_assert_eq(rung_dataset_load_ids(ds, "rank_of_vertex", &count, &ranks), 0);
	for (uint64_t r = 0; r < VERTICES; r++)
		cr_assert_eq(ranks[vertices[r]], r);
	cr_assert_eq(rung_dataset_load_array(ds, "labels", &info, &data), 0);
	labels = data;
	cr_assert_eq(info.dtype, RUNG_I64);
	for (uint64_t r = 0; r < VERTICES; r++)
		cr_assert_eq(labels[r], (int64_t)(vertices[r] % 7));
	rung_free(data);
	cr_assert_eq(rung_dataset_load_array(ds, "score", &info, &data), 0);
	score = data;
	for (uint64_t r = 1; r < VERTICES; r++)
		cr_assert(score[r] < score[r - 1] ||
		          (score[r] == score[r - 1] && vertices[r] > vertices[r - 1]));
	rung_free(data);
	cr_assert_eq(rung_dataset_load_ids(ds, "split_train", &count, &train), 0);
	cr_assert_eq(count, (VERTICES + 2) / 3);
	for (uint64_t i = 0; i < count; i++)
		cr_assert_eq(vertices[train[i]], 3 * (count - 1 - i),
		             "the order of the file must be kept");
	rung_free(train);
	cr_assert_eq(rung_dataset_load_ids(ds, "split_valid", &count, &train), 0);
	for (uint64_t i = 0; i < count; i++)
		cr_assert_eq(vertices[train[i]], 3 * i + 1);
	rung_free(train);
	rung_free(vertices);
	rung_free(ranks);
	cr_assert_eq(rung_dataset_load_array(ds, "split_test", NULL, &data), RUNG_E_NOENT);
	cr_assert_eq(rung_dataset_load_array(ds, "graph_indptr", NULL, &data), RUNG_E_NOENT);
	cr_assert_eq(rung_dataset_load_array(ds, "../ds/score", NULL, &data), RUNG_E_NOENT);
	cr_assert_eq(rung_dataset_load_array(ds, "", NULL, &data), RUNG_E_NOENT);
	cr_assert_eq(rung_dataset_load_ids(ds, "labels", &count, &train), RUNG_E_INVAL);
	rung_dataset_close(ds);
}

Test(dataset, the_graph_is_the_original_one_relabelled)
{
	struct rung_dataset *ds = opened();
	uint64_t count, *vertices, *ranks, *at = calloc(VERTICES, sizeof(*at));
	struct rung_graph *graph;
	const struct rung_csc *csc;
	unsigned char *npy;
	int64_t *edges;
	size_t bytes;

	snprintf(path, sizeof(path), "%s/edges.npy", dir);
	npy = support_read_file(path, &bytes);
	edges = (int64_t *)(void *)(npy + bytes - 2 * EDGES * sizeof(*edges));
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertices), 0);
	cr_assert_eq(rung_dataset_load_ids(ds, "rank_of_vertex", &count, &ranks), 0);
	cr_assert_eq(rung_dataset_load_graph(ds, &graph), 0, "%s", rung_last_error());
	csc = rung_graph_csc(graph);
	cr_assert_eq(csc->vertex_count, VERTICES);
	cr_assert_eq(csc->edge_count, EDGES);
	for (uint64_t e = 0; e < EDGES; e++) { /* in the order of the edge list */
		uint64_t dst = ranks[edges[EDGES + e]], place = csc->indptr[dst] + at[dst]++;

		cr_assert_lt(place, csc->indptr[dst + 1]);
		cr_assert_eq(vertices[((const uint32_t *)csc->indices)[place]], (uint64_t)edges[e]);
	}
	rung_graph_destroy(graph);
	rung_free(vertices);
	rung_free(ranks);
	rung_dataset_close(ds);
	free(npy);
	free(at);
}

Test(dataset, other_folders_do_not_open)
{
	struct rung_dataset *ds = NULL;

	snprintf(path, sizeof(path), "%s/none", dir);
	cr_assert_eq(rung_dataset_open(path, &ds), RUNG_E_NOENT);
	cr_assert_eq(rung_dataset_open(dir, &ds), RUNG_E_NOENT);
	cr_assert(strstr(rung_last_error(), "has no manifest.json"));
	snprintf(path, sizeof(path), "%s/edges.npy", dir);
	cr_assert_lt(rung_dataset_open(path, &ds), 0);
	cr_assert_eq(rung_dataset_open(NULL, &ds), RUNG_E_INVAL);
	unlink(file_at("manifest.json"));
	fails(RUNG_E_NOENT, "staging did not finish");
}

Test(dataset, an_unfinished_folder_does_not_open_under_any_name)
{
	char partial[300];
	struct rung_dataset *ds = NULL;

	snprintf(partial, sizeof(partial), "%s/x.partial", dir);
	cr_assert_eq(rename(ds_dir, partial), 0);
	cr_assert_eq(rung_dataset_open(partial, &ds), RUNG_E_NOENT);
	snprintf(path, sizeof(path), "%s///", partial);
	cr_assert_eq(rung_dataset_open(path, &ds), RUNG_E_NOENT);
	cr_assert_eq(chdir(partial), 0);
	cr_assert_eq(rung_dataset_open(".", &ds), RUNG_E_NOENT);
	cr_assert_eq(symlink(partial, ds_dir), 0);
	cr_assert_eq(rung_dataset_open(ds_dir, &ds), RUNG_E_NOENT);
}

Test(dataset, missing_and_truncated_files_are_rejected)
{
	struct rung_dataset *ds = opened();
	size_t count = rung_dataset_info(ds)->file_count - 1; /* except the manifest */

	for (size_t i = 0; i < count; i++) {
		const char *name = rung_dataset_file(ds, i)->name;
		size_t bytes;
		unsigned char *whole = support_read_file(file_at(name), &bytes);
		char gone[600];

		cr_assert_eq(truncate(path, (off_t)bytes - 1), 0);
		fails(RUNG_E_FORMAT, name);
		cr_assert_eq(support_write_file(path, whole, bytes), 0);
		cr_assert_eq(truncate(path, (off_t)bytes + 1), 0);
		fails(RUNG_E_FORMAT, "the manifest records");
		cr_assert_eq(support_write_file(path, whole, bytes), 0);
		snprintf(gone, sizeof(gone), "%s.gone", path);
		cr_assert_eq(rename(path, gone), 0);
		fails(RUNG_E_FORMAT, "is missing");
		cr_assert_eq(symlink(gone, path), 0);
		rung_dataset_close(opened());
		cr_assert_eq(unlink(path), 0);
		cr_assert_eq(symlink("/nowhere", path), 0);
		fails(RUNG_E_FORMAT,
		      strncmp(name, "features.", strlen("features.")) == 0
		              ? "is missing"
		              : "is a symbolic link to a missing file; fetch that file again");
		cr_assert_eq(unlink(path), 0);
		cr_assert_eq(mkdir(path, 0777), 0);
		fails(RUNG_E_FORMAT, "not a regular file");
		cr_assert_eq(rmdir(path), 0);
		cr_assert_eq(rename(gone, path), 0);
		whole[12] ^= 1; /* inside the header's first key */
		cr_assert_eq(support_write_file(path, whole, bytes), 0);
		fails(RUNG_E_FORMAT, name);
		whole[12] ^= 1;
		cr_assert_eq(support_write_file(path, whole, bytes), 0);
		free(whole);
	}
	rung_dataset_close(ds);
	rung_dataset_close(opened());
}

Test(dataset, any_changed_byte_of_the_manifest_is_detected)
{
	size_t bytes;
	char *text = (char *)support_read_file(file_at("manifest.json"), &bytes);

	for (size_t at = 0; at < bytes; at++) {
		for (int bit = 0; bit < 8; bit += 3) {
			text[at] = (char)(text[at] ^ 1 << bit);
			cr_assert_eq(support_write_file(path, text, bytes), 0);
			fails(RUNG_E_CORRUPT, "does not match its own checksum");
			text[at] = (char)(text[at] ^ 1 << bit);
		}
	}
	for (size_t cut = 0; cut < bytes; cut += 13) {
		cr_assert_eq(support_write_file(path, text, cut), 0);
		fails(RUNG_E_CORRUPT, "does not match its own checksum");
	}
	free(text);
}

static void forge(const char *original, const char *from, const char *to)
{
	cr_assert_eq(support_forge(ds_dir, original, from, to), 0, "%s is not in the manifest",
	             from);
}

/* Each single replacement must be rejected. With no replacement and a recomputed checksum the
 * dataset must open. */
static void refuses_forgeries(const char *const forgeries[][2], size_t count)
{
	size_t bytes;
	char *text = (char *)support_read_file(file_at("manifest.json"), &bytes);

	text[bytes] = '\0';
	for (size_t i = 0; i < count; i++) {
		struct rung_dataset *ds = NULL;
		int rc;

		forge(text, forgeries[i][0], forgeries[i][1]);
		rc = rung_dataset_open(ds_dir, &ds);
		cr_assert_eq(rc, RUNG_E_FORMAT, "%s -> %s: %d %s", forgeries[i][0], forgeries[i][1],
		             rc, rung_last_error());
		cr_assert(strstr(rung_last_error(), "manifest.json"), "%s", rung_last_error());
	}
	forge(text, "\"producer\"", "\"producer\"");
	rung_dataset_close(opened());
	free(text);
}

Test(dataset, a_forged_value_of_each_field_is_rejected)
{
	static const char *const forgeries[][2] = {
		{ "\"version\": 1,", "\"version\": 2," },
		{ "\"format\": \"rung-dataset\"", "\"format\": \"other\"" },
		{ "\"vertices\": 500", "\"vertices\": 501" },
		{ "\"vertices\": 500", "\"vertices\": 0" },
		{ "\"vertices\": 500", "\"vertices\": -500" },
		{ "\"vertices\": 500", "\"vertices\": 4611686018427387904" },
		{ "\"vertices\": 500", "\"vertices\": \"500\"" },
		{ "\"vertices\": 500", "\"vertices\": 99999999999999999999" },
		{ "\"vertices\": 500", "\"vertices\": 500, \"vertices\": 500" },
		{ "\"edges\": 3000", "\"edges\": 4611686018427387904" },
		{ "\"edges\": 3000", "\"edges\": 3000.0" },
		{ "\"edges\": 3000", "\"edges\": 1152921504606846975" },
		{ "\"index_bytes\": 4", "\"index_bytes\": 8" },
		{ "\"index_bytes\": 4", "\"index_bytes\": 0" },
		{ "\"dtype\": \"u8\"", "\"dtype\": \"f16\"" },
		{ "\"dtype\": \"u8\"", "\"dtype\": 3" },
		{ "\"row_bytes\": 24", "\"row_bytes\": 23" },
		{ "\"row_stride\": 24", "\"row_stride\": 0" },
		{ "\"data_offset\": 4096", "\"data_offset\": 0" },
		{ "\"features.000.npy\"", "\"../../etc/passwd\"" },
		{ "\"name\": \"score.npy\"", "\"name\": \"../score.npy\"" },
		{ "\"name\": \"score.npy\"", "\"name\": null" },
		{ "\"first_block\": 3", "\"first_block\": 4000000000" },
		{ "\"blocks\": 1", "\"blocks\": 2" },
		{ "\"splits\": [", "\"splits\": [\n  \"train\"," },
		{ "\"train\"", "\"../train\"" },
		{ "\"train\"", "\"valid\"" },
		{ "\"labels\": true", "\"labels\": false" },
		{ "\"labels\": true", "\"labels\": 1" },
		{ "\"batch_size\": 1024", "\"batch_size\": 0" },
		{ "\"batch_size\": 1024", "\"batch_size\": 4294967296" },
		{ "\"fanouts\": [", "\"fanouts\": [ 0," },
		{ "\"fanouts\": [", "\"fanouts\": [ 1,2,3,4,5,6,7,8,9,1,2,3,4,5,6," },
		{ "\"damping\": 0.85", "\"damping\": \"x\"" },
		{ "\"batches\": null", "\"batches\": -1" },
		{ "\"seed\": null", "\"seed\": \"0\"" },
		{ "\"draws\": \"all\"", "\"draws\": \"some\"" },
		{ "\"draws\": \"all\"", "\"draws\": null" },
		{ "\"job\": [", "\"job\": [ 1," },
		{ "\"job\": [", "\"job\": [ \"a\\nb\"," },
		{ "\"method\": \"wrpagerank\"",
		  "\"method\": \"a name that is far too long for any score method\"" },
		{ "\"method\": \"wrpagerank\"", "\"method\": \"wr\\u0000\"" },
		{ "\"algorithm\": \"xxh3-64\"", "\"algorithm\": \"crc32c\"" },
		{ "\"block_bytes\": 1048576", "\"block_bytes\": 0" },
		{ "\"file\": \"checksums.npy\"", "\"file\": \"score.npy\"" },
		{ "\"blocks\": [", "\"blocks\": [ \"0000000000000000\"," },
		{ "\"producer\": ", "\"other\": " },
		{ "{\n", "[\n" },
	};

	refuses_forgeries(forgeries, sizeof(forgeries) / sizeof(forgeries[0]));
}

Test(dataset, a_manifest_without_draws_and_seeds_opens)
{
	static const char *const gone[] = { " \"draws\": \"all\",\n", ",\n  \"batches\": null",
		                            ",\n  \"seed\": null" };

	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		size_t bytes;
		char *text = (char *)support_read_file(file_at("manifest.json"), &bytes);
		struct rung_dataset *ds;

		text[bytes] = '\0';
		forge(text, gone[i], "");
		ds = opened();
		cr_assert_eq(rung_dataset_info(ds)->draws, RUNG_DRAWS_ALL);
		cr_assert_eq(rung_dataset_info(ds)->score_sampled, 0);
		rung_dataset_close(ds);
		free(text);
	}
}

Test(dataset, a_forged_list_of_features_files_is_rejected)
{
	static const char *const forgeries[][2] = {
		{ "\"block_rows\": 16", "\"block_rows\": 0" },
		{ "\"block_rows\": 16", "\"block_rows\": 17" },
		/* leaves no rows for the third file */
		{ "\"block_rows\": 16", "\"block_rows\": 250" },
		{ "\"block_rows\": 16", "\"block_rows\": 9223372036854775807" },
		{ "\"block_rows\": 16", "\"block_rows\": null" },
		{ "\"block_rows\": 16", "\"block_row\": 16" },
		{ "\"features.001.npy\",", "" },
		{ "\"features.001.npy\",", "\"features.002.npy\"," },
		{ "\"features.001.npy\",", "\"../features.001.npy\"," },
		{ "\"features.001.npy\",", "\"features.001.npy\", \"features.001.npy\"," },
		{ "\"features.001.npy\",", "1," },
		{ "\"features.001.npy\",", "\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
		                           "\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"," },
	};

	cr_assert_eq(support_deal(ds_dir, 3, 16), 0, "%s", rung_last_error());
	refuses_forgeries(forgeries, sizeof(forgeries) / sizeof(forgeries[0]));
}

Test(dataset, ids_out_of_range_are_rejected_when_loaded)
{
	static const char *const names[] = { "vertex_of_rank", "rank_of_vertex", "split_train" };
	struct rung_graph *graph = NULL;
	struct rung_dataset *ds = opened();
	uint32_t id = VERTICES;
	void *data = NULL;

	for (size_t i = 0; i < 3; i++) {
		char name[64];
		FILE *file;

		snprintf(name, sizeof(name), "%s.npy", names[i]);
		file = fopen(file_at(name), "r+b");
		cr_assert_eq(fseek(file, 4096 + 5 * 4, SEEK_SET), 0);
		cr_assert_eq(fwrite(&id, 4, 1, file), 1);
		fclose(file);
		cr_assert_eq(rung_dataset_load_array(ds, names[i], NULL, &data), RUNG_E_RANGE);
		cr_assert(strstr(rung_last_error(), "entry 5 is 500"), "%s", rung_last_error());
		cr_assert_null(data);
	}
	{
		FILE *file = fopen(file_at("graph_indices.npy"), "r+b");

		cr_assert_eq(fseek(file, 4096 + 7 * 4, SEEK_SET), 0);
		cr_assert_eq(fwrite(&id, 4, 1, file), 1);
		fclose(file);
	}
	cr_assert_eq(rung_dataset_load_graph(ds, &graph), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), ds_dir), "%s", rung_last_error());
	cr_assert_eq(truncate(file_at("score.npy"), 5000), 0);
	cr_assert_eq(rung_dataset_load_array(ds, "score", NULL, &data), RUNG_E_IO);
	rung_dataset_close(ds);
}

Test(dataset, a_graph_larger_than_the_free_memory_is_refused)
{
	struct rung_dataset *ds = opened();
	struct rung_graph *graph = NULL;

	support_put(dir, "/proc/meminfo", "MemAvailable: 4 kB\n");
	rung__machine_root = dir;
	assert_error(rung_dataset_load_graph(ds, &graph), RUNG_E_NOMEM, "4096 are free");
	cr_assert_null(graph);
	support_put(dir, "/proc/meminfo", "MemAvailable: 1000 kB\n");
	cr_assert_eq(rung_dataset_load_graph(ds, &graph), 0, "%s", rung_last_error());
	rung__machine_root = "";
	rung_graph_destroy(graph);
	rung_dataset_close(ds);
}

Test(dataset, nothing_leaks_whichever_allocation_fails)
{
	const int fds = support_open_descriptors();
	struct rung_dataset *ds = NULL;
	struct rung_graph *graph;
	uint64_t count, *ids;
	int64_t allowed = 0;
	int rc;

	do {
		rung__alloc_limit(allowed++);
		rc = rung_dataset_open(ds_dir, &ds);
		if (rc == 0) {
			rc = rung_dataset_load_graph(ds, &graph);
			if (rc == 0)
				rung_graph_destroy(graph);
		}
		if (rc == 0) {
			rc = rung_dataset_load_ids(ds, "split_train", &count, &ids);
			if (rc == 0)
				rung_free(ids);
		}
		rung__alloc_limit(-1);
		rung_dataset_close(ds);
		ds = NULL;
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d %s", rc, rung_last_error());
		cr_assert_eq(support_open_descriptors(), fds);
	} while (rc < 0);
	cr_assert_gt(allowed, 10);
}
