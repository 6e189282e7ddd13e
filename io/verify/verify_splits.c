/* SPDX-License-Identifier: Apache-2.0 */
/* Compares splits with their sources in memory, because they have few ids. */
#include <string.h>

#include "verify/state.h"

int rung__verify_split_ids(const struct rung__verify *v, size_t idx, uint64_t *count_out,
                           uint64_t **ids_out)
{
	struct rung_source *src;
	int rc = rung_source_open(v->opts.split_specs[idx], &src);

	if (rc < 0)
		return rc;
	rc = rung_source_read_vertices(src, v->ds->manifest->vertex_count, 0, count_out, ids_out);
	rung_source_close(src);
	return rc;
}

/* Compare a split position by position. If the lengths differ, each missing or additional id counts
 * as different. */
static int compare_split(struct rung__verify *v, size_t idx)
{
	struct rung_verify_report *report = &v->report;
	const unsigned id_bytes = v->ds->manifest->index_bytes;
	uint64_t count = 0, staged_count = 0, *ids = NULL, *staged = NULL;
	char *name = rung__format(RUNG__SPLIT_PREFIX "%s", v->opts.split_names[idx]);
	int rc;

	if (!name)
		return rung__fail(RUNG_E_NOMEM, "verify: no memory for a split");
	rc = rung_dataset_load_ids(v->ds, name, &staged_count, &staged);
	if (rc == 0)
		rc = rung__verify_split_ids(v, idx, &count, &ids);
	for (uint64_t i = 0; rc == 0 && i < RUNG__MAX(count, staged_count); i++) {
		report->split_ids_compared++;
		if (i >= count || i >= staged_count ||
		    staged[i] != rung__id_get(v->rank_of_vertex, id_bytes, ids[i]))
			report->split_ids_different++;
	}
	rung_free(ids);
	rung_free(staged);
	rung__free(name);
	return rc;
}

int rung__verify_splits(struct rung__verify *v)
{
	int rc = 0;

	for (size_t i = 0; i < v->opts.split_count && rc == 0; i++)
		rc = compare_split(v, i);
	return rc;
}
