/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Presets: the files of public data sets in the layout of their download, and data sets that are
 * described by a file, as options of rung_stage().
 *
 * Descriptions. docs/DATASET.md defines dataset.json. The file is untrusted, and can name any file
 * that the caller may read. Names of files are relative to its folder.
 *
 * Checks. rung_preset_open() checks the sizes of files without a header, and compares the counts of
 * a description with the requested parts; rung_stage() checks headers.
 */
#ifndef RUNG_PRESET_H
#define RUNG_PRESET_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Supported data sets. */
enum rung_preset_kind {
	/**
	 * ogbn-papers100M: ROOT, or papers100M-bin or ogbn_papers100M inside it, contains
	 * raw/data.npz, raw/node-label.npz and split/time/{train,valid,test}.csv.gz. Edges point
	 * from the citing paper to the cited one.
	 */
	RUNG_PRESET_OGB_PAPERS100M = 1,
	/**
	 * MAG240M of OGB-LSC: ROOT, or mag240m_kddcup2021 inside it. Part "papers":
	 * processed/paper/node_feat.npy and the citations in both directions. Part "all":
	 * full_feat.npy of the R-GNN baseline (float16 [vertices, 768] without a header: papers,
	 * authors, institutions) and all edges in both directions. That file is in the folder, in
	 * its parent, or in "mag240m" in its parent, together with full_feat_done.txt. Default
	 * part: "all" if there is a full_feat.npy, else "papers". As in the baseline, an edge that
	 * exists in both directions counts once. If split_dict.pt has "test" but not "test-dev",
	 * it becomes "test-whole", "test-dev" and "test-challenge", as in OGB's loader.
	 */
	RUNG_PRESET_OGB_MAG240M,
	/**
	 * IGB, and the papers of IGBH: ROOT/SIZE/processed, or ROOT/processed. The part is SIZE:
	 * "tiny", "experimental", "small", "medium", "large" or "full". Labels have 19 classes;
	 * the splits are consecutive ranges of 60, 20 and 20 % of the labelled papers. IGB's own
	 * loader uses these ranges for "full" only and draws other splits for smaller sizes. It
	 * also adds a self loop to each vertex, which rung does not do.
	 */
	RUNG_PRESET_IGB,
	/** Any data set with a dataset.json, see Descriptions above: ROOT is the path of that file.
	 * It has no parts. */
	RUNG_PRESET_DESCRIPTION
};

/** Parts of a data set to look for. Files of other parts may be missing. */
enum {
	RUNG_PRESET_GRAPH = 1,
	RUNG_PRESET_FEATURES = 2,
	RUNG_PRESET_LABELS = 4,
	RUNG_PRESET_SPLITS = 8,
	RUNG_PRESET_ARRAYS = 16,
	RUNG_PRESET_EVERYTHING = 31
};

/** Specs for struct rung_stage_opts; NULL or empty for parts that were not requested. */
struct rung_preset {
	const char *title;         /**< for display: "MAG240M, papers"; "" for none */
	uint64_t vertex_count;     /**< 0: the number of rows of the features */
	const char *const *graphs; /**< [graph_count] */
	size_t graph_count;
	int undirected;
	int dedup;
	const char *features;
	const char *labels;
	const struct rung_stage_split *splits; /**< [split_count] */
	size_t split_count;
	const struct rung_stage_array *arrays; /**< [array_count] such as "year" */
	size_t array_count;
	const char *vertex_type; /**< name of the vertices; NULL: the default of rung_stage() */
	const char *relation;    /**< name of the edges; NULL: the default of rung_stage() */
	const uint32_t *fanouts; /**< [fanout_count] as in struct rung_stage_opts */
	uint32_t fanout_count;   /**< 0: not given, as in the next two */
	uint32_t batch_size;
	enum rung_draws draws;
};

/**
 * Find the files of a data set, and describe them as options of rung_stage().
 *
 * @param kind        the data set
 * @param root        its folder, or the path of its dataset.json
 * @param part        a part, see enum rung_preset_kind; NULL: the default
 * @param wanted      a sum of RUNG_PRESET_GRAPH and so on
 * @param preset_out  free it with rung_preset_close(), after rung_stage()
 * @return 0, RUNG_E_NOENT (with the missing file and a remedy), RUNG_E_FORMAT (size of a file,
 *         damaged splits, a key of a dataset.json), RUNG_E_INVAL (kind, part), RUNG_E_IO,
 *         RUNG_E_NOMEM, and for a dataset.json the errors of rung_source_open()
 *
 * Threads: any.
 */
RUNG_API int rung_preset_open(enum rung_preset_kind kind, const char *root, const char *part,
                              unsigned wanted, struct rung_preset **preset_out);

/**
 * Free a preset with all its texts and arrays.
 *
 * @param preset  the preset; NULL is allowed
 *
 * The specs that were copied into struct rung_stage_opts point into the preset, so call this after
 * rung_stage() has returned. The files of the data set are not touched.
 *
 * Threads: any, but no other call with the same preset.
 */
RUNG_API void rung_preset_close(struct rung_preset *preset);

#ifdef __cplusplus
}
#endif
#endif
