/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed datasets: the description of types and relations, and their parts, each of which is a
 * dataset in a folder below. The manifest of the whole has the checksums of the manifests of the
 * parts, which have those of all files, so that no part can be exchanged unnoticed.
 */
#include "base/base.h"
#include "dataset/dataset.h"

const char *rung__dataset_part(const struct rung__types *types, uint32_t idx, uint64_t *sum_out)
{
	uint64_t sum = 0;
	const char *folder = NULL;

	if (idx < types->type_count) {
		folder = types->types[idx].folder;
		sum = types->types[idx].sum;
	} else if ((idx -= types->type_count) < types->relation_count) {
		folder = types->relations[idx].folder;
		sum = types->relations[idx].sum;
	} else {
		idx -= types->relation_count;
		for (uint32_t i = 0; i < types->relation_count && !folder; i++) {
			if (types->relations[i].rows_folder[0] && idx-- == 0) {
				folder = types->relations[i].rows_folder;
				sum = types->relations[i].rows_sum;
			}
		}
	}
	if (folder && sum_out)
		*sum_out = sum;
	return folder;
}

int rung__dataset_needs(const struct rung_dataset *ds, unsigned needs)
{
	const struct rung__manifest *m = ds->manifest;

	if (m->types)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: has several types; give the folder of one, such as %s/%s",
		                  ds->dir, ds->dir, m->types->types[0].folder);
	if (m->no_features && (needs & RUNG__NEEDS_ROWS))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: has no rows; give the folder of a type with features, such "
		                  "as " RUNG__TYPE_FOLDER "/NAME",
		                  ds->dir);
	if (m->no_graph && (needs & RUNG__NEEDS_LISTS))
		return rung__fail(
			RUNG_E_INVAL,
			"%s: has no neighbour lists; give the folder of a relation, or ids "
			"that need no lists",
			ds->dir);
	if (m->no_maps && (needs & RUNG__NEEDS_MAPS))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: is the lists of a relation and has no maps; give the whole "
		                  "dataset, with the sources of all types",
		                  ds->dir);
	return 0;
}

/* Whether the counts of a part are those that follow from its place. */
static bool counts_agree(const struct rung__types *types, uint32_t idx,
                         const struct rung__manifest *part)
{
	const char *folder = rung__dataset_part(types, idx, NULL);
	uint32_t i = 0;

	if (idx < types->type_count)
		return part->vertex_count == types->types[idx].vertex_count && part->no_graph &&
		       !part->no_maps && part->no_features != types->types[idx].has_features;
	idx -= types->type_count;
	if (idx < types->relation_count)
		return part->vertex_count ==
		               types->types[types->relations[idx].target_type].vertex_count &&
		       part->source_count ==
		               types->types[types->relations[idx].source_type].vertex_count &&
		       part->edge_count == types->relations[idx].edge_count && !part->no_graph;
	while (folder != types->relations[i].rows_folder)
		i++;
	return part->vertex_count == types->relations[i].edge_count && part->no_graph &&
	       !part->no_maps && !part->no_features;
}

int rung__dataset_open_part(const struct rung_dataset *ds, uint32_t idx, bool check_files,
                            struct rung_dataset **part_out)
{
	const struct rung__types *types = ds->manifest->types;
	uint64_t sum = 0;
	char *dir = rung__format("%s/%s", ds->dir, rung__dataset_part(types, idx, &sum));
	struct rung_dataset *part = NULL;
	int rc = dir ? rung__dataset_open(dir, check_files, &part)
	             : rung__fail(RUNG_E_NOMEM, "%s", ds->dir);

	/* not RUNG_E_NOENT, which means that the dataset itself is missing */
	if (rc == RUNG_E_NOENT)
		rc = rung__fail(RUNG_E_FORMAT, "%s; it is a part of %s: stage the dataset again",
		                rung_last_error(), ds->dir);
	if (rc == 0 && (part->manifest->text_sum != sum || !part->manifest->is_part ||
	                !counts_agree(types, idx, part->manifest)))
		rc = rung__fail(RUNG_E_CORRUPT,
		                "%s: is not the part that was staged with %s/" RUNG__MANIFEST
		                "; copy the folder again, or stage the dataset again",
		                dir, ds->dir);
	rung__free(dir);
	if (rc < 0)
		rung_dataset_close(part);
	else
		*part_out = part;
	return rc;
}

/* Open and check all parts. */
static int check_parts(const struct rung_dataset *ds)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && rung__dataset_part(ds->manifest->types, i, NULL); i++) {
		struct rung_dataset *part = NULL;

		rc = rung__dataset_open_part(ds, i, true, &part);
		if (rc == 0)
			rung_dataset_close(part);
	}
	return rc;
}

int rung_dataset_open(const char *dir, struct rung_dataset **ds_out)
{
	struct rung_dataset *ds = NULL;
	int rc;

	if (!dir || !ds_out)
		return rung__fail(RUNG_E_INVAL,
		                  "rung_dataset_open: dir or ds_out is NULL; give both");
	rc = rung__dataset_open(dir, true, &ds);
	if (rc == 0 && ds->manifest->types)
		rc = check_parts(ds);
	if (rc < 0)
		rung_dataset_close(ds);
	else
		*ds_out = ds;
	return rc;
}
