/* SPDX-License-Identifier: Apache-2.0 */
/** The manifest of a staged dataset: the content of the folder, in the terms of docs/FORMAT.md.
 * Private to io/. */
#ifndef RUNG_IO_MANIFEST_H
#define RUNG_IO_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/in_place.h"
#include "rung/dataset.h"
#include "rung/dtype.h"
#include "rung/sampler.h"
#include "layout/layout.h"

#define RUNG__FORMAT_NAME      "rung-dataset"
#define RUNG__FORMAT_VERSION   1u
#define RUNG__MANIFEST         "manifest.json"
#define RUNG__MANIFEST_PARTIAL "manifest.json.partial"
#define RUNG__CHECKSUMS        "checksums.npy"
#define RUNG__FEATURES         "features.000.npy" /* the first; tier.h has the names of all */
#define RUNG__INDPTR           "graph_indptr.npy"
#define RUNG__INDICES          "graph_indices.npy"
#define RUNG__VERTEX_OF_RANK   "vertex_of_rank.npy"
#define RUNG__RANK_OF_VERTEX   "rank_of_vertex.npy"
#define RUNG__SCORE            "score.npy"
#define RUNG__LABELS           "labels.npy"
#define RUNG__ARRAY_PREFIX     "features_" /* of further arrays of the vertices */
#define RUNG__SPLIT_PREFIX     "split_"

/* besides features and additional arrays: graph, maps, score */
#define RUNG__FILES_FIXED        5u
#define RUNG__MANIFEST_BYTES_MAX (16u << 20)
#define RUNG__SPLITS_MAX         256u
#define RUNG__JOB_BYTES_MAX      (4u << 20) /* of a job; longer ones are not recorded */
#define RUNG__ARRAYS_MAX         64u
#define RUNG__SPLIT_NAME_BYTES   64u /* its NUL included */
#define RUNG__METHOD_BYTES       32u
#define RUNG__PRODUCER_BYTES     96u

/** One file; all but the manifest itself. */
struct rung__manifest_file {
	char name[RUNG__SPLIT_NAME_BYTES + 16];
	struct rung_array_info array;
	uint64_t bytes;
	uint64_t first_block; /* index of its first block's checksum */
	uint64_t block_count;
};

struct rung__manifest {
	uint64_t vertex_count, edge_count;
	unsigned index_bytes;
	struct rung_array_info features;
	uint64_t row_stride, data_offset;
	uint32_t feature_file_count;    /* of `files`; 0: rows were left in their source */
	struct rung__in_place in_place; /* where, then */
	uint64_t block_rows; /* dealt over them round robin; vertex_count with one file */
	char score_method[RUNG__METHOD_BYTES];
	uint32_t score_iterations;
	double score_damping, score_tolerance; /* 0: does not apply */
	bool score_sampled;                    /* the next two apply */
	uint64_t score_seed, score_batches;
	uint32_t fanouts[RUNG_HOPS_MAX];
	uint32_t fanout_count, batch_size;
	enum rung_draws draws;
	char producer[RUNG__PRODUCER_BYTES];
	bool has_labels;
	struct rung_array_info labels;
	uint32_t array_count; /* further arrays, a row a vertex */
	struct {
		char name[RUNG__SPLIT_NAME_BYTES];
		struct rung_array_info info;
	} arrays[RUNG__ARRAYS_MAX];
	uint32_t split_count;
	struct {
		char name[RUNG__SPLIT_NAME_BYTES];
		uint64_t count;
	} splits[RUNG__SPLITS_MAX];
	/* sources and options of staging: lines "KEY VALUE\n"; NULL: not recorded. Freed with the
	 * manifest */
	char *job;

	/* the files in manifest order, checksums.npy not among them */
	struct rung__manifest_file files[RUNG_FEATURE_FILES_MAX + RUNG__FILES_FIXED + 1 +
	                                 RUNG__ARRAYS_MAX + RUNG__SPLITS_MAX];
	uint32_t file_count;
	uint64_t block_count; /* of those files: entries of checksums.npy */
	struct rung__manifest_file checksums;
	uint64_t *checksums_sums; /* [checksums.block_count] of checksums.npy itself */
	uint64_t text_bytes;      /* of manifest.json, once it was written or read */
};

/** May a split or an array be called so? */
bool rung__split_name_ok(const char *name);

/**
 * Fill in files, block_count and checksums from the counts and arrays above: the only place that
 * defines the set of files.
 * @return 0, RUNG_E_RANGE if sizes overflow, RUNG_E_NOMEM
 */
int rung__manifest_lay_out(struct rung__manifest *m);

/** The file with that name, including checksums.npy; NULL if there is none. */
const struct rung__manifest_file *rung__manifest_file(const struct rung__manifest *m,
                                                      const char *name);

/** Layout of the features: in the listed files, or in their source. The caller sets vertex_of_rank
 * and file_bytes. */
struct rung__layout rung__manifest_features_layout(const struct rung__manifest *m);
/** Layout of an array, which is one file. */
struct rung__layout rung__manifest_array_layout(const struct rung_array_info *info);

/** The text with its own checksum in it; free it with rung__free(). */
int rung__manifest_format(struct rung__manifest *m, char **text_out);

/**
 * Check a manifest's own checksum and parse it; `text` is untrusted.
 *
 * @param path  for messages
 * @return 0, RUNG_E_CORRUPT (its checksum), RUNG_E_FORMAT (not a manifest, another version, fields)
 */
int rung__manifest_parse(const char *path, const char *text, size_t bytes,
                         struct rung__manifest **manifest_out);

/** Read manifest.json of the folder open as `dir_fd`, called `dir` in messages. @return also
 * RUNG_E_NOENT, RUNG_E_IO */
int rung__manifest_read(int dir_fd, const char *dir, struct rung__manifest **manifest_out);

void rung__manifest_destroy(struct rung__manifest *m);

#endif
