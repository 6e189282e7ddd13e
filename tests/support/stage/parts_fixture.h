/* SPDX-License-Identifier: Apache-2.0 */
/** A dataset that is staged in parts, and the same one staged by one call. */
#ifndef SUPPORT_PARTS_FIXTURE_H
#define SUPPORT_PARTS_FIXTURE_H

#include "base/random.h"
#include "stage_killed.h"

static char scores[300], whole[300];

static inline void setup_parts(void)
{
	setup();
	snprintf(scores, sizeof(scores), "%s/score.npy", dir);
	snprintf(whole, sizeof(whole), "%s/whole", dir);
}

/* Scores that put the rows in an order without a pattern; `seed` changes it. */
static inline void write_scores(uint64_t vertices, uint64_t seed)
{
	float *values = malloc(vertices * sizeof(*values));
	char shape[32];

	for (uint64_t v = 0; v < vertices; v++)
		values[v] = (float)(rung__mix64(v ^ seed) % 1000);
	snprintf(shape, sizeof(shape), "(%llu,)", (unsigned long long)vertices);
	cr_assert_eq(support_write_npy(scores, "<f4", shape, values, vertices * sizeof(*values)),
	             0);
	free(values);
	opts.score_spec = scores;
}

/* Sources of wide rows, and the dataset that one call makes of them. */
static inline void make_whole(uint64_t vertices, uint64_t row_bytes)
{
	cr_assert_eq(support_sources(dir, vertices, 3 * vertices, row_bytes, 3), 0);
	write_scores(vertices, 5);
	opts.out_dir = whole;
	cr_assert_eq(stage_killed_at(0), 0); /* in a child, before this process has threads */
	opts.out_dir = out;
}

static inline const char *folder_of(uint32_t part)
{
	static char path[400];

	snprintf(path, sizeof(path), RUNG_STAGE_PART_FORMAT, out, part, opts.part_count);
	return path;
}

static inline int stage_part(uint32_t part)
{
	opts.part = part;
	return rung_stage(&opts, NULL);
}

static inline void part_is_staged(uint32_t part)
{
	cr_assert_eq(stage_part(part), 0, "part %u: %s", part, rung_last_error());
	if (part > 0)
		cr_assert_not(opens(folder_of(part)));
}

static inline void same_bytes(const char *one, const char *other, const char *name)
{
	size_t a_bytes = 0, b_bytes = 0;
	unsigned char *a = file_bytes(one, name, &a_bytes), *b = file_bytes(other, name, &b_bytes);

	cr_assert(a && b && a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0, "%s", name);
	free(a);
	free(b);
}

/* The rows of `whole`, in its one file, are those of the parts' files in their order. */
static inline void same_rows(uint32_t parts)
{
	size_t all = 0, at = 4096;
	unsigned char *rows = file_bytes(whole, "features.000.npy", &all);

	for (uint32_t p = 0; p < parts; p++) {
		size_t bytes = 0;
		char name[32];
		unsigned char *file;

		snprintf(name, sizeof(name), "features.%03u.npy", p);
		file = file_bytes(out, name, &bytes);
		cr_assert(file && bytes > 4096 && at + bytes - 4096 <= all);
		cr_assert_eq(memcmp(rows + at, file + 4096, bytes - 4096), 0, "%s", name);
		at += bytes - 4096;
		free(file);
	}
	cr_assert_eq(at, all);
	free(rows);
}

static inline void is_whole(uint32_t parts)
{
	static const char *const names[] = { "graph_indptr.npy",   "graph_indices.npy",
		                             "vertex_of_rank.npy", "rank_of_vertex.npy",
		                             "score.npy",          "labels.npy",
		                             "split_train.npy",    "split_valid.npy" };
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++)
		same_bytes(whole, out, names[i]);
	same_rows(parts);
	no_leftovers(out);
	for (uint32_t p = 1; p < parts; p++)
		cr_assert_not(exists(folder_of(p)));
	verify.source = opts.features;
	cr_assert_eq(rung_dataset_verify(out, &verify, &report), 0, "%s", rung_last_error());
	rung_verify_report_fini(&report);
}

#endif
