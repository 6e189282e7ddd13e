/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies a typed dataset part by part, and adds the reports up. A part is compared with the
 * sources of its type or relation; the lists of a relation need the maps of two types, which their
 * parts have.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "rung/stage.h"
#include "verify/state.h"

#define NAME_BYTES (RUNG__FOLDER_BYTES + RUNG__SPLIT_NAME_BYTES + 32) /* FOLDER/FILE */

/* All parts, with their reports. */
struct parts {
	struct rung__verify *whole;
	const char *dir;
	struct rung_verify_report *reports; /* [count] */
	uint32_t count;
	char message[RUNG__ERROR_BYTES]; /* of the first damaged part */
};

/* The sources of a part: pointers into the options of the whole. */
struct sources {
	const char *names[RUNG__SPLITS_MAX + RUNG__ARRAYS_MAX];
	const char *specs[RUNG__SPLITS_MAX + RUNG__ARRAYS_MAX];
	struct rung_graph_opts graph;
};

/* ---- options ---- */

/* The given types and relations must be those of the dataset, in the same order. */
static int check_names(const struct rung__verify *v, const char *dir)
{
	const struct rung__types *types = v->ds->manifest->types;
	const struct rung_verify_opts *opts = &v->opts;
	bool same = opts->type_count == types->type_count &&
	            opts->relation_count == types->relation_count;

	if (opts->source || opts->labels || opts->score || opts->graph || opts->split_count > 0 ||
	    opts->array_count > 0)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: is typed; give the sources of its types and relations, or "
		                  "verify one of its parts",
		                  dir);
	if (opts->type_count == 0)
		return 0;
	for (uint32_t i = 0; same && i < types->type_count; i++)
		same = opts->types[i].name && !strcmp(opts->types[i].name, types->types[i].name) &&
		       opts->types[i].split_count <= RUNG__SPLITS_MAX &&
		       opts->types[i].array_count <= RUNG__ARRAYS_MAX;
	for (uint32_t i = 0; same && i < types->relation_count; i++)
		same = opts->relations[i].name &&
		       strcmp(opts->relations[i].name, types->relations[i].name) == 0;
	return same ? 0
	            : rung__fail(RUNG_E_INVAL,
	                         "%s: has other types or relations than the given sources; give "
	                         "those it was staged from",
	                         dir);
}

/* The number of a relation with edge rows, by the number of its part. */
static uint32_t rows_relation(const struct rung__types *types, uint32_t number)
{
	const char *folder = rung__dataset_part(types, number, NULL);
	uint32_t relation = 0;

	while (types->relations[relation].rows_folder != folder)
		relation++;
	return relation;
}

static void set_type(const struct rung_stage_type *type, struct rung_verify_opts *opts,
                     struct sources *sources)
{
	size_t count = 0;

	opts->source = type->features;
	opts->labels = type->labels;
	opts->split_names = sources->names;
	opts->split_specs = sources->specs;
	opts->split_count = type->split_count;
	for (size_t i = 0; i < type->split_count; i++, count++) {
		sources->names[count] = type->splits[i].name;
		sources->specs[count] = type->splits[i].spec;
	}
	opts->array_names = sources->names + count;
	opts->array_specs = sources->specs + count;
	opts->array_count = type->array_count;
	for (size_t i = 0; i < type->array_count; i++, count++) {
		sources->names[count] = type->arrays[i].name;
		sources->specs[count] = type->arrays[i].spec;
	}
}

static void set_lists(const struct rung__verify *part, const struct rung_stage_relation *relation,
                      bool within, struct rung_verify_opts *opts, struct sources *sources)
{
	const struct rung__manifest *m = part->ds->manifest;

	sources->graph = (struct rung_graph_opts)RUNG_GRAPH_OPTS_INIT;
	sources->graph.specs = relation->specs;
	sources->graph.spec_count = relation->spec_count;
	sources->graph.undirected = relation->undirected;
	sources->graph.dedup = relation->dedup;
	sources->graph.reversed = relation->reversed;
	sources->graph.vertex_count = m->vertex_count;
	sources->graph.source_count = within ? 0 : m->source_count;
	opts->graph = &sources->graph;
}

/* ---- the maps of lists ---- */

/* A map of a type, as ids of `index_bytes`. */
static int load_map(const struct rung__verify *whole, uint32_t type, const char *name,
                    unsigned index_bytes, void **map_out)
{
	struct rung_dataset *ds = NULL;
	unsigned stored_bytes;
	uint64_t count;
	void *stored = NULL;
	int rc = rung__dataset_open_part(whole->ds, type, true, &ds);

	if (rc == 0)
		rc = rung_dataset_load_array(ds, name, NULL, &stored);
	if (rc < 0) {
		rung_dataset_close(ds);
		return rc;
	}
	stored_bytes = ds->manifest->index_bytes;
	count = ds->manifest->vertex_count;
	rung_dataset_close(ds);
	*map_out = stored;
	if (stored_bytes == index_bytes)
		return 0;
	*map_out = rung__malloc_array(count, index_bytes);
	for (uint64_t i = 0; *map_out && i < count; i++)
		rung__id_set(*map_out, index_bytes, i, rung__id_get(stored, stored_bytes, i));
	rung__free(stored);
	return *map_out ? 0 : rung__fail(RUNG_E_NOMEM, "verify: no memory for a map");
}

static int load_maps(const struct rung__verify *whole, uint32_t relation, struct rung__verify *part)
{
	const struct rung__types *types = whole->ds->manifest->types;
	const uint32_t target = types->relations[relation].target_type;
	const unsigned index_bytes = part->ds->manifest->index_bytes;
	int rc = load_map(whole, target, "vertex_of_rank", index_bytes, &part->vertex_of_rank);

	if (rc == 0)
		rc = load_map(whole, target, "rank_of_vertex", index_bytes, &part->rank_of_vertex);
	return rc < 0 ? rc
	              : load_map(whole, types->relations[relation].source_type, "rank_of_vertex",
	                         index_bytes, &part->rank_of_source);
}

/* ---- one part ---- */

/* Set what the part is compared with. */
static int set_sources(const struct rung__verify *whole, uint32_t number, struct rung__verify *part,
                       struct sources *sources)
{
	const struct rung__types *types = whole->ds->manifest->types;
	struct rung_verify_opts *opts = &part->opts;
	uint32_t relation;

	*opts = whole->opts;
	opts->types = NULL;
	opts->relations = NULL;
	opts->type_count = opts->relation_count = 0;
	if (whole->opts.type_count == 0)
		return 0;
	if (number < types->type_count) {
		set_type(&whole->opts.types[number], opts, sources);
		return 0;
	}
	relation = number - types->type_count;
	if (relation < types->relation_count) {
		set_lists(part, &whole->opts.relations[relation],
		          types->relations[relation].source_type ==
		                  types->relations[relation].target_type,
		          opts, sources);
		return load_maps(whole, relation, part);
	}
	opts->source = whole->opts.relations[rows_relation(types, number)].rows;
	return 0;
}

static int verify_part(struct parts *parts, uint32_t number, struct sources *sources)
{
	const struct rung__verify *whole = parts->whole;
	struct rung__verify part = { .threads = whole->threads };
	char *dir = rung__format("%s/%s", parts->dir,
	                         rung__dataset_part(whole->ds->manifest->types, number, NULL));
	int rc = dir ? rung__dataset_open_part(whole->ds, number, false, &part.ds)
	             : rung__fail(RUNG_E_NOMEM, "%s", parts->dir);

	if (rc == 0)
		rc = set_sources(whole, number, &part, sources);
	if (rc == 0 || (rc == RUNG_E_CORRUPT && !part.ds))
		rc = rung__verify_one(&part, dir);
	parts->reports[number] = part.report;
	if (rc == RUNG_E_CORRUPT && !parts->message[0])
		snprintf(parts->message, sizeof(parts->message), "%s", rung_last_error());
	rung__verify_fini(&part);
	rung__free(dir);
	return rc == RUNG_E_CORRUPT ? 0 : rc;
}

/* ---- the report of the whole ---- */

/* Join the lists of blocks of all parts, with the folders before the names. @param repaired  which
 * of the two lists */
static int join_blocks(const struct parts *parts, bool repaired, struct rung_bad_block **blocks_out,
                       uint64_t *count_out)
{
	const struct rung__types *types = parts->whole->ds->manifest->types;
	uint64_t count = 0, used = 0;
	struct rung_bad_block *blocks;
	char *name;

	for (uint32_t p = 0; p < parts->count; p++)
		count += repaired ? parts->reports[p].repaired_count : parts->reports[p].bad_count;
	if (count == 0)
		return 0;
	blocks = rung__malloc_array(count, sizeof(*blocks) + NAME_BYTES);
	if (!blocks)
		return rung__fail(RUNG_E_NOMEM,
		                  "verify: no memory for a list of %" PRIu64 " blocks", count);
	name = (char *)(blocks + count);
	for (uint32_t p = 0; p < parts->count; p++) {
		const struct rung_verify_report *report = &parts->reports[p];
		const struct rung_bad_block *from = repaired ? report->repaired : report->bad;
		const uint64_t part_count = repaired ? report->repaired_count : report->bad_count;

		for (uint64_t i = 0; i < part_count; i++, used++, name += NAME_BYTES) {
			snprintf(name, NAME_BYTES, "%s/%s", rung__dataset_part(types, p, NULL),
			         from[i].file);
			blocks[used] = from[i];
			blocks[used].file = name;
		}
	}
	*blocks_out = blocks;
	*count_out = count;
	return 0;
}

/* Add counts; of the first differences, those of the first part that has some. */
static void add_report(struct rung_verify_report *sum, const struct rung_verify_report *part)
{
	if (sum->rows_different == 0)
		sum->first_different = part->first_different;
	if (sum->lists_different == 0)
		sum->first_list_different = part->first_list_different;
	if (sum->labels_different == 0)
		sum->first_label_different = part->first_label_different;
	if (sum->array_rows_different == 0)
		sum->first_array_different = part->first_array_different;
	if (sum->in_place_blocks_different == 0)
		sum->first_in_place_different = part->first_in_place_different;
	sum->blocks_checked += part->blocks_checked;
	sum->bytes_checked += part->bytes_checked;
	sum->rows_compared += part->rows_compared;
	sum->rows_different += part->rows_different;
	sum->block_seconds += part->block_seconds;
	sum->lists_compared += part->lists_compared;
	sum->lists_different += part->lists_different;
	sum->labels_compared += part->labels_compared;
	sum->labels_different += part->labels_different;
	sum->split_ids_compared += part->split_ids_compared;
	sum->split_ids_different += part->split_ids_different;
	sum->maps_disagree |= part->maps_disagree;
	sum->array_rows_compared += part->array_rows_compared;
	sum->array_rows_different += part->array_rows_different;
	sum->in_place_blocks_compared += part->in_place_blocks_compared;
	sum->in_place_blocks_different += part->in_place_blocks_different;
	if (!sum->unrepaired && part->unrepaired)
		sum->unrepaired = rung__strdup(part->unrepaired);
}

static int join(struct parts *parts)
{
	struct rung_verify_report *sum = &parts->whole->report;
	int rc = join_blocks(parts, false, &sum->bad, &sum->bad_count);

	if (rc == 0)
		rc = join_blocks(parts, true, &sum->repaired, &sum->repaired_count);
	/* 1: the manifest of the whole, whose checksum was checked when it was opened */
	sum->blocks_checked = 1;
	sum->bytes_checked = parts->whole->ds->manifest->text_bytes;
	for (uint32_t p = 0; p < parts->count; p++)
		add_report(sum, &parts->reports[p]);
	if (rc == 0 && parts->message[0])
		rc = rung__fail_text(RUNG_E_CORRUPT, parts->message);
	return rc;
}

/* Verify all parts of a typed dataset. */
static int verify_types(struct rung__verify *v, const char *dir)
{
	const struct rung__types *types = v->ds->manifest->types;
	struct sources *sources = rung__zalloc(sizeof(*sources));
	struct parts parts = { .whole = v, .dir = dir };
	int rc = check_names(v, dir);

	while (rung__dataset_part(types, parts.count, NULL))
		parts.count++;
	parts.reports = rung__zalloc_array(parts.count, sizeof(*parts.reports));
	if (rc == 0 && (!parts.reports || !sources))
		rc = rung__fail(RUNG_E_NOMEM, "verify: no memory for the reports of %u parts",
		                parts.count);
	for (uint32_t p = 0; rc == 0 && p < parts.count; p++)
		rc = verify_part(&parts, p, sources);
	if (rc == 0)
		rc = join(&parts);
	for (uint32_t p = 0; parts.reports && p < parts.count; p++)
		rung_verify_report_fini(&parts.reports[p]);
	rung__free(parts.reports);
	rung__free(sources);
	return rc;
}

/* Copy the options, and fill in defaults. */
static int copy_opts(struct rung__verify *v, const char *dir, const struct rung_verify_opts *opts)
{
	int rc = rung__opts_copy_in(&v->opts, sizeof(v->opts), opts, "rung_verify_opts");

	if (rc < 0)
		return rc;
	if (!dir)
		return rung__fail(RUNG_E_INVAL,
		                  "rung_dataset_verify: dir is NULL; give the folder of a dataset");
	/* the condition is negated, so that NaN is rejected too */
	if (!(v->opts.sample_share >= 0 && v->opts.sample_share <= 1))
		return rung__fail(RUNG_E_INVAL,
		                  "rung_dataset_verify: sample_share is %g; use 0 to 1",
		                  v->opts.sample_share);
	if (v->opts.memory_bytes == 0)
		v->opts.memory_bytes = rung__host_memory_budget("");
	v->threads = rung__threads(v->opts.threads);
	return 0;
}

static int refuse_types(const struct rung__verify *v, const char *dir)
{
	return v->opts.type_count == 0
	               ? 0
	               : rung__fail(RUNG_E_INVAL,
	                            "%s: has no types; give the sources without types", dir);
}

int rung_dataset_verify(const char *dir, const struct rung_verify_opts *opts,
                        struct rung_verify_report *report_out)
{
	struct rung__verify v = { .opts = RUNG_VERIFY_OPTS_INIT };
	const uint64_t start_ns = rung__now_ns();
	int rc = copy_opts(&v, dir, opts);

	if (rc < 0)
		return rc;
	rc = rung__dataset_open(dir, false, &v.ds);
	if (rc == 0 && v.ds->manifest->types)
		rc = verify_types(&v, dir);
	else if (rc == 0 || rc == RUNG_E_CORRUPT) {
		rc = refuse_types(&v, dir);
		if (rc == 0)
			rc = rung__verify_one(&v, dir);
	}
	v.report.seconds = (double)(rung__now_ns() - start_ns) * 1e-9;
	/* a damaged dataset is a result, so the caller gets the report, and frees it */
	if ((rc == 0 || rc == RUNG_E_CORRUPT) && report_out)
		*report_out = v.report;
	else
		rung_verify_report_fini(&v.report);
	rung__verify_fini(&v);
	return rc;
}
