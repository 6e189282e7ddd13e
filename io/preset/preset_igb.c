/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IGB, and the papers of IGBH: features of 1024 floats, citations, labels and splits of the papers.
 *
 * The small sizes are .npy files; the large ones have the same names and lack the header, so the
 * contents of each file decide how it is read.
 */
#include <string.h>

#include "base/base.h"
#include "preset/state.h"

#define FEATURE_ITEMS 1024u

/* The published sizes: the number of papers, and the number of papers with one of 19 classes, which
 * come first. The part in the option is the name of a size; without a part, the number of papers
 * identifies the size. */
static const struct size {
	const char *name; /* name of the folder */
	uint64_t papers, labelled;
} sizes[] = {
	{ "tiny", 100000, 100000 },        { "experimental", 100000, 100000 },
	{ "small", 1000000, 1000000 },     { "medium", 10000000, 10000000 },
	{ "large", 100000000, 100000000 }, { "full", 269346174, 227130858 },
};

/* Find the folder of the size: ROOT/SIZE if a size is given, otherwise ROOT itself. */
static int find_dir(struct rung__preset *p)
{
	/* only the first entry is used; the NULL after it ends the list */
	const char *inside[RUNG__ARRAY_LEN(sizes) + 2] = { "" };
	bool known = !p->part;

	if (p->part) {
		inside[0] = p->part;
		for (size_t i = 0; i < RUNG__ARRAY_LEN(sizes); i++)
			known |= strcmp(sizes[i].name, p->part) == 0;
	}
	if (!known)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: %s has no size '%s'; its sizes are tiny, experimental, "
		                  "small, medium, large and full",
		                  p->root, p->option, p->part);
	return rung__preset_find(p, inside, "processed/paper/node_feat.npy");
}

/* The number of papers with labels, which come first. In the largest size not all papers have a
 * label; in a size that is not published, all have one. */
static uint64_t labelled_of(uint64_t papers)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(sizes); i++) {
		if (sizes[i].papers == papers)
			return sizes[i].labelled;
	}
	return papers;
}

/* The labels. A file of the labelled papers alone is padded to the number of papers, because an
 * array of a dataset has one row per vertex. */
static int igb_labels(struct rung__preset *p, uint64_t papers)
{
	const char *path;
	uint64_t rows;
	int rc = rung__preset_file(p, "processed/paper/node_label_19.npy", "labels", &path);

	if (rc == 0)
		rc = rung__preset_npy_or_raw(p, path, RUNG_F32, 1, &p->derived.labels, &rows);
	if (rc < 0 || rows == papers)
		return rc;
	if (rows != labelled_of(papers))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu64 " labels for %" PRIu64
		                  " papers; copy it again",
		                  path, rows, papers);
	p->derived.labels = rung__preset_text(p, "pad:%" PRIu64 ",%s", papers, p->derived.labels);
	return p->derived.labels ? 0 : RUNG_E_NOMEM;
}

/* The splits are ranges of the labelled papers: the first 60 %, the next 20 %, and the rest. No
 * file contains them: they follow from the sizes. */
static int igb_splits(struct rung__preset *p, uint64_t papers)
{
	const uint64_t labelled = labelled_of(papers), valid = labelled * 3 / 5,
		       test = valid + labelled / 5;
	int rc =
		rung__preset_add_split(p, "train", rung__preset_text(p, "range:0,%" PRIu64, valid));

	if (rc == 0)
		rc = rung__preset_add_split(
			p, "valid",
			rung__preset_text(p, "range:%" PRIu64 ",%" PRIu64, valid, test));
	if (rc == 0)
		rc = rung__preset_add_split(
			p, "test",
			rung__preset_text(p, "range:%" PRIu64 ",%" PRIu64, test, labelled));
	return rc;
}

int rung__preset_igb(struct rung__preset *p)
{
	const char *path, *spec;
	uint64_t papers = 0, edges;
	int rc = find_dir(p);

	/* the features are always opened, even if not requested, because their rows are the
	 * papers */
	if (rc == 0)
		rc = rung__preset_file(p, "processed/paper/node_feat.npy", "features", &path);
	if (rc == 0)
		rc = rung__preset_npy_or_raw(p, path, RUNG_F32, FEATURE_ITEMS, &spec, &papers);
	if (rc < 0)
		return rc;
	p->derived.title = "IGB, papers";
	p->derived.vertex_count = papers;
	if (p->wanted & RUNG_PRESET_FEATURES)
		p->derived.features = spec;
	if (p->wanted & RUNG_PRESET_GRAPH) {
		rc = rung__preset_file(p, "processed/paper__cites__paper/edge_index.npy",
		                       "citations", &path);
		if (rc == 0)
			rc = rung__preset_npy_or_raw(p, path, RUNG_I64, 2, &spec, &edges);
		if (rc == 0)
			rc = rung__preset_add_graph(p, spec);
	}
	if (rc == 0 && p->wanted & RUNG_PRESET_LABELS)
		rc = igb_labels(p, papers);
	return rc == 0 && p->wanted & RUNG_PRESET_SPLITS ? igb_splits(p, papers) : rc;
}
