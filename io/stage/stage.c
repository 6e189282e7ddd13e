/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: the order of its steps, and its report.
 *
 * Inputs are opened and described, memory is divided, and free space is checked before the first
 * byte is written. Then follow graph, score, ranks, relabelled graph, rows and splits. The manifest
 * is written last, everything is checked, and one rename publishes the folder.
 */
#include <stdio.h>

#include "base/base.h"
#include "folder/stage_dir.h"
#include "folder/stage_entries.h"
#include "folder/stage_publish.h"
#include "folder/stage_stripe.h"
#include "rows/stage_probe.h"
#include "rows/stage_rows.h"
#include "stage/stage.h"
#include "stage/stage_check.h"
#include "stage/stage_graph.h"
#include "stage/stage_input.h"
#include "stage/stage_job.h"
#include "stage/stage_memory.h"
#include "stage/stage_parts.h"
#include "stage/stage_write.h"

/* Report the row order, costs and measured rates of the features. Labels and arrays have their own
 * schedules, which are not reported. */
static void report_rows(struct rung__stage *stage)
{
	const struct rung__rows_schedule *plan = &stage->features_plan;
	struct rung_stage_report *report = &stage->report;

	report->row_order = plan->kind;
	report->range_count = plan->range_count;
	report->rows_bytes_read = plan->bytes_read;
	report->rows_bytes_written = plan->bytes_written;
	report->temp_bytes = plan->temp_bytes;
	report->rows_seconds = plan->seconds;
	report->read_bytes_per_s = stage->figures.read_bytes_per_s;
	report->write_bytes_per_s = stage->figures.write_bytes_per_s;
	report->row_reads_per_s = stage->figures.row_reads_per_s;
}

static int fill_report(struct rung__stage *stage)
{
	struct rung_stage_report *report = &stage->report;
	struct rung__manifest *m = stage->manifest;
	char *text;
	/* Formatting sets m->text_bytes; the text is not used. A checksum has a fixed length, so
	 * text_bytes is right even in a dry run, where all checksums are still 0. */
	int rc = rung__manifest_format(m, &text);

	if (rc < 0)
		return rc;
	rung__free(text);
	report->vertex_count = m->vertex_count;
	report->edge_count = m->edge_count;
	report->row_bytes = m->features.row_bytes;
	report->feature_bytes = m->vertex_count * m->features.row_bytes;
	report->memory_bytes = rung__stage_memory_of(stage);
	report->rank_first = rung__stage_rank_first(stage);
	report->rank_count = m->vertex_count;
	if (stage->opts.part_count > 0)
		report->rank_count = m->ranges[stage->opts.part].end - report->rank_first;
	report->bytes_written = stage->opts.part > 0 ? 0 : m->text_bytes + m->checksums.bytes;
	for (uint32_t i = 0; i < m->file_count; i++)
		report->bytes_written += rung__stage_writes(stage, i) ? m->files[i].bytes : 0;
	report_rows(stage);
	return 0;
}

/* Write the rows of the features, the labels and the arrays. Features that stay in place are not
 * copied. */
static int write_rows(struct rung__stage *stage)
{
	const struct rung__layout features = rung__stage_features_layout(stage);
	const char *phase = NULL;
	int rc = 0;

	if (stage->features && !stage->opts.in_place) {
		rung__stage_phase(stage, "features");
		rc = rung__stage_scales(stage);
		if (rc == 0)
			rc = rung__stage_write_rows(stage, stage->features, "features",
			                            rung__stage_features_name(stage), &features,
			                            &stage->features_plan);
	}
	for (uint32_t i = 0; rc == 0 && i < stage->extra_count; i++) {
		const struct rung__extra_array *extra_arrays = &stage->extra_arrays[i];

		/* One phase for all arrays: a report has a fixed number of phases. The texts are
		 * constants, so their addresses can be compared. */
		if (extra_arrays->what != phase)
			rung__stage_phase(stage, extra_arrays->what);
		phase = extra_arrays->what;
		rc = rung__stage_write_rows(stage, extra_arrays->src, extra_arrays->what,
		                            extra_arrays->name, &extra_arrays->layout,
		                            &extra_arrays->plan);
	}
	return rc;
}

/* Begin the step "files" of the progress: the bytes of all files except the features, which have
 * their own step. */
static void begin_files(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;

	stage->step_done = 0;
	stage->step_total = m->checksums.bytes;
	for (uint32_t i = m->feature_file_count; i < m->file_count; i++)
		stage->step_total += m->files[i].bytes;
}

/* Write all files, or those of the part, and, last, the manifest under its temporary name. */
static int write_all(struct rung__stage *stage)
{
	int rc;

	/* The checksums in the journal come first: the check of finished files compares with them.
	 * That check comes before all writing, because new parts are computed from finished
	 * ones. */
	if ((rc = rung__stage_accept_sums(stage)) < 0 ||
	    (stage->report.resumed && (rc = rung__stage_check_done(stage)) < 0))
		return rc;
	begin_files(stage);
	/* The graph comes before the rows: relabelling frees the graph and one of the two maps, and
	 * the rows then use that memory. */
	if ((rc = rung__stage_rank(stage)) < 0 || (rc = rung__stage_relabel(stage)) < 0 ||
	    (rc = write_rows(stage)) < 0 || stage->opts.part > 0)
		return rc;
	rung__stage_phase(stage, "files");
	begin_files(stage);
	rc = rung__stage_write_splits(stage);
	if (rc == 0)
		rc = rung__stage_parts_assemble(stage);
	return rc < 0 ? rc : rung__stage_write_manifest(stage);
}

/* Resume the work of an earlier run, if it belongs to this job. */
static int resume(struct rung__stage *stage)
{
	/* checked before anything is removed, because the work of another job must stay as it is */
	int rc = rung__stage_job_check(stage);

	stage->report.resumed = 1;
	if (rc == 0)
		rc = rung__stage_dir_drop_unfinished(&stage->dir, &stage->journal);
	if (rc == 0)
		rc = rung__journal_begin(&stage->journal, stage->dir.fd);
	/* Divide the memory again: the journal is known only now, and rows continue in the order in
	 * which they were begun. */
	return rc < 0 ? rc : rung__stage_divide_memory(stage);
}

/*
 * The last checks before the folder gets its name and an old dataset is removed: the inputs must
 * not have changed while they were read, and every file must exist with the right size and
 * checksums.
 */
static int check_written(struct rung__stage *stage)
{
	int rc = rung__stage_job_unchanged(stage);

	if (rc == 0)
		rc = rung__stage_check_all(stage, stage->dir.partial_path, RUNG__STAGE_CURE);
	return rc < 0 ? rc : rung__stage_check_manifest(stage);
}

/* Stage from scratch, or continue the work in OUT.partial. */
static int start_or_resume(struct rung__stage *stage)
{
	int rc = rung__stage_dir_acquire(&stage->dir, &stage->journal);
	bool complete = false;

	if (rc == 0)
		rc = stage->dir.keep ? resume(stage) : rung__stage_job_note(stage);
	if (rc == 0 && stage->opts.part > 0)
		rc = rung__stage_part_again(stage, &complete);
	if (complete)
		return rc < 0 ? rc : fill_report(stage);
	/* Space is checked twice. The features are most of the data, so the first check often finds
	 * a full disk before the graph is read; the second one knows the number of edges. */
	if (rc < 0 || (rc = rung__stage_check_space(stage)) < 0 ||
	    (rc = rung__stage_fix_counts(stage)) < 0 || (rc = rung__stage_check_space(stage)) < 0 ||
	    (rc = write_all(stage)) < 0 || (rc = fill_report(stage)) < 0 ||
	    (rc = rung__stage_measure_quantized(stage)) < 0)
		return rc;
	if (stage->opts.part > 0)
		return rung__stage_part_end(stage);
	rc = check_written(stage);
	return rc < 0 ? rc : rung__stage_dir_publish(&stage->dir);
}

/* Fill in the report without writing. If the graph stays in files, its edges can be counted only by
 * sorting them into temporary files, so an upper bound is reported instead. */
static int dry_run(struct rung__stage *stage)
{
	int rc = 0;

	if (stage->in_files || stage->member)
		stage->manifest->edge_count = stage->edge_count_max;
	else if (stage->opts.part == 0)
		rc = rung__stage_load_graph(stage);
	if (rc == 0)
		rc = rung__stage_check_space(stage);
	if (rc == 0)
		rc = rung__stage_measure_quantized(stage);
	return rc < 0 ? rc : fill_report(stage);
}

/* All steps between the check of OUT's name and the report. */
static int run(struct rung__stage *stage)
{
	bool finished = false;
	int rc;

	/* The job is described last: its lines contain the layout, which the inputs determine. */
	if ((rc = rung__stage_open_inputs(stage)) < 0 ||
	    (rc = rung__stage_count_edges(stage)) < 0 || (rc = rung__stage_job_describe(stage)) < 0)
		return rc;
	if (stage->dir.staged && ((rc = rung__stage_finished(stage, &finished)) < 0 || finished))
		return rc < 0 ? rc : fill_report(stage);
	/* measured before the memory is divided: the rates decide the order of the rows */
	if (stage->features && !stage->opts.in_place)
		rung__stage_probe(stage, stage->features, &stage->figures);
	rc = rung__stripes_check_folders(&stage->dir, stage->opts.stripe_dirs,
	                                 stage->opts.stripe_count);
	if (rc == 0)
		rc = rung__stage_divide_memory(stage);
	if (rc == 0 && !stage->opts.resume)
		rc = rung__stripes_check(stage->opts.stripe_dirs, stage->opts.stripe_count);
	if (rc < 0)
		return rc;
	return stage->opts.dry_run ? dry_run(stage) : start_or_resume(stage);
}

/* Free everything, also after a failure: all members are zero or -1 until they are set. Closing the
 * folder removes OUT.partial, unless there is finished work in it. */
static void fini(struct rung__stage *stage)
{
	rung__stage_drop_graph(stage);
	rung__stage_dir_fini(&stage->dir);
	rung__stage_close_inputs(stage);
	rung__journal_fini(&stage->journal);
	rung__manifest_destroy(stage->manifest);
	rung__free(stage->score);
	rung__free(stage->vertex_of_rank);
	rung__free(stage->rank_of_vertex);
	rung__free(stage->sums);
	rung__free(stage->buffer);
	rung__free(stage->job);
	rung__free(stage->job_inputs);
}

int rung__stage_run(const struct rung_stage_opts *opts, const struct rung__stage_member *member,
                    struct rung_stage_report *report_out)
{
	struct rung__stage stage = { .opts = RUNG_STAGE_OPTS_INIT,
		                     .member = member,
		                     .dir = { .parent_fd = -1, .fd = -1 },
		                     .journal.fd = -1 };
	const uint64_t start_ns = rung__now_ns();
	int rc = rung__opts_copy_in(&stage.opts, sizeof(stage.opts), opts, "rung_stage_opts");

	if (rc < 0)
		return rc;
	if ((!stage.opts.features && !member) || !stage.opts.out_dir)
		return rung__fail(RUNG_E_INVAL, "staging: features or out_dir is NULL; give both");
	if (!rung_row_order_name(stage.opts.row_order))
		return rung__fail(
			RUNG_E_INVAL,
			"staging: row order %d is not a valid value; use enum rung_row_order",
			(int)stage.opts.row_order);
	rc = rung__stage_parts_check(&stage.opts);
	if (rc < 0)
		return rc;
	stage.threads = rung__threads(stage.opts.threads);
	stage.manifest = rung__zalloc(sizeof(*stage.manifest));
	rc = stage.manifest ? rung__stage_dir_init(&stage.dir, &stage.opts)
	                    : rung__fail(RUNG_E_NOMEM, "staging %s", stage.opts.out_dir);
	if (rc == 0)
		rc = run(&stage);
	rung__stage_phase(&stage, NULL);
	/* The dataset is complete, but the replaced one could not be removed: the call succeeds,
	 * and rung_last_error() names the folder. */
	if (rc == 0 && stage.dir.left[0]) {
		stage.report.old_left = 1;
		rung__fail_text(0, stage.dir.left);
	}
	fini(&stage);
	if (rc == 0 && report_out) {
		stage.report.seconds = (double)(rung__now_ns() - start_ns) * 1e-9;
		*report_out = stage.report;
	}
	return rc;
}

int rung__stage_check(const struct rung_stage_opts *opts, const char *cure,
                      struct rung_stage_report *report_out)
{
	struct rung__stage stage = { .opts = *opts, .journal.fd = -1 };
	int rc;

	stage.threads = rung__threads(opts->threads);
	rc = rung__stage_dir_init(&stage.dir, opts);
	if (rc == 0)
		rc = rung__stage_check_found(&stage, cure);
	if (rc == 0)
		rc = fill_report(&stage);
	fini(&stage);
	if (rc == 0)
		*report_out = stage.report;
	return rc;
}
