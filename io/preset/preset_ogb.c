/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ogbn-papers100M of OGB.
 *
 * The files are used as they are unpacked. Members of .npz are named in the specs, "FILE:MEMBER",
 * and read in place where possible.
 */
#include <string.h>

#include "base/base.h"
#include "preset/state.h"

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
