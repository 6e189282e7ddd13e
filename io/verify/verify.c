/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification: compares every block of every file with its checksum, and the staged data with
 * their sources. This file has the order of the steps and the report.
 *
 * Blocks come first, then repair, then comparisons, which read the repaired files. Damage does not
 * end the call: every step records what it finds, and conclude() turns the report into a failure.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "verify/state.h"

/* One list of the report: the blocks in one state. */
struct list {
	struct rung_bad_block *blocks; /* [count], with the file names after them */
	uint64_t count;
};

/* List the blocks in one state, those of the checksum file first: if it is damaged, the other
 * results depend on it. The file names are in the same allocation, after the blocks, so that the
 * report does not point into the dataset, and one free releases both. */
static int list_blocks(const struct rung__verify *v, enum rung__block_state state,
                       struct list *list_out)
{
	const struct rung__manifest *m = v->ds->manifest;
	uint64_t count = 0, bytes = 0, at, used = 0;
	unsigned char *memory;

	/* counted first, because the names begin after the array of blocks */
	for (uint64_t i = 0; i < m->block_count + m->checksums.block_count; i++)
		count += v->bad[i] == state;
	if (count == 0 || !rung__mul(count, sizeof(struct rung_bad_block), &bytes))
		return 0;
	memory = rung__malloc_array(bytes + (m->file_count + 1u) * sizeof(m->checksums.name), 1);
	if (!memory)
		return rung__fail(RUNG_E_NOMEM,
		                  "verify: no memory for a list of %" PRIu64 " blocks", count);
	at = bytes;
	for (uint32_t f = 0; f <= m->file_count; f++) {
		const struct rung__manifest_file *file = f == 0 ? &m->checksums : &m->files[f - 1];
		const unsigned char *states = rung__verify_states(v, file);

		memcpy(memory + at, file->name, sizeof(file->name));
		for (uint64_t b = 0; b < file->block_count; b++) {
			const struct rung_bad_block block = { (const char *)memory + at, b,
				                              b * RUNG__BLOCK_BYTES };

			if (states[b] == state)
				memcpy(memory + used++ * sizeof(block), &block, sizeof(block));
		}
		at += sizeof(file->name);
	}
	*list_out = (struct list){ (struct rung_bad_block *)(void *)memory, count };
	return 0;
}

/* Put bad and repaired blocks into the report, after the repair. */
static int list_all(struct rung__verify *v)
{
	struct rung_verify_report *report = &v->report;
	struct list bad = { NULL, 0 }, repaired = { NULL, 0 };
	int rc = list_blocks(v, RUNG__BLOCK_BAD, &bad);

	if (rc == 0)
		rc = list_blocks(v, RUNG__BLOCK_REPAIRED, &repaired);
	report->bad = bad.blocks;
	report->bad_count = bad.count;
	/* the repair may have loaded damaged maps before it fixed them; compare() checks again */
	report->maps_disagree = 0;
	report->repaired = repaired.blocks;
	report->repaired_count = repaired.count;
	return rc;
}

/* Create the report for a damaged manifest: nothing else can be checked, because the manifest
 * defines the files and their checksums. */
static int list_manifest(struct rung__verify *v)
{
	struct rung_bad_block *bad = rung__malloc(sizeof(*bad));

	if (!bad)
		return rung__fail(RUNG_E_NOMEM, "verify: no memory for a list of 1 block");
	*bad = (struct rung_bad_block){ .file = RUNG__MANIFEST };
	v->report.bad = bad;
	v->report.bad_count = 1;
	v->report.blocks_checked = 1;
	return 0;
}

/*
 * Compare the rows of one array with its source.
 *
 * @param spec     NULL: the source was not given; does nothing
 * @param name     file of the array; NULL: the features
 * @param sampled  true: compare only a sample, if the options request one
 * @param first    original id of the first different row in rank order; unchanged if no row differs
 */
static int compare_rows(struct rung__verify *v, const char *spec, const char *name, bool sampled,
                        uint64_t *compared, uint64_t *different, uint64_t *first)
{
	struct rung__verify_rows rows;
	struct rung__row_sample sample;
	int rc;

	if (!spec)
		return 0;
	rc = rung__verify_rows_open(v, spec, name, &rows);
	if (rc == 0)
		rc = rung__verify_rows_open_staged(v, &rows);
	if (rc == 0)
		rc = sampled && rung__row_sample_init(&sample, v)
		             ? rung__verify_rows_sample(v, &rows)
		             : rung__verify_rows_all(v, &rows);
	/* also after a failure, because the report states how much was compared */
	*compared = rows.compared;
	*different = rows.different;
	if (rows.different > 0)
		*first = rung__id_get(v->vertex_of_rank, v->ds->manifest->index_bytes,
		                      rows.first_rank);
	rung__verify_rows_close(&rows);
	return rc;
}

/* Check that every array of the options is in the dataset: with a misspelled name nothing would be
 * compared. */
static int check_array_names(const struct rung__verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	uint32_t at;

	for (size_t i = 0; i < v->opts.array_count; i++) {
		for (at = 0;
		     at < m->array_count && strcmp(m->arrays[at].name, v->opts.array_names[i]) != 0;
		     at++)
			;
		if (at == m->array_count)
			return rung__fail(RUNG_E_NOENT,
			                  "%s: has no array '%s'; rung info lists its arrays",
			                  v->ds->dir, v->opts.array_names[i]);
	}
	return 0;
}

/* Compare the further arrays, and add up their counts. The report has the first difference of the
 * first array that differs. */
static int compare_arrays(struct rung__verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	struct rung_verify_report *r = &v->report;
	int rc = check_array_names(v);

	for (uint32_t f = 0; f < m->file_count && rc == 0; f++) {
		uint64_t compared = 0, different = 0, first = 0;

		rc = compare_rows(v, rung__verify_array_spec(v, m->files[f].name), m->files[f].name,
		                  false, &compared, &different, &first);
		if (different > 0 && r->array_rows_different == 0)
			r->first_array_different = first;
		r->array_rows_compared += compared;
		r->array_rows_different += different;
	}
	return rc;
}

/* Compare everything whose source was given. The maps are loaded first, because each comparison
 * goes from vertices to ranks. */
static int compare_all(struct rung__verify *v)
{
	const struct rung_verify_opts *opts = &v->opts;
	struct rung_verify_report *r = &v->report;
	/* if the source of rows in place cannot be read, the report has that failure already */
	const char *source = v->in_place_error[0] ? NULL : opts->source;
	int rc = rung__verify_load_maps(v);

	if (rc < 0 ||
	    (rc = compare_rows(v, source, NULL, true, &r->rows_compared, &r->rows_different,
	                       &r->first_different)) < 0 ||
	    (rc = compare_rows(v, opts->labels, RUNG__LABELS, false, &r->labels_compared,
	                       &r->labels_different, &r->first_label_different)) < 0 ||
	    (rc = compare_rows(v, opts->score, RUNG__SCORE, false, &r->scores_compared,
	                       &r->scores_different, &r->first_score_different)) < 0 ||
	    (rc = compare_arrays(v)) < 0 || (rc = rung__verify_splits(v)) < 0)
		return rc;
	return opts->graph ? rung__verify_lists(v) : 0;
}

/* Compare the data with their sources, if any was given. */
static int compare(struct rung__verify *v)
{
	const struct rung_verify_opts *opts = &v->opts;
	int rc;

	if (!opts->source && !opts->labels && !opts->score && !opts->graph &&
	    opts->split_count == 0 && opts->array_count == 0)
		return 0;
	rc = compare_all(v);
	/* RUNG_E_CORRUPT means that the maps disagree, which conclude() reports */
	if (v->report.bad_count == 0)
		return rc == RUNG_E_CORRUPT ? 0 : rc;
	/* With bad blocks, a comparison may fail because of them. The report has the bad blocks
	 * already. Such failures, and maps that disagree, are only their consequences. */
	v->report.maps_disagree = 0;
	return rc == RUNG_E_IO || rc == RUNG_E_RANGE || rc == RUNG_E_FORMAT || rc == RUNG_E_CORRUPT
	               ? 0
	               : rc;
}

/* Check all blocks, and count them for the report. */
static int check_blocks(struct rung__verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	const uint64_t start_ns = rung__now_ns();
	uint64_t blocks = m->block_count + m->checksums.block_count;
	int rc;

	v->sums = rung__zalloc_array(m->block_count, sizeof(*v->sums));
	v->sums_bad = rung__zalloc_array(m->checksums.block_count, 1);
	v->bad = rung__zalloc_array(blocks, 1);
	if (!v->sums || !v->sums_bad || !v->bad)
		return rung__fail(RUNG_E_NOMEM,
		                  "verify: no memory for the checksums of %" PRIu64 " blocks",
		                  m->block_count);
	rc = rung__verify_blocks(v);
	/* plus 1 for the manifest, whose checksum was checked when it was opened */
	v->report.blocks_checked = 1 + blocks;
	v->report.bytes_checked = m->text_bytes + m->checksums.bytes;
	for (uint32_t f = 0; f < m->file_count; f++)
		v->report.bytes_checked += m->files[f].bytes;
	v->report.block_seconds = (double)(rung__now_ns() - start_ns) * 1e-9;
	return rc;
}

/* Check the source of rows that were staged in place. The dataset has checksums of only some of its
 * blocks, so only these are compared. A source that cannot be read counts as entirely different. */
static int check_in_place(struct rung__verify *v)
{
	const struct rung__in_place *in_place = &v->ds->manifest->in_place;
	struct rung_verify_report *r = &v->report;
	int rc;

	if (!rung__manifest_in_place(v->ds->manifest))
		return 0;
	rc = rung__in_place_compare(in_place, v->ds->dir, &r->in_place_blocks_different,
	                            &r->first_in_place_different);
	if (rc < 0 && rc != RUNG_E_FORMAT && rc != RUNG_E_IO)
		return rc;
	r->in_place_blocks_compared = in_place->sample_count;
	if (rc < 0) {
		r->in_place_blocks_different = in_place->sample_count;
		snprintf(v->in_place_error, sizeof(v->in_place_error), "%s", rung_last_error());
	}
	return 0;
}

/* The steps, in their order; see the top of the file. */
static int verify_all(struct rung__verify *v)
{
	int rc = check_blocks(v);

	if (rc == 0)
		rc = check_in_place(v);
	if (rc == 0 && v->opts.repair)
		rc = rung__verify_repair(v);
	if (rc == 0)
		rc = list_all(v);
	return rc == 0 ? compare(v) : rc;
}

/* Report rows or lists that differ from their source. @param vertex original id of the first one
 * that differs */
static int differ(const char *dir, const char *what, uint64_t different, uint64_t compared,
                  const char *spec, uint64_t vertex)
{
	return rung__fail(RUNG_E_CORRUPT,
	                  "%s: %" PRIu64 " of %" PRIu64
	                  " %s differ from %s (the first: vertex %" PRIu64
	                  "); stage the dataset again",
	                  dir, different, compared, what, spec, vertex);
}

/* Turn the report into a status: the first finding, from the files to the data in them, is the
 * message. The order is that of causes: a bad block explains rows that differ. */
static int conclude(struct rung__verify *v, const char *dir)
{
	const struct rung_verify_report *r = &v->report;

	if (r->bad_count > 0 && r->unrepaired)
		return rung__fail(
			RUNG_E_CORRUPT,
			"%s/%s: block %" PRIu64 " at offset %" PRIu64 " cannot be repaired: %s",
			dir, r->bad[0].file, r->bad[0].block, r->bad[0].offset, r->unrepaired);
	if (r->bad_count > 0)
		return rung__fail(RUNG_E_CORRUPT,
		                  "%s/%s: block %" PRIu64 " at offset %" PRIu64
		                  " does not match its checksum (%" PRIu64
		                  " bad blocks in all); repair it from its sources, or stage the "
		                  "dataset again",
		                  dir, r->bad[0].file, r->bad[0].block, r->bad[0].offset,
		                  r->bad_count);
	if (r->in_place_blocks_different > 0 && v->in_place_error[0])
		return rung__fail_text(RUNG_E_CORRUPT, v->in_place_error);
	if (r->in_place_blocks_different > 0)
		return rung__fail(
			RUNG_E_CORRUPT,
			"%s: was changed after the rows of %s were staged in place: %" PRIu64
			" of %" PRIu64 " sampled blocks differ, the first at offset %" PRIu64
			"; restore the file, or stage the dataset again",
			v->ds->manifest->in_place.path, dir, r->in_place_blocks_different,
			r->in_place_blocks_compared, r->first_in_place_different);
	if (r->maps_disagree)
		return rung__fail(RUNG_E_CORRUPT,
		                  "%s: " RUNG__VERTEX_OF_RANK " and " RUNG__RANK_OF_VERTEX
		                  " are not each other's inverse; stage the dataset again",
		                  dir);
	if (r->rows_different > 0)
		return differ(dir, "rows", r->rows_different, r->rows_compared, v->opts.source,
		              r->first_different);
	if (r->lists_different > 0)
		return differ(dir, "lists", r->lists_different, r->lists_compared, "the graph",
		              r->first_list_different);
	if (r->labels_different > 0)
		return differ(dir, "labels", r->labels_different, r->labels_compared,
		              v->opts.labels, r->first_label_different);
	if (r->scores_different > 0)
		return differ(dir, "scores", r->scores_different, r->scores_compared, v->opts.score,
		              r->first_score_different);
	if (r->array_rows_different > 0)
		return differ(dir, "rows of arrays", r->array_rows_different,
		              r->array_rows_compared, "their sources", r->first_array_different);
	if (r->split_ids_different > 0)
		return rung__fail(
			RUNG_E_CORRUPT,
			"%s: %" PRIu64 " of %" PRIu64
			" ids of the splits differ from their sources; stage the dataset again",
			dir, r->split_ids_different, r->split_ids_compared);
	return 0;
}

void rung__verify_fini(struct rung__verify *v)
{
	rung_dataset_close(v->ds);
	rung__free(v->sums);
	rung__free(v->sums_bad);
	rung__free(v->bad);
	rung__free(v->vertex_of_rank);
	rung__free(v->rank_of_vertex);
	rung__free(v->rank_of_source);
}

int rung__verify_one(struct rung__verify *v, const char *dir)
{
	int rc = v->ds ? verify_all(v) : list_manifest(v);

	return rc == 0 ? conclude(v, dir) : rc;
}

void rung_verify_report_fini(struct rung_verify_report *report)
{
	if (!report)
		return;
	rung__free(report->bad);
	rung__free(report->repaired);
	rung__free(report->unrepaired);
	report->bad = report->repaired = NULL;
	report->unrepaired = NULL;
	report->bad_count = report->repaired_count = 0;
}
