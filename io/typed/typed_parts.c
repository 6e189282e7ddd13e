/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a typed dataset: the options and the order with which each is staged. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "stage/stage.h"
#include "typed/state.h"

/* The options of all parts, without inputs. A part that an earlier run has begun or finished is
 * continued: the job of the whole has shown that it is the same. */
static struct rung_stage_opts common_opts(const struct rung__typed *typed)
{
	const struct rung_stage_opts *whole = &typed->stage.opts;
	const struct rung__manifest *m = typed->stage.manifest;
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;

	opts.fanouts = m->fanouts;
	opts.fanout_count = m->fanout_count;
	opts.batch_size = m->batch_size;
	opts.score.draws = m->draws;
	opts.threads = whole->threads;
	opts.progress = whole->progress;
	opts.progress_ctx = whole->progress_ctx;
	opts.memory_bytes = whole->memory_bytes;
	opts.row_order = whole->row_order;
	opts.pad = whole->pad;
	opts.resume = 1;
	return opts;
}

static void set_type(const struct rung__typed *typed, uint32_t idx, struct rung_stage_opts *opts,
                     struct rung__stage_member *member)
{
	const struct rung_stage_type *type = &typed->stage.opts.types[idx];

	opts->features = type->features;
	opts->labels = type->labels;
	opts->splits = type->splits;
	opts->split_count = type->split_count;
	opts->arrays = type->arrays;
	opts->array_count = type->array_count;
	opts->quantize = type->quantize;
	opts->quant_scales = type->quant_scales;
	opts->in_place = typed->stage.opts.in_place && type->features;
	opts->vertex_type = type->name;
	member->no_graph = true;
	member->no_features = !type->features;
	member->vertex_count = typed->stage.manifest->types->types[idx].vertex_count;
}

static void set_lists(const struct rung__typed *typed, uint32_t idx, struct rung_stage_opts *opts,
                      struct rung__stage_member *member)
{
	const struct rung__types *types = typed->stage.manifest->types;

	opts->graph = rung__typed_graph_opts(typed, idx);
	opts->vertex_type = types->types[types->relations[idx].target_type].name;
	opts->relation = types->relations[idx].name;
	member->no_features = member->no_maps = true;
	member->vertex_count = opts->graph.vertex_count;
	member->source_count = types->types[types->relations[idx].source_type].vertex_count;
}

static void set_rows(const struct rung__typed *typed, uint32_t idx, struct rung_stage_opts *opts,
                     struct rung__stage_member *member)
{
	opts->features = typed->stage.opts.relations[idx].rows;
	opts->vertex_type = typed->stage.manifest->types->relations[idx].name;
	member->no_graph = member->edge_rows = true;
	member->vertex_count = typed->stage.manifest->types->relations[idx].edge_count;
}

/* ---- the order of lists ---- */

/* A map of the ranks of a type, from the part with its rows, as ids of `index_bytes`. */
static int load_map(const struct rung__typed *typed, uint32_t type, const char *name,
                    unsigned index_bytes, void **map_out)
{
	const struct rung__types *types = typed->stage.manifest->types;
	char *dir = rung__format("%s/%s", typed->stage.dir.partial_path, types->types[type].folder);
	struct rung_dataset *ds = NULL;
	unsigned stored_bytes;
	void *stored = NULL;
	int rc = dir ? rung__dataset_open(dir, true, &ds) : rung__fail(RUNG_E_NOMEM, "%s", name);

	rung__free(dir);
	if (rc == 0)
		rc = rung_dataset_load_array(ds, name, NULL, &stored);
	if (rc < 0) {
		rung_dataset_close(ds);
		return rc;
	}
	stored_bytes = rung_dataset_info(ds)->index_bytes;
	rung_dataset_close(ds);
	*map_out = stored;
	if (stored_bytes == index_bytes)
		return 0;
	*map_out = rung__malloc_array(types->types[type].vertex_count, index_bytes);
	for (uint64_t i = 0; *map_out && i < types->types[type].vertex_count; i++)
		rung__id_set(*map_out, index_bytes, i, rung__id_get(stored, stored_bytes, i));
	rung__free(stored);
	return *map_out ? 0 : rung__fail(RUNG_E_NOMEM, "staging: no memory for a map");
}

/* The ranks of both types of a relation. */
static int load_order(const struct rung__typed *typed, uint32_t idx,
                      struct rung__stage_member *member)
{
	const struct rung__types *types = typed->stage.manifest->types;
	const unsigned index_bytes = rung_index_bytes(member->source_count);
	void *vertex_of_rank = NULL, *rank_of_source = NULL;
	int rc = 0;

	if (rung_index_bytes(member->vertex_count) > index_bytes)
		return rung__fail(RUNG_E_NOSUP,
		                  "staging: relation %s has more than 2^32 targets and at most "
		                  "2^32 sources, which cannot be staged; divide the targets into "
		                  "several types",
		                  types->relations[idx].name);
	rc = load_map(typed, types->relations[idx].target_type, "vertex_of_rank", index_bytes,
	              &vertex_of_rank);
	if (rc == 0)
		rc = load_map(typed, types->relations[idx].source_type, "rank_of_vertex",
		              index_bytes, &rank_of_source);
	member->vertex_of_rank = vertex_of_rank;
	member->rank_of_source = rank_of_source;
	return rc;
}

/* ---- one part ---- */

/* Add what the part needed to the report of the whole. Phases with the same name are added up. */
static void add_report(struct rung_stage_report *whole, const struct rung_stage_report *part)
{
	whole->bytes_written += part->bytes_written;
	whole->memory_bytes = RUNG__MAX(whole->memory_bytes, part->memory_bytes);
	whole->budget_bytes = part->budget_bytes;
	whole->rows_resumed += part->rows_resumed;
	whole->temp_bytes = RUNG__MAX(whole->temp_bytes, part->temp_bytes);
	whole->quant_rows += part->quant_rows;
	whole->quant_error_max = fmax(whole->quant_error_max, part->quant_error_max);
	for (size_t i = 0; i < part->phase_count; i++) {
		size_t at = 0;

		while (at < whole->phase_count &&
		       strcmp(whole->phases[at].name, part->phases[i].name) != 0)
			at++;
		if (at == RUNG_STAGE_PHASES_MAX)
			continue;
		if (at == whole->phase_count)
			whole->phases[whole->phase_count++] =
				(struct rung_stage_phase){ .name = part->phases[i].name };
		whole->phases[at].seconds += part->phases[i].seconds;
		whole->phases[at].bytes_read += part->phases[i].bytes_read;
		whole->phases[at].bytes_written += part->phases[i].bytes_written;
	}
}

int rung__typed_note_part(struct rung__typed *typed, const struct rung__typed_part *part)
{
	struct rung__manifest *m = typed->stage.manifest;
	char *dir = rung__format("%s/%s", typed->stage.dir.partial_path, part->folder);
	struct rung_dataset *ds = NULL;
	int rc = dir ? rung__dataset_open(dir, true, &ds)
	             : rung__fail(RUNG_E_NOMEM, "%s", part->folder);

	rung__free(dir);
	if (rc < 0)
		return rc;
	if (part->kind == RUNG__TYPED_ROWS) {
		m->types->types[part->idx].sum = ds->manifest->text_sum;
	} else if (part->kind == RUNG__TYPED_LISTS) {
		m->types->relations[part->idx].sum = ds->manifest->text_sum;
		m->types->relations[part->idx].edge_count = ds->manifest->edge_count;
		m->edge_count += ds->manifest->edge_count;
	} else
		m->types->relations[part->idx].rows_sum = ds->manifest->text_sum;
	rung_dataset_close(ds);
	return 0;
}

int rung__typed_check_part(struct rung__typed *typed, const struct rung__typed_part *part,
                           const char *whole, const char *cure)
{
	struct rung_stage_opts opts = common_opts(typed);
	struct rung_stage_report report = { 0 };
	char *out = rung__format("%s/%s", whole, part->folder);
	int rc;

	opts.out_dir = out;
	rc = out ? rung__stage_check(&opts, cure, &report)
	         : rung__fail(RUNG_E_NOMEM, "%s", part->folder);
	rung__free(out);
	if (rc == 0)
		add_report(&typed->stage.report, &report);
	return rc;
}

/* The order of a part that is not ranked by its scores. */
static int give_order(struct rung__typed *typed, uint32_t number,
                      const struct rung__typed_part *part, struct rung__stage_member *member)
{
	void *edge_of_position = NULL;
	int rc = 0;

	if (part->kind == RUNG__TYPED_LISTS)
		return load_order(typed, part->idx, member);
	if (part->kind == RUNG__TYPED_EDGE_ROWS)
		rc = rung__typed_order_rows(typed, number, part->idx, &edge_of_position);
	member->vertex_of_rank = edge_of_position;
	return rc;
}

static int run_part(struct rung__typed *typed, const struct rung__typed_part *part,
                    const struct rung_stage_opts *opts, const struct rung__stage_member *member)
{
	const struct rung_stage_relation *relation;
	struct rung_stage_report report = { 0 };
	int rc = rung__stage_run(opts, member, &report);

	if (rc < 0)
		return rc;
	if (!opts->dry_run) {
		add_report(&typed->stage.report, &report);
		return 0;
	}
	typed->bytes_needed += report.bytes_written;
	/* known at once unless equal edges are merged; edge rows are compared with it */
	if (part->kind != RUNG__TYPED_LISTS)
		return 0;
	typed->stage.manifest->types->relations[part->idx].edge_count = report.edge_count;
	relation = &typed->stage.opts.relations[part->idx];
	if (relation->rows && !typed->has_rows[part->idx] && report.edge_count > 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "edge rows of %s: %s: has 0 rows, but the relation has %" PRIu64
		                  " edges; give one row for each edge",
		                  relation->name, relation->rows, report.edge_count);
	return 0;
}

int rung__typed_stage_part(struct rung__typed *typed, uint32_t number, bool dry_run)
{
	struct rung_stage_opts opts = common_opts(typed);
	struct rung__stage_member member = { .score_method = typed->stage.manifest->score_method };
	struct rung__typed_part part;
	char *out = NULL, *score = NULL;
	int rc = 0;

	rung__typed_part(typed, number, &part);
	if (part.kind == RUNG__TYPED_ROWS)
		set_type(typed, part.idx, &opts, &member);
	else if (part.kind == RUNG__TYPED_LISTS)
		set_lists(typed, part.idx, &opts, &member);
	else
		set_rows(typed, part.idx, &opts, &member);
	opts.dry_run = dry_run;
	if (dry_run) {
		/* nothing is written, so the name of the whole stands for that of the part */
		opts.out_dir = typed->stage.opts.out_dir;
		opts.force = typed->stage.opts.force;
		opts.resume = typed->stage.opts.resume;
		return run_part(typed, &part, &opts, &member);
	}
	out = rung__format("%s/%s", typed->stage.dir.partial_path, part.folder);
	score = rung__format("%s/" RUNG__TYPED_SCORE, typed->stage.dir.partial_path, number);
	opts.out_dir = out;
	opts.score_spec = score;
	if (!out || !score)
		rc = rung__fail(RUNG_E_NOMEM, "%s", part.folder);
	if (rc == 0)
		rc = give_order(typed, number, &part, &member);
	if (rc == 0)
		rc = run_part(typed, &part, &opts, &member);
	if (rc == 0)
		rc = rung__typed_note_part(typed, &part);
	rung__free((void *)(uintptr_t)member.vertex_of_rank);
	rung__free((void *)(uintptr_t)member.rank_of_source);
	rung__free(score);
	rung__free(out);
	return rc;
}
