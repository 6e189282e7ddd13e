/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which job a half-done folder belongs to: every option that the files depend on, and size, time of change and inode of every input. Memory,
 * threads and the way rows are moved are not part of it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "edge_lists.h"
#include "graph_internal.h"
#include "internal.h"
#include "source_place.h"
#include "stage_private.h"

#define VALUE_BYTES 8192u   /* of a line: the longest path fits */

/* Lines of the job, either written to a new journal or compared with one that was found. */
struct job {
	struct rung__stage *stage;
	bool compare;
	int rc;
};

static void compare(struct job *job, const char *key, const char *value)
{
	const char *was = rung__journal_last(&job->stage->journal, key);
	const size_t len = strlen(value);

	if (was && strncmp(was, value, len) == 0 && was[len] == '\n')
		return;
	job->rc = rung__fail(RUNG_E_INVAL, "%s: its half-done work is of another job: %s was '%.*s', is '%s'; go on with what it was begun with, "
			     "or begin anew with --force", job->stage->dir.partial_path, key + strlen("job "),
			     was ? (int)strcspn(was, "\n") : 7, was ? was : "nothing", value);
}

static void line(struct job *job, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void line(struct job *job, const char *key, const char *format, ...)
{
	char value[VALUE_BYTES], full_key[128];
	va_list args;

	if (job->rc < 0)
		return;
	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	for (char *c = value; *c; c++) {
		if (*c == '\n')
			*c = '?';
	}
	snprintf(full_key, sizeof(full_key), "job %s", key);
	if (job->compare)
		compare(job, full_key, value);
	else
		job->rc = rung__journal_add(&job->stage->journal, "%s %s", full_key, value);
}

static void stat_line(struct job *job, const char *key, const char *spec, const struct stat *st)
{
	line(job, key, "%s: %jd bytes, changed at %jd.%09ld, inode %ju", spec, (intmax_t)st->st_size, (intmax_t)st->st_mtim.tv_sec,
	     st->st_mtim.tv_nsec, (uintmax_t)st->st_ino);
}

static void source_line(struct job *job, const char *key, const char *spec)
{
	struct stat st;

	if (!spec)
		line(job, key, "none");
	else if (rung__source_stat(spec, &st) < 0)
		job->rc = job->rc < 0 ? job->rc : rung__fail_errno(errno, "%s: cannot be found again", spec);
	else
		stat_line(job, key, spec, &st);
}

/* An edge list, without what its spec says of ids. */
static void list_line(struct job *job, const char *key, const char *spec)
{
	struct rung__edge_spec parts;
	struct stat st;
	char *src;

	if (job->rc < 0)
		return;
	job->rc = rung__edge_spec_parse(spec, &parts);
	if (job->rc < 0)
		return;
	src = rung__format("%.*s", (int)parts.src_length, spec);
	if (!src)
		job->rc = rung__fail(RUNG_E_NOMEM, "%s", spec);
	else if (rung__source_stat(src, &st) < 0)
		job->rc = rung__fail_errno(errno, "%s: cannot be found again", src);
	else
		stat_line(job, key, spec, &st);
	rung__free(src);
}

/* The first comma at which both sides are files separates the two sources of a csc: or csr:. */
static void columns_line(struct job *job, const char *key, const char *spec)
{
	char *pair = rung__strdup(spec + RUNG__COLUMNS_PREFIX), indices_key[128];
	struct stat left, right;
	bool found = false;

	if (!pair) {
		job->rc = rung__fail(RUNG_E_NOMEM, "%s", spec);
		return;
	}
	for (char *comma = strchr(pair, ','); comma && !found; comma = strchr(comma + 1, ',')) {
		*comma = '\0';
		found = rung__source_stat(pair, &left) == 0 && rung__source_stat(comma + 1, &right) == 0;
		*comma = ',';
	}
	rung__free(pair);
	if (!found) {
		job->rc = job->rc < 0 ? job->rc : rung__fail(RUNG_E_NOENT, "%s: its files cannot be found again", spec);
		return;
	}
	snprintf(indices_key, sizeof(indices_key), "%s.indices", key);
	stat_line(job, key, spec, &left);
	stat_line(job, indices_key, spec, &right);
}

static void inputs(struct job *job)
{
	const struct rung_stage_opts *opts = &job->stage->opts;
	char key[96];

	for (size_t i = 0; i < opts->graph.spec_count; i++) {
		const char *spec = opts->graph.specs[i];

		snprintf(key, sizeof(key), "graph.%zu", i);
		if (rung__spec_is_csc(spec) || rung__spec_is_csr(spec))
			columns_line(job, key, spec);
		else
			list_line(job, key, spec);
	}
	source_line(job, "features", opts->features);
	source_line(job, "labels", opts->labels);
	source_line(job, "score-file", opts->score_spec);
	for (size_t i = 0; i < opts->array_count; i++) {
		snprintf(key, sizeof(key), "array.%s", opts->arrays[i].name);
		source_line(job, key, opts->arrays[i].spec);
	}
	for (size_t i = 0; i < opts->split_count; i++) {
		snprintf(key, sizeof(key), "split.%s", opts->splits[i].name);
		source_line(job, key, opts->splits[i].spec);
	}
}

static void options(struct job *job)
{
	const struct rung_stage_opts *opts = &job->stage->opts;
	const struct rung_score_opts *score = &opts->score;
	const struct rung__manifest *m = job->stage->manifest;
	char fanouts[RUNG_HOPS_MAX * 12] = "", key[32];

	for (uint32_t i = 0, at = 0; i < m->fanout_count; i++)
		at += (uint32_t)snprintf(fanouts + at, sizeof(fanouts) - at, "%s%" PRIu32, i ? "," : "", m->fanouts[i]);
	line(job, "producer", "%s", m->producer);
	line(job, "graphs", "%zu, undirected %d, dedup %d", opts->graph.spec_count, !!opts->graph.undirected, !!opts->graph.dedup);
	line(job, "splits", "%zu", opts->split_count);
	line(job, "arrays", "%zu", opts->array_count);
	line(job, "sampling", "fanouts %s, batches of %" PRIu32 ", draws %d", fanouts, m->batch_size, (int)m->draws);
	line(job, "score", "%s, iterations %" PRIu32 ", damping %.17g, tolerance %.17g, seed %" PRIu64 ", epochs %" PRIu32 ", batches %" PRIu32,
	     m->score_method, score->iterations, score->damping, score->tolerance, score->seed, score->epochs, score->batches_max);
	for (size_t i = 0; i < opts->stripe_count; i++) {
		snprintf(key, sizeof(key), "stripe.%zu", i);
		line(job, key, "%s", opts->stripe_dirs[i]);
	}
	line(job, "in-place", "%d", !!opts->in_place);
	line(job, "layout", "%" PRIu32 " files in blocks of %" PRIu64 " rows, %" PRIu64 " bytes from row to row", m->feature_file_count,
	     m->block_rows, m->row_stride);
}

static int each_line(struct rung__stage *stage, bool compare_lines)
{
	struct job job = { .stage = stage, .compare = compare_lines };

	options(&job);
	inputs(&job);
	return job.rc;
}

int rung__stage_job_note(struct rung__stage *stage)
{
	return each_line(stage, false);
}

int rung__stage_job_check(struct rung__stage *stage)
{
	return each_line(stage, true);
}
