/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a preset by its kind.
 *
 * A preset only finds files and describes them as specs. rung_stage() opens the specs, so all
 * checks of headers and contents are made there, as for files that are given one by one.
 */
#include <string.h>

#include "base/base.h"
#include "preset/state.h"

int rung_preset_open(enum rung_preset_kind kind, const char *root, const char *part,
                     unsigned wanted, struct rung_preset **preset_out)
{
	static int (*const makers[])(struct rung__preset *) = {
		[RUNG_PRESET_OGB_PAPERS100M] = rung__preset_papers100m,
		[RUNG_PRESET_OGB_MAG240M] = rung__preset_mag240m,
		[RUNG_PRESET_IGB] = rung__preset_igb,
		[RUNG_PRESET_DESCRIPTION] = rung__preset_description,
	};
	static const char *const names[] = {
		[RUNG_PRESET_OGB_PAPERS100M] = "ogbn-papers100M",
		[RUNG_PRESET_OGB_MAG240M] = "MAG240M",
		[RUNG_PRESET_IGB] = "IGB",
		[RUNG_PRESET_DESCRIPTION] = "a description",
	};
	struct rung__preset *p;
	int rc;

	if (!root || !root[0] || !preset_out || kind < RUNG_PRESET_OGB_PAPERS100M ||
	    kind > RUNG_PRESET_DESCRIPTION)
		return rung__fail(RUNG_E_INVAL,
		                  "rung_preset_open: folder not given, or preset %d unknown; use a "
		                  "folder or file, and enum rung_preset_kind",
		                  (int)kind);
	p = rung__zalloc(sizeof(*p));
	if (!p)
		return rung__fail(RUNG_E_NOMEM, "%s", root);
	*p = (struct rung__preset){
		.option = names[kind], .root = root, .part = part, .wanted = wanted
	};
	/* set before deriving, which adds entries to these lists and counts them in `derived` */
	p->derived.graphs = p->graphs;
	p->derived.splits = p->splits;
	p->derived.arrays = p->arrays;
	rc = makers[kind](p);
	if (rc < 0) {
		rung_preset_close(&p->derived);
		return rc;
	}
	*preset_out = &p->derived;
	return 0;
}

void rung_preset_close(struct rung_preset *preset)
{
	struct rung__preset *p = (struct rung__preset *)preset; /* `derived` is its first member */

	if (!p)
		return;
	for (size_t i = 0; i < p->kept_count; i++)
		rung__free(p->kept[i]);
	rung__free(p->kept);
	rung__free(p);
}
