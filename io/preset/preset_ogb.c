/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sets of OGB: ogbn-papers100M, and MAG240M of its large-scale challenge.
 *
 * The files are used as they are unpacked. Members of .npz and arrays of .pt files are named in the
 * specs, "FILE:MEMBER", and read in place where possible.
 */
#include <string.h>

#include "source/source.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "source/pickle.h"
#include "preset/state.h"

/* ---- ogbn-papers100M ---- */

/* The splits by publication time, the only splits of this data set. */
static int papers100m_splits(struct rung__preset *p)
{
	static const char *const names[] = { "train", "valid", "test" };
	char name[64];
	const char *path;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < RUNG__ARRAY_LEN(names); i++) {
		memcpy(name, "split/time/", 12); /* 12 bytes, including the NUL */
		strcat(strcat(name, names[i]), ".csv.gz");
		rc = rung__preset_file(p, name, "ids of a split", &path);
		if (rc == 0)
			rc = rung__preset_add_split(p, names[i], path);
	}
	return rc;
}

int rung__preset_papers100m(struct rung__preset *p)
{
	/* the folder in the zip file, and the name that OGB's loader gives it */
	static const char *const inside[] = { "", "papers100M-bin", "ogbn_papers100M", NULL };
	const char *path;
	int rc;

	if (p->part)
		return rung__fail(RUNG_E_INVAL, "%s: %s has no part '%s'; give only the folder",
		                  p->root, p->option, p->part);
	rc = rung__preset_find(p, inside, "raw/data.npz");
	if (rc < 0)
		return rc;
	p->derived.title = "ogbn-papers100M";
	/* vertex_count stays 0: it is the number of rows of the features. raw/data.npz exists, as
	 * rung__preset_find() has checked; opening it later checks its members. */
	if (p->wanted & RUNG_PRESET_GRAPH)
		rc = rung__preset_add_graph(
			p, rung__preset_text(p, "%s/raw/data.npz:edge_index", p->dir));
	if (rc == 0 && p->wanted & RUNG_PRESET_FEATURES) {
		p->derived.features = rung__preset_text(p, "%s/raw/data.npz:node_feat", p->dir);
		rc = p->derived.features ? 0 : RUNG_E_NOMEM;
	}
	if (rc == 0 && p->wanted & RUNG_PRESET_LABELS) {
		rc = rung__preset_file(p, "raw/node-label.npz", "labels", &path);
		p->derived.labels = rc == 0 ? rung__preset_text(p, "%s:node_label", path) : NULL;
		rc = rc == 0 && !p->derived.labels ? RUNG_E_NOMEM : rc;
	}
	if (rc == 0 && p->wanted & RUNG_PRESET_ARRAYS)
		rc = rung__preset_add_array(
			p, "year", rung__preset_text(p, "%s/raw/data.npz:node_year", p->dir));
	return rc == 0 && p->wanted & RUNG_PRESET_SPLITS ? papers100m_splits(p) : rc;
}

/* ---- MAG240M ---- */

#define FEATURE_ITEMS 768u /* float16 values per vertex */

/* The number of vertices of each type. All are 0 for the part "papers", whose vertices are counted
 * by the rows of the features. Ids of the whole graph are papers, then authors, then
 * institutions. */
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

/*
 * The edge lists. Ids of each type begin at 0 in the files. A spec "FILE+FIRST:COUNT,FIRST:COUNT"
 * adds FIRST to the ids of each side and checks that they are below COUNT, so the types get
 * consecutive ranges of ids. As in the baseline, every edge is used in both directions, and
 * duplicates are removed.
 */
static int mag_graph(struct rung__preset *p, const struct mag_counts *counts)
{
	const uint64_t papers = counts->papers, authors = counts->authors,
		       institutions = counts->institutions;
	const char *path;
	int rc = rung__preset_file(p, "processed/paper___cites___paper/edge_index.npy", "citations",
	                           &path);

	p->derived.undirected = p->derived.dedup = 1;
	if (rc == 0)
		rc = rung__preset_add_graph(
			p, papers ? rung__preset_text(p, "%s+0:%" PRIu64 ",0:%" PRIu64, path,
		                                      papers, papers)
				  : path);
	if (rc < 0 || authors == 0)
		return rc;
	rc = rung__preset_file(p, "processed/author___writes___paper/edge_index.npy",
	                       "authors of papers", &path);
	if (rc == 0)
		rc = rung__preset_add_graph(
			p, rung__preset_text(p, "%s+%" PRIu64 ":%" PRIu64 ",0:%" PRIu64, path,
		                             papers, authors, papers));
	if (rc == 0)
		rc = rung__preset_file(
			p, "processed/author___affiliated_with___institution/edge_index.npy",
			"institutions of authors", &path);
	if (rc == 0)
		rc = rung__preset_add_graph(
			p,
			rung__preset_text(p, "%s+%" PRIu64 ":%" PRIu64 ",%" PRIu64 ":%" PRIu64,
		                          path, papers, authors, papers + authors, institutions));
	return rc;
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

/* An array of the papers. With authors and institutions it is padded, because an array of a dataset
 * has one row per vertex. @param spec_out  NULL after a failed allocation */
static int of_papers(struct rung__preset *p, const struct mag_counts *counts, const char *name,
                     const char *why, const char **spec_out)
{
	int rc = rung__preset_file(p, name, why, spec_out);

	if (rc == 0 && counts->authors > 0)
		*spec_out = rung__preset_text(p, "pad:%" PRIu64 ",%s", counts->all, *spec_out);
	return rc == 0 && !*spec_out ? RUNG_E_NOMEM : rc;
}

static int mag_year(struct rung__preset *p, const struct mag_counts *counts)
{
	const char *spec;
	int rc = of_papers(p, counts, "processed/paper/node_year.npy", "years", &spec);

	return rc < 0 ? rc : rung__preset_add_array(p, "year", spec);
}

/* The features of all vertices, which have no header, or those of the papers. @param full  path of
 * full_feat.npy; NULL: only the papers */
static int mag_features(struct rung__preset *p, const struct mag_counts *counts, const char *full)
{
	if (!full)
		return rung__preset_file(p, "processed/paper/node_feat.npy", "features",
		                         &p->derived.features);
	p->derived.features =
		rung__preset_text(p, "raw:%s,f16,%" PRIu64 "x%u", full, counts->all, FEATURE_ITEMS);
	return p->derived.features ? 0 : RUNG_E_NOMEM;
}

/* Choose the part: the given one; otherwise all vertices if full_feat.npy exists. For the papers
 * alone *full_out stays NULL and the counts stay 0. */
static int mag_part(struct rung__preset *p, const char **full_out, struct mag_counts *counts)
{
	const bool papers = p->part && strcmp(p->part, "papers") == 0,
		   all = p->part && strcmp(p->part, "all") == 0;
	int rc;

	if (p->part && !papers && !all)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: %s has no part '%s'; its parts are papers and all", p->root,
		                  p->option, p->part);
	rc = papers ? 0 : find_full(p, full_out);
	if (rc < 0 || (!*full_out && !all))
		return rc;
	if (!*full_out)
		return rung__fail(RUNG_E_NOENT,
		                  "%s/full_feat.npy: is missing (features of authors and "
		                  "institutions); create "
		                  "it with OGB's R-GNN baseline, or use only the papers",
		                  p->dir);
	rc = read_counts(p, counts);
	return rc < 0 ? rc : check_full(p, *full_out, counts);
}

int rung__preset_mag240m(struct rung__preset *p)
{
	static const char *const inside[] = { "", "mag240m_kddcup2021", NULL };
	struct mag_counts counts = { 0 };
	const char *full = NULL;
	int rc = rung__preset_find(p, inside, "processed/paper___cites___paper/edge_index.npy");

	if (rc == 0)
		rc = mag_part(p, &full, &counts);
	if (rc < 0)
		return rc;
	p->derived.title = full ? "MAG240M, papers, authors and institutions" : "MAG240M, papers";
	p->derived.vertex_count = counts.all;
	if (p->wanted & RUNG_PRESET_GRAPH)
		rc = mag_graph(p, &counts);
	if (rc == 0 && p->wanted & RUNG_PRESET_FEATURES)
		rc = mag_features(p, &counts, full);
	if (rc == 0 && p->wanted & RUNG_PRESET_LABELS)
		rc = of_papers(p, &counts, "processed/paper/node_label.npy", "labels",
		               &p->derived.labels);
	if (rc == 0 && p->wanted & RUNG_PRESET_ARRAYS)
		rc = mag_year(p, &counts);
	return rc == 0 && p->wanted & RUNG_PRESET_SPLITS ? mag_splits(p) : rc;
}
