/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Public data sets as their makers lay them out in folders: what rung_stage() is to be given for them.
 */
#ifndef RUNG_PRESET_H
#define RUNG_PRESET_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The data sets that are known. */
enum rung_preset_kind {
	/**
	 * ogbn-papers100M: ROOT, or papers100M-bin or ogbn_papers100M in it, has raw/data.npz,
	 * raw/node-label.npz and split/time/{train,valid,test}.csv.gz. Edges go from the paper that
	 * cites to the one it cites.
	 */
	RUNG_PRESET_OGB_PAPERS100M = 1,
	/**
	 * MAG240M of OGB-LSC: ROOT, or mag240m_kddcup2021 in it. "papers":
	 * processed/paper/node_feat.npy and the citations in both directions. "all": full_feat.npy
	 * of the R-GNN baseline (float16 [vertices, 768] without a header: papers, authors,
	 * institutions), which lies in the folder, beside it, or in "mag240m" beside it, each with
	 * full_feat_done.txt, and all edges in both directions. Neither part: "all" where there is
	 * a full_feat.npy, else "papers". As in that baseline an edge that is there in both
	 * directions counts once. Where split_dict.pt has "test" and not "test-dev", it becomes
	 * "test-whole", "test-dev" and "test-challenge", as in OGB's loader.
	 */
	RUNG_PRESET_OGB_MAG240M,
	/**
	 * IGB, and the papers of IGBH: ROOT/SIZE/processed, or ROOT/processed. The part is SIZE:
	 * "tiny", "experimental", "small", "medium", "large" or "full". Labels of 19 classes;
	 * splits are ranges of 60, 20 and 20 % of the labelled papers. IGB's own loader has these
	 * for "full" alone and draws others for the smaller sizes; it also adds a self loop to each
	 * vertex, which is not done here.
	 */
	RUNG_PRESET_IGB
};

/** What of it is wanted; files of the rest need not be there. */
enum { RUNG_PRESET_GRAPH = 1, RUNG_PRESET_FEATURES = 2, RUNG_PRESET_LABELS = 4, RUNG_PRESET_SPLITS = 8, RUNG_PRESET_ARRAYS = 16,
       RUNG_PRESET_EVERYTHING = 31 };

/** Specs for struct rung_stage_opts; NULL or none for what was not wanted. */
struct rung_preset {
	const char *title;                       /**< "MAG240M, papers", for people */
	uint64_t vertex_count;                   /**< 0: as many as the features have rows */
	const char *const *graphs;               /**< [graph_count] */
	size_t graph_count;
	int undirected;
	int dedup;
	const char *features;
	const char *labels;
	const struct rung_stage_split *splits;   /**< [split_count] */
	size_t split_count;
	const struct rung_stage_array *arrays;   /**< [array_count]: "year" of papers100M and MAG240M */
	size_t array_count;
};

/**
 * Find the files of a data set. Sizes of files without a header are checked here, headers when they are staged.
 *
 * @param root        its folder
 * @param part        as said above; NULL: the one there is
 * @param wanted      some of RUNG_PRESET_GRAPH …
 * @param preset_out  give it back with rung_preset_close()
 * @return 0, RUNG_E_NOENT (names the file that is missing, and the cure), RUNG_E_FORMAT (size of a file, a damaged list of
 *         splits), RUNG_E_INVAL (kind, part), RUNG_E_IO, RUNG_E_NOMEM
 */
RUNG_API int rung_preset_open(enum rung_preset_kind kind, const char *root, const char *part, unsigned wanted,
                              struct rung_preset **preset_out);

/** Free; NULL is allowed. */
RUNG_API void rung_preset_close(struct rung_preset *preset);

#ifdef __cplusplus
}
#endif
#endif
