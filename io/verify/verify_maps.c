/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the maps of the dataset that is verified, and finds the specs of its further arrays. */
#include <string.h>

#include "graph/graph.h"
#include "verify/state.h"

int rung__verify_load_maps(struct rung__verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	int rc;

	if (v->rank_of_vertex)
		return 0;
	rc = rung__dataset_needs(v->ds, RUNG__NEEDS_MAPS);
	if (rc == 0)
		rc = rung_dataset_load_array(v->ds, "vertex_of_rank", NULL, &v->vertex_of_rank);
	if (rc == 0)
		rc = rung_dataset_load_array(v->ds, "rank_of_vertex", NULL, &v->rank_of_vertex);
	if (rc == 0)
		rc = rung__maps_check(v->vertex_of_rank, v->rank_of_vertex, m->vertex_count,
		                      m->index_bytes, v->threads);
	if (rc == 0)
		return 0;
	/* the maps stay unset, so that the next caller tries again: a repair may have changed the
	 * files */
	rung__free(v->vertex_of_rank);
	rung__free(v->rank_of_vertex);
	v->vertex_of_rank = v->rank_of_vertex = NULL;
	/* these two errors are about the content of the maps; other failures come from reading
	 * them */
	if (rc != RUNG_E_FORMAT && rc != RUNG_E_RANGE)
		return rc;
	v->report.maps_disagree = 1;
	return RUNG_E_CORRUPT;
}

/* Whether a file is that of the array `name`: "features_NAME.npy". */
static bool is_array_file(const char *file_name, const char *name)
{
	const size_t prefix = strlen(RUNG__ARRAY_PREFIX), length = strlen(name);

	return strncmp(file_name, RUNG__ARRAY_PREFIX, prefix) == 0 &&
	       strncmp(file_name + prefix, name, length) == 0 &&
	       strcmp(file_name + prefix + length, ".npy") == 0;
}

const char *rung__verify_array_spec(const struct rung__verify *v, const char *file_name)
{
	for (size_t i = 0; i < v->opts.array_count; i++) {
		if (is_array_file(file_name, v->opts.array_names[i]))
			return v->opts.array_specs[i];
	}
	return NULL;
}
