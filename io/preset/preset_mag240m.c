/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MAG240M of OGB's large-scale challenge: the papers alone, or a typed graph of papers, authors and
 * institutions.
 *
 * The files are used as they are unpacked. Arrays of .pt files are named in the specs,
 * "FILE:MEMBER".
 */
#include <stdio.h>
#include <string.h>

#include "source/source.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "source/pickle.h"
#include "preset/state.h"

#define FEATURE_ITEMS 768u /* float16 values per vertex */

/* The number of vertices of each type; full_feat.npy has their rows in this order. */
struct mag_counts {
	uint64_t papers, authors, institutions;
	uint64_t all; /* their sum */
};

/* A number in the dict of meta.pt. It is limited to a quarter of 2^63, so that the sum of three
 * does not overflow. */
static int count_of(const struct rung__pickle_dict *meta, const char *path, const char *key,
                    uint64_t *count_out)
{
	for (uint32_t i = 0; i < meta->count; i++) {
		const struct rung__pickle_item *item = &meta->items[i];

		if (strcmp(item->key, key) == 0 && !item->is_array && item->number > 0 &&
		    item->number < INT64_MAX / 4) {
			*count_out = (uint64_t)item->number;
			return 0;
		}
	}
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: does not contain the number of vertices of type '%s'; unpack the "
	                  "data set again",
	                  path, key);
}

/* Read the numbers of vertices from meta.pt. */
static int read_counts(struct rung__preset *p, struct mag_counts *counts)
{
	/* on the heap: a dict has 64 keys of 64 bytes */
	struct rung__pickle_dict *meta = rung__malloc(sizeof(*meta));
	const char *path;
	int rc = meta ? rung__preset_file(p, "meta.pt", "numbers of vertices", &path)
	              : rung__fail(RUNG_E_NOMEM, "%s", p->dir);

	if (rc == 0)
		rc = rung__torch_read(path, meta);
	if (rc == 0)
		rc = count_of(meta, path, "paper", &counts->papers);
	if (rc == 0)
		rc = count_of(meta, path, "author", &counts->authors);
	if (rc == 0)
		rc = count_of(meta, path, "institution", &counts->institutions);
	counts->all = counts->papers + counts->authors + counts->institutions;
	rung__free(meta);
	return rc;
}

/* Find full_feat.npy, which the baseline writes next to the data set's folder or into it. *path_out
 * is NULL if it does not exist. @return 0, RUNG_E_NOMEM */
static int find_full(struct rung__preset *p, const char **path_out)
{
	static const char *const names[] = { "full_feat.npy", "../full_feat.npy",
		                             "../mag240m/full_feat.npy" };
	uint64_t bytes;

	*path_out = NULL;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++) {
		const char *path = rung__preset_text(p, "%s/%s", p->dir, names[i]);

		if (!path)
			return RUNG_E_NOMEM;
		if (rung__preset_exists(path, &bytes)) {
			*path_out = path;
			return 0;
		}
	}
	return 0;
}

/* Check that full_feat.npy is complete. The script of the baseline creates it with its full size
 * and fills it for hours, so only the flag file, which the script writes last, shows that it has
 * finished. */
static int check_full(struct rung__preset *p, const char *path, const struct mag_counts *counts)
{
	const char *flag =
		rung__preset_text(p, "%.*s_done.txt", (int)(strlen(path) - strlen(".npy")), path);
	uint64_t wanted, bytes = 0;

	if (!flag)
		return RUNG_E_NOMEM;
	if (!rung__preset_exists(flag, &bytes))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: may be incomplete: %s, the last file that OGB's script "
		                  "writes, is missing; run the script again, create the file if "
		                  "the array is complete, or use only the papers",
		                  path, flag);
	rung__preset_exists(path, &bytes);
	if (rung__mul(counts->all, FEATURE_ITEMS * 2, &wanted) && bytes == wanted)
		return 0;
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: has %" PRIu64 " bytes, which do not match float16 [%" PRIu64
	                  ", %u] without a header; create it again, or use only the papers",
	                  path, bytes, counts->all, FEATURE_ITEMS);
}

/* The citations as the only edge list. As in the baseline, every edge is used in both directions,
 * and duplicates are removed. */
static int mag_citations(struct rung__preset *p)
{
	const char *path;
	int rc = rung__preset_file(p, "processed/paper___cites___paper/edge_index.npy", "citations",
	                           &path);

	p->derived.undirected = p->derived.dedup = 1;
	return rc < 0 ? rc : rung__preset_add_graph(p, path);
}

/* Whether the dict has an array with this key. */
static bool has_array(const struct rung__pickle_dict *dict, const char *key)
{
	for (uint32_t i = 0; i < dict->count; i++) {
		if (dict->items[i].is_array && strcmp(dict->items[i].key, key) == 0)
			return true;
	}
	return false;
}

/*
 * The splits that split_test() of ogb/lsc/utils.py derives from the single list in the first
 * version of the file: entries 0, 1 and 2 of every 5 are for development, 3 and 4 for the
 * challenge.
 */
static int mag_split_test(struct rung__preset *p, const char *path)
{
	int rc = rung__preset_add_split(p, "test-whole", rung__preset_text(p, "%s:test", path));

	if (rc == 0)
		rc = rung__preset_add_split(
			p, "test-dev",
			rung__preset_text(p, RUNG__EVERY_PREFIX "5,0,3,%s:test", path));
	if (rc == 0)
		rc = rung__preset_add_split(
			p, "test-challenge",
			rung__preset_text(p, RUNG__EVERY_PREFIX "5,3,5,%s:test", path));
	return rc;
}

/* All arrays of the dict: train, valid, and the parts of the test set. Their keys become the names
 * of the splits. */
static int mag_splits(struct rung__preset *p)
{
	struct rung__pickle_dict *dict = rung__malloc(sizeof(*dict));
	const char *path;
	int rc = dict ? rung__preset_file(p, "split_dict.pt", "ids of the splits", &path)
	              : rung__fail(RUNG_E_NOMEM, "%s", p->dir);

	if (rc == 0)
		rc = rung__torch_read(path, dict);
	for (uint32_t i = 0; rc == 0 && i < dict->count; i++) {
		const char *key = dict->items[i].key;

		if (!dict->items[i].is_array || !rung__split_name_ok(key))
			rc = rung__fail(
				RUNG_E_FORMAT,
				"%s: '%s' is not a split; give the splits one by one with --split",
				path, key);
		else if (strcmp(key, "test") == 0 && !has_array(dict, "test-dev"))
			rc = mag_split_test(p, path);
		else
			rc = rung__preset_add_split(p, rung__preset_text(p, "%s", key),
			                            rung__preset_text(p, "%s:%s", path, key));
	}
	rung__free(dict);
	return rc;
}

static int mag_year(struct rung__preset *p)
{
	const char *spec;
	int rc = rung__preset_file(p, "processed/paper/node_year.npy", "years", &spec);

	return rc < 0 ? rc : rung__preset_add_array(p, "year", spec);
}

/* Labels, years and splits, which only papers have. */
static int mag_papers(struct rung__preset *p)
{
	int rc = 0;

	if (p->wanted & RUNG_PRESET_LABELS)
		rc = rung__preset_file(p, "processed/paper/node_label.npy", "labels",
		                       &p->derived.labels);
	if (rc == 0 && p->wanted & RUNG_PRESET_ARRAYS)
		rc = mag_year(p);
	return rc == 0 && p->wanted & RUNG_PRESET_SPLITS ? mag_splits(p) : rc;
}

/* ---- the typed graph ---- */

/* The rows of a type in full_feat.npy, which has no header. @param first  its first row */
static int mag_rows(struct rung__preset *p, const char *full, uint64_t first,
                    struct rung_stage_type *type)
{
	/* no overflow: the size of the file was checked */
	type->features =
		rung__preset_text(p, "raw:%s,f16,%" PRIu64 "x%u,%" PRIu64 ",trailing=ignore", full,
	                          type->vertex_count, FEATURE_ITEMS, first * FEATURE_ITEMS * 2);
	return type->features ? 0 : RUNG_E_NOMEM;
}

/* The vertex types. @param full  path of full_feat.npy; NULL: only papers have features */
static int mag_types(struct rung__preset *p, const struct mag_counts *counts, const char *full)
{
	struct rung_stage_type *types = rung__preset_list(p, 3, sizeof(*types));
	uint64_t first = 0;
	int rc = types ? mag_papers(p) : RUNG_E_NOMEM;

	if (rc < 0)
		return rc;
	types[0] = (struct rung_stage_type){ .name = "paper",
		                             .vertex_count = counts->papers,
		                             .labels = p->derived.labels,
		                             .splits = p->derived.splits,
		                             .split_count = p->derived.split_count,
		                             .arrays = p->derived.arrays,
		                             .array_count = p->derived.array_count };
	types[1] = (struct rung_stage_type){ .name = "author", .vertex_count = counts->authors };
	types[2] = (struct rung_stage_type){ .name = "institution",
		                             .vertex_count = counts->institutions };
	p->derived.labels = NULL;
	p->derived.split_count = p->derived.array_count = 0;
	p->derived.types = types;
	p->derived.type_count = 3;
	p->derived.seed_type = types[0].name;
	if (!(p->wanted & RUNG_PRESET_FEATURES))
		return 0;
	if (!full)
		return rung__preset_file(p, "processed/paper/node_feat.npy", "features",
		                         &types[0].features);
	for (int i = 0; rc == 0 && i < 3; first += types[i++].vertex_count)
		rc = mag_rows(p, full, first, &types[i]);
	return rc;
}

/* A relation of the file, and the opposite one; citations are one relation with both directions. As
 * in the baseline, duplicates are removed. */
static int mag_relations(struct rung__preset *p)
{
	static const struct rung_stage_relation known[] = {
		{ .source = "paper", .name = "cites", .target = "paper", .undirected = 1 },
		{ .source = "author", .name = "writes", .target = "paper" },
		{ .source = "paper", .name = "rev_writes", .target = "author", .reversed = 1 },
		{ .source = "author", .name = "affiliated_with", .target = "institution" },
		{ .source = "institution",
		  .name = "rev_affiliated_with",
		  .target = "author",
		  .reversed = 1 },
	};
	static const char *const folders[] = { "paper___cites___paper", "author___writes___paper",
		                               "author___writes___paper",
		                               "author___affiliated_with___institution",
		                               "author___affiliated_with___institution" };
	const size_t count = RUNG__ARRAY_LEN(known);
	struct rung_stage_relation *relations = rung__preset_list(p, count, sizeof(*relations));
	const char **specs = relations ? rung__preset_list(p, count, sizeof(*specs)) : NULL;
	char name[96];
	int rc = specs ? 0 : RUNG_E_NOMEM;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		relations[i] = known[i];
		relations[i].dedup = 1;
		relations[i].specs = &specs[i];
		relations[i].spec_count = 1;
		snprintf(name, sizeof(name), "processed/%s/edge_index.npy", folders[i]);
		rc = rung__preset_file(p, name, "edges", &specs[i]);
	}
	p->derived.relations = relations;
	p->derived.relation_count = rc == 0 ? count : 0;
	return rc;
}

static int mag_typed(struct rung__preset *p, const char *full)
{
	struct mag_counts counts = { 0 };
	int rc = read_counts(p, &counts);

	p->derived.title = "MAG240M, papers, authors and institutions";
	if (rc == 0 && full)
		rc = check_full(p, full, &counts);
	if (rc == 0)
		rc = mag_types(p, &counts, full);
	return rc == 0 && p->wanted & RUNG_PRESET_GRAPH ? mag_relations(p) : rc;
}

/* Choose the part: the given one; otherwise the typed graph if full_feat.npy exists.
 * @param full_out  path of full_feat.npy; NULL: there is none, or only papers were requested */
static int mag_part(struct rung__preset *p, bool *typed_out, const char **full_out)
{
	const bool papers = p->part && strcmp(p->part, "papers") == 0,
		   all = p->part && strcmp(p->part, "all") == 0;
	int rc;

	if (p->part && !papers && !all)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: %s has no part '%s'; its parts are papers and all", p->root,
		                  p->option, p->part);
	rc = papers ? 0 : find_full(p, full_out);
	*typed_out = all || *full_out;
	return rc;
}

int rung__preset_mag240m(struct rung__preset *p)
{
	static const char *const inside[] = { "", "mag240m_kddcup2021", NULL };
	const char *full = NULL;
	bool typed = false;
	int rc = rung__preset_find(p, inside, "processed/paper___cites___paper/edge_index.npy");

	if (rc == 0)
		rc = mag_part(p, &typed, &full);
	if (rc < 0 || typed)
		return rc < 0 ? rc : mag_typed(p, full);
	p->derived.title = "MAG240M, papers";
	if (p->wanted & RUNG_PRESET_GRAPH)
		rc = mag_citations(p);
	if (rc == 0 && p->wanted & RUNG_PRESET_FEATURES)
		rc = rung__preset_file(p, "processed/paper/node_feat.npy", "features",
		                       &p->derived.features);
	return rc < 0 ? rc : mag_papers(p);
}
