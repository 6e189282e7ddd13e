/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_stage(): a dataset, or the parts of a typed one and the manifest that names them.
 *
 * All inputs are checked by a dry run of every part before the first byte is written. The folder of
 * the whole is acquired, resumed and published as that of a dataset, so at any moment OUT is
 * absent, the old dataset, or the complete new one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/dataset.h"
#include "file/file.h"
#include "folder/stage_dir.h"
#include "folder/stage_entries.h"
#include "folder/stage_publish.h"
#include "stage/stage.h"
#include "stage/stage_job.h"
#include "stage/stage_write.h"
#include "typed/state.h"

/* ---- checks ---- */

/* Check the inputs of all parts, and the free space for their files. */
static int check_inputs(struct rung__typed *typed)
{
	struct rung__stage *stage = &typed->stage;
	struct rung__typed_part part;
	uint64_t free_bytes;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && rung__typed_part(typed, i, &part); i++)
		rc = rung__typed_stage_part(typed, i, true);
	if (rc == 0)
		rc = rung__stage_dir_free_bytes(&stage->dir, &free_bytes);
	if (rc < 0)
		return rc;
	stage->report.free_bytes = free_bytes;
	if (typed->bytes_needed > free_bytes)
		return rung__fail(RUNG_E_NOSPC,
		                  "%s: staging needs %" PRIu64 " bytes, but %" PRIu64
		                  " are free; free %" PRIu64 " more, or choose another output",
		                  stage->opts.out_dir, typed->bytes_needed, free_bytes,
		                  typed->bytes_needed - free_bytes);
	return 0;
}

/* OUT exists, and the run may continue with it: it must be the complete result of this job. */
static int check_finished(struct rung__typed *typed, bool *finished_out)
{
	struct rung__stage *stage = &typed->stage;
	struct rung_dataset *ds = NULL;
	struct rung__typed_part part;
	int rc = rung_dataset_open(stage->dir.path, &ds);

	if (rc == 0)
		rc = rung__stage_job_check_finished(stage, ds->manifest->job);
	if (rc == 0)
		rc = rung__stage_dir_open_out(&stage->dir);
	if (rc < 0) {
		rung_dataset_close(ds);
		/* as for a dataset: any other folder is replaced with `force` */
		return stage->dir.force && rc != RUNG_E_BUSY && rc != RUNG_E_NOMEM ? 0 : rc;
	}
	*finished_out = true;
	stage->report.resumed = stage->report.already_staged = 1;
	stage->manifest->edge_count = ds->manifest->edge_count;
	memcpy(stage->manifest->types, ds->manifest->types, sizeof(*ds->manifest->types));
	rung_dataset_close(ds);
	for (uint32_t i = 0; rc == 0 && rung__typed_part(typed, i, &part); i++)
		rc = rung__typed_check_part(typed, &part, stage->dir.path, RUNG__FINISHED_CURE);
	return rc == 0 && stage->dir.published && !stage->opts.dry_run
	               ? rung__stage_dir_finish(&stage->dir)
	               : rc;
}

/* ---- work ---- */

/* The line of the journal from which the run can be resumed: the scores are complete. */
static int note_scores(struct rung__stage *stage)
{
	const struct rung_score_report *score = &stage->report.score;
	int rc = rung__journal_add(&stage->journal,
	                           RUNG__JOURNAL_RANKED " %" PRIu32 " %" PRIu64 " %" PRIu64,
	                           score->iterations, score->batches_sampled, score->edge_passes);

	return rc < 0 ? rc : rung__stage_dir_keep(&stage->dir, &stage->journal);
}

/* Restore the numbers of that line. */
static int adopt_scores(struct rung__stage *stage)
{
	struct rung_score_report *score = &stage->report.score;
	const char *words = rung__journal_last(&stage->journal, RUNG__JOURNAL_RANKED);

	if (sscanf(words, "%" SCNu32 " %" SCNu64 " %" SCNu64, &score->iterations,
	           &score->batches_sampled, &score->edge_passes) != 3)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: line '%.*s' is not valid; start from scratch with --force",
		                  stage->journal.path, (int)strcspn(words, "\n"), words);
	stage->manifest->score_batches = score->batches_sampled;
	return 0;
}

static int make_folders(const struct rung__typed *typed)
{
	static const char *const folders[] = { RUNG__TYPE_FOLDER, RUNG__LISTS_FOLDER,
		                               RUNG__ROWS_FOLDER };
	const struct rung__stage *stage = &typed->stage;
	const struct rung__types *types = stage->manifest->types;
	bool rows = false;

	for (uint32_t i = 0; i < types->relation_count; i++)
		rows |= typed->has_rows[i];
	for (size_t i = 0; i < RUNG__ARRAY_LEN(folders); i++) {
		if (i == 2 && !rows)
			continue;
		if (mkdirat(stage->dir.fd, folders[i], 0777) < 0 && errno != EEXIST)
			return rung__fail_errno(errno, "%s/%s: cannot be created",
			                        stage->dir.partial_path, folders[i]);
	}
	return 0;
}

/* Stage all parts. When the journal has the line that all are complete, the scores may be gone: the
 * files of the parts are then compared with their checksums. */
static int write_parts(struct rung__typed *typed)
{
	struct rung__stage *stage = &typed->stage;
	const bool done = rung__journal_last(&stage->journal, RUNG__TYPED_DONE);
	struct rung__typed_part part;
	int rc = make_folders(typed);

	stage->manifest->edge_count = 0;
	for (uint32_t i = 0; rc == 0 && rung__typed_part(typed, i, &part); i++) {
		rc = done ? rung__typed_check_part(typed, &part, stage->dir.partial_path,
		                                   RUNG__STAGE_CURE)
		          : rung__typed_stage_part(typed, i, false);
		if (rc == 0 && done)
			rc = rung__typed_note_part(typed, &part);
	}
	if (rc < 0 || done)
		return rc;
	rc = rung__typed_unchanged(typed);
	if (rc == 0)
		rc = rung__journal_add(&stage->journal, RUNG__TYPED_DONE " %" PRIu64,
		                       stage->manifest->edge_count);
	return rc < 0 ? rc : rung__journal_commit(&stage->journal, stage->dir.fd);
}

/* Write the manifest under its temporary name. A run that was killed may have left one, under this
 * or the final name. */
static int write_manifest(struct rung__stage *stage)
{
	int rc = rung__stage_entry_remove(stage->dir.fd, stage->dir.partial_path,
	                                  RUNG__MANIFEST_PARTIAL);

	if (rc == 0)
		rc = rung__stage_entry_remove(stage->dir.fd, stage->dir.partial_path,
		                              RUNG__MANIFEST);
	if (rc == 0)
		rc = rung__stage_write_manifest(stage);
	return rc < 0 ? rc : rung__stage_check_manifest(stage);
}

/* Call `each` for the files of scores. */
static int for_scores(const struct rung__typed *typed,
                      int (*each)(const struct rung__typed *typed, const char *name))
{
	struct rung__typed_part part;
	char name[32];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && rung__typed_part(typed, i, &part); i++) {
		snprintf(name, sizeof(name), RUNG__TYPED_SCORE, i);
		rc = each(typed, name);
		snprintf(name, sizeof(name), RUNG__TYPED_EDGES, i);
		if (rc == 0 && part.kind == RUNG__TYPED_EDGE_ROWS)
			rc = each(typed, name);
	}
	return rc;
}

/* The scores are needed until all parts are complete. */
static int remove_score(const struct rung__typed *typed, const char *name)
{
	const struct rung__stage_dir *dir = &typed->stage.dir;

	return rung__stage_entry_remove(dir->fd, dir->partial_path, name);
}

static int check_score(const struct rung__typed *typed, const char *name)
{
	float *score = NULL;
	int rc = rung__journal_last_of(&typed->stage.journal, RUNG__TYPED_SUM, name)
	                 ? rung__typed_read_score(typed, name, 0, &score)
	                 : 0;

	rung__free(score);
	return rc;
}

static int start_or_resume(struct rung__typed *typed)
{
	struct rung__stage *stage = &typed->stage;
	int rc = rung__stage_dir_acquire(&stage->dir, &stage->journal);

	if (rc == 0)
		rc = stage->dir.keep ? rung__stage_job_check(stage) : rung__stage_job_note(stage);
	if (rc < 0)
		return rc;
	if (stage->dir.keep) {
		stage->report.resumed = 1;
		rc = adopt_scores(stage);
		if (rc == 0 && !rung__journal_last(&stage->journal, RUNG__TYPED_DONE))
			rc = for_scores(typed, check_score);
		if (rc == 0)
			rc = rung__journal_begin(&stage->journal, stage->dir.fd);
	} else {
		rc = rung__typed_read_train(typed);
		if (rc == 0)
			rc = rung__typed_score(typed);
		if (rc == 0)
			rc = note_scores(stage);
	}
	rung__stage_phase(stage, NULL);
	if (rc == 0)
		rc = write_parts(typed);
	if (rc == 0)
		rc = for_scores(typed, remove_score);
	if (rc == 0)
		rc = write_manifest(stage);
	return rc < 0 ? rc : rung__stage_dir_publish(&stage->dir);
}

static void fill_report(struct rung__typed *typed)
{
	const struct rung__manifest *m = typed->stage.manifest;
	struct rung_stage_report *report = &typed->stage.report;

	report->vertex_count = m->vertex_count;
	report->edge_count = m->edge_count;
	report->rank_count = m->vertex_count;
	if (typed->stage.opts.dry_run)
		report->bytes_written = typed->bytes_needed;
}

static int run(struct rung__typed *typed)
{
	struct rung__stage *stage = &typed->stage;
	bool finished = false;
	int rc = rung__typed_check(typed);

	if (rc < 0 || (rc = rung__stage_dir_init(&stage->dir, &stage->opts)) < 0 ||
	    (rc = rung__typed_describe(typed)) < 0)
		return rc;
	if (stage->dir.staged)
		rc = check_finished(typed, &finished);
	if (rc == 0 && !finished)
		rc = check_inputs(typed);
	if (rc == 0 && !finished && !stage->opts.dry_run)
		rc = start_or_resume(typed);
	if (rc == 0)
		fill_report(typed);
	return rc;
}

static int stage_types(const struct rung_stage_opts *opts, struct rung_stage_report *report_out)
{
	struct rung__typed *typed = rung__zalloc(sizeof(*typed));
	const uint64_t start_ns = rung__now_ns();
	struct rung__stage *stage;
	int rc;

	if (!typed)
		return rung__fail(RUNG_E_NOMEM, "staging %s", opts->out_dir);
	stage = &typed->stage;
	stage->opts = *opts;
	stage->dir.parent_fd = stage->dir.fd = stage->journal.fd = -1;
	stage->threads = rung__threads(opts->threads);
	stage->manifest = rung__zalloc(sizeof(*stage->manifest));
	rc = stage->manifest ? run(typed) : rung__fail(RUNG_E_NOMEM, "staging %s", opts->out_dir);
	rung__stage_phase(stage, NULL);
	if (rc == 0 && stage->dir.left[0]) {
		stage->report.old_left = 1;
		rung__fail_text(0, stage->dir.left);
	}
	rung__stage_dir_fini(&stage->dir);
	rung__journal_fini(&stage->journal);
	stage->report.seconds = (double)(rung__now_ns() - start_ns) * 1e-9;
	if (rc == 0 && report_out)
		*report_out = stage->report;
	rung__manifest_destroy(stage->manifest);
	rung__free(stage->job);
	rung__free(typed->train);
	rung__free(typed);
	return rc;
}

int rung_stage(const struct rung_stage_opts *given, struct rung_stage_report *report_out)
{
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;
	int rc = rung__opts_copy_in(&opts, sizeof(opts), given, "rung_stage_opts");

	if (rc == 0 && !opts.out_dir)
		rc = rung__fail(RUNG_E_INVAL, "staging: out_dir is NULL; give it");
	if (rc < 0)
		return rc;
	return opts.type_count > 0 ? stage_types(&opts, report_out)
	                           : rung__stage_run(&opts, NULL, report_out);
}
