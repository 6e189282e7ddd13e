/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the job of a folder by lines "KEY VALUE": every option that affects the files, and
 * size, modification time and inode of every input. Memory, threads and the order in which rows are
 * moved are not included. The lines are stored in the journal of unfinished work and in the
 * manifest of the dataset. The lines of the inputs are determined before any input is opened, and
 * again when all have been read: if they differ, an input changed during the run, and the files may
 * mix old and new data.
 */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "graph/graph.h"
#include "source/source.h"
#include "stage/stage_job.h"

#define VALUE_BYTES 8192u      /* size of a value: the longest path fits */
#define JOB         "job "     /* prefix of each line in the journal */
#define PRODUCER    "producer" /* only the same version of rung can resume unfinished work */

/* A text that grows line by line. A lack of memory is recorded and checked once, at the end. */
struct lines {
	const struct rung__stage *stage;
	char *text;             /* NUL-terminated; NULL while it is empty */
	size_t bytes, capacity; /* length without the NUL, and allocated size */
	bool failed;            /* out of memory */
};

/* Append to the text, which grows to twice the needed size. */
static void append(struct lines *lines, const char *text)
{
	const size_t bytes = strlen(text);

	if (!lines->failed && lines->bytes + bytes + 1 > lines->capacity) {
		const size_t capacity = 2 * (lines->capacity + bytes + 1);
		char *grown = rung__realloc_array(lines->text, capacity, 1);

		lines->failed = !grown;
		lines->text = grown ? grown : lines->text;
		lines->capacity = grown ? capacity : lines->capacity;
	}
	if (lines->failed)
		return;
	memcpy(lines->text + lines->bytes, text, bytes + 1);
	lines->bytes += bytes;
}

/* Replace control characters by '?', because a value is part of one line that is printed. In a
 * value that is not UTF-8, all bytes above 0x7f are replaced as well, because the manifest is
 * UTF-8. */
static void make_plain(char *value)
{
	json_t *text = json_string(value);

	for (char *c = value; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f || (!text && (unsigned char)*c > 0x7f))
			*c = '?';
	}
	json_decref(text);
}

static void line(struct lines *lines, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Append the line "KEY VALUE". A longer value is cut off, in the same way at each run. */
static void line(struct lines *lines, const char *key, const char *format, ...)
{
	char value[VALUE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	make_plain(value);
	append(lines, key);
	append(lines, " ");
	append(lines, value);
	append(lines, "\n");
}

/* The line of one input. `st` NULL: the file does not exist, which opening it will report. The
 * inode shows that a file was replaced by another one with the same size and time. */
static void stat_line(struct lines *lines, const char *key, const char *spec, const struct stat *st)
{
	if (!st)
		line(lines, key, "%s: not found", spec);
	else
		line(lines, key, "%s: %jd bytes, changed at %jd.%09ld, inode %ju", spec,
		     (intmax_t)st->st_size, (intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
		     (uintmax_t)st->st_ino);
}

static bool stat_source(struct lines *lines, const char *spec, struct stat *st)
{
	const bool found = rung__source_stat(spec, st) == 0;

	lines->failed |= !found && errno == ENOMEM;
	return found;
}

static void source_line(struct lines *lines, const char *key, const char *spec)
{
	struct stat st;

	if (!spec)
		line(lines, key, "none");
	else
		stat_line(lines, key, spec, stat_source(lines, spec, &st) ? &st : NULL);
}

/* The line of an edge list. The part of the spec that describes ids does not belong to the file's
 * name. An invalid spec gets a line too: opening it will report it. */
static void list_line(struct lines *lines, const char *key, const char *spec)
{
	struct rung__edge_spec parts;
	struct stat st;
	char *src;

	if (rung__edge_spec_parse(spec, &parts) < 0) {
		stat_line(lines, key, spec, NULL);
		return;
	}
	src = rung__format("%.*s", (int)parts.src_length, spec);
	lines->failed |= !src;
	stat_line(lines, key, spec, src && stat_source(lines, src, &st) ? &st : NULL);
	rung__free(src);
}

/* The two lines of a csc: or csr: spec. A file name can contain commas, so the first comma at which
 * both sides are files separates the two sources, in the same way as when they are opened. */
static void columns_line(struct lines *lines, const char *key, const char *spec)
{
	char *pair = rung__strdup(spec + RUNG__COLUMNS_PREFIX), indices_key[128];
	struct stat left, right;
	bool found = false;

	lines->failed |= !pair;
	for (char *comma = pair ? strchr(pair, ',') : NULL; comma && !found;
	     comma = strchr(comma + 1, ',')) {
		*comma = '\0';
		found = stat_source(lines, pair, &left) && stat_source(lines, comma + 1, &right);
		*comma = ',';
	}
	rung__free(pair);
	snprintf(indices_key, sizeof(indices_key), "%s.indices", key);
	stat_line(lines, key, spec, found ? &left : NULL);
	stat_line(lines, indices_key, spec, found ? &right : NULL);
}

/* The lines of the inputs that only part 0 of several reads. */
static void other_inputs(struct lines *lines)
{
	const struct rung_stage_opts *opts = &lines->stage->opts;
	char key[96];

	for (size_t i = 0; opts->graph.specs && i < opts->graph.spec_count; i++) {
		const char *spec = opts->graph.specs[i];

		snprintf(key, sizeof(key), "graph.%zu", i);
		if (!spec)
			source_line(lines, key, NULL);
		else if (rung__spec_is_csc(spec) || rung__spec_is_csr(spec))
			columns_line(lines, key, spec);
		else
			list_line(lines, key, spec);
	}
	source_line(lines, "labels", opts->labels);
	for (size_t i = 0; i < opts->array_count; i++) {
		snprintf(key, sizeof(key), "array.%s",
		         opts->arrays[i].name ? opts->arrays[i].name : "");
		source_line(lines, key, opts->arrays[i].spec);
	}
	for (size_t i = 0; i < opts->split_count; i++) {
		snprintf(key, sizeof(key), "split.%s",
		         opts->splits[i].name ? opts->splits[i].name : "");
		source_line(lines, key, opts->splits[i].spec);
	}
}

/* The lines of all inputs, in a fixed order. The options are not checked yet, so names and specs
 * can be NULL. */
static void inputs(struct lines *lines)
{
	const struct rung_stage_opts *opts = &lines->stage->opts;

	source_line(lines, "features", opts->features);
	/* the scores of a part follow from the inputs of the whole */
	source_line(lines, "score-file", lines->stage->member ? NULL : opts->score_spec);
	if (opts->part == 0)
		other_inputs(lines);
}

/* What the parts of a dataset must have in common and cannot be seen from its other lines. The
 * inputs of parts can be copies, so only their shape counts. */
static void parts_lines(struct lines *lines)
{
	const struct rung__manifest *m = lines->stage->manifest;
	const struct rung_array_info *rows =
		m->quant.format == RUNG_QUANT_NONE ? &m->features : &m->given;

	if (lines->stage->opts.part_count == 0)
		return;
	line(lines, "parts", "%" PRIu32, lines->stage->opts.part_count);
	line(lines, "rows", "%" PRIu64 " of %" PRIu64 " bytes, %s", m->vertex_count,
	     rows->row_bytes, rung_dtype_name(rows->dtype));
}

/* The graphs with the names of their vertices and edges. Default names are left out, so that the
 * line is the same as in datasets from before there were names. */
static void graphs_line(struct lines *lines)
{
	const struct rung_graph_opts *opts = &lines->stage->opts.graph;
	const struct rung__manifest *m = lines->stage->manifest;
	char names[2 * RUNG__SPLIT_NAME_BYTES + 32] = "";

	if (strcmp(m->vertex_type, RUNG__VERTEX_TYPE) != 0 ||
	    strcmp(m->relation, RUNG__RELATION) != 0)
		snprintf(names, sizeof(names), ", vertex type %s, relation %s", m->vertex_type,
		         m->relation);
	line(lines, "graphs", "%zu, undirected %d, dedup %d%s", opts->spec_count,
	     !!opts->undirected, !!opts->dedup, names);
}

/* The lines of all options that affect the files. Fan-outs, batch size, draws and method come from
 * the manifest, with their defaults filled in: a run that gives a default explicitly is the same
 * job. */
static void options(struct lines *lines)
{
	const struct rung_stage_opts *opts = &lines->stage->opts;
	const struct rung_score_opts *score = &opts->score;
	const struct rung__manifest *m = lines->stage->manifest;
	char fanouts[RUNG_HOPS_MAX * 12] = "", key[32];

	for (uint32_t i = 0, at = 0; i < m->fanout_count; i++)
		at += (uint32_t)snprintf(fanouts + at, sizeof(fanouts) - at, "%s%" PRIu32,
		                         i ? "," : "", m->fanouts[i]);
	graphs_line(lines);
	parts_lines(lines);
	line(lines, "splits", "%zu", opts->split_count);
	line(lines, "arrays", "%zu", opts->array_count);
	line(lines, "sampling", "fanouts %s, batches of %" PRIu32 ", draws %d", fanouts,
	     m->batch_size, (int)m->draws);
	line(lines, "score",
	     "%s, iterations %" PRIu32 ", damping %.17g, tolerance %.17g, seed %" PRIu64
	     ", epochs %" PRIu32 ", batches %" PRIu32,
	     m->score_method, score->iterations, score->damping, score->tolerance, score->seed,
	     score->epochs, score->batches_max);
	for (size_t i = 0; i < opts->stripe_count; i++) {
		snprintf(key, sizeof(key), "stripe.%zu", i);
		line(lines, key, "%s", opts->stripe_dirs[i]);
	}
	line(lines, "in-place", "%d", !!opts->in_place);
	if (m->quant.format != RUNG_QUANT_NONE)
		line(lines, "quantize", "%s, scales per %s",
		     rung__quant_format_name(m->quant.format),
		     rung__quant_scales_name(m->quant.scales));
	line(lines, "layout",
	     "%" PRIu32 " files in blocks of %" PRIu64 " rows, %" PRIu64 " bytes from row to row",
	     m->feature_file_count, m->ranges[0].block_rows, m->row_stride);
	for (uint32_t i = 0; i + 1 < m->range_count; i++) {
		snprintf(key, sizeof(key), "range.%" PRIu32, i);
		line(lines, key, "to rank %" PRIu64 ", %" PRIu64 " files", m->ranges[i].end,
		     m->ranges[i].file_count);
	}
}

static int fail_memory(const struct rung__stage *stage)
{
	return rung__fail(RUNG_E_NOMEM, "staging %s: no memory for the record of its inputs",
	                  stage->opts.out_dir);
}

/* Build a text of lines. @param text_out  free it with rung__free(); unchanged after a failure */
static int make_lines(const struct rung__stage *stage, void (*make)(struct lines *lines),
                      char **text_out)
{
	struct lines lines = { .stage = stage };

	make(&lines);
	if (lines.failed || !lines.text) {
		rung__free(lines.text);
		return fail_memory(stage);
	}
	*text_out = lines.text;
	return 0;
}

int rung__stage_job_begin(struct rung__stage *stage)
{
	return make_lines(stage, inputs, &stage->job_inputs);
}

int rung__stage_job_describe(struct rung__stage *stage)
{
	char *text = NULL;
	int rc = make_lines(stage, options, &text);

	if (rc < 0)
		return rc;
	stage->job = rung__format("%s%s", text, stage->job_inputs);
	rung__free(text);
	if (!stage->job)
		return fail_memory(stage);
	/* With thousands of edge lists the record could make the manifest too long for readers. The
	 * dataset is complete without it; only --resume cannot recognise the job later. */
	if (strlen(stage->job) > RUNG__JOB_BYTES_MAX)
		return 0;
	stage->manifest->job = rung__strdup(stage->job);
	return stage->manifest->job ? 0 : fail_memory(stage);
}

/* Length of a value up to the end of its line. If the line is missing, `text` is NULL; a message
 * then shows "nothing". */
static int value_bytes(const char *text)
{
	return text ? (int)strcspn(text, "\n") : (int)strlen("nothing");
}

/* A line that differs. The texts point into the lines, so each ends at a line feed. */
struct difference {
	int key_bytes;
	/* the key, the recorded value and the present one; `was` is NULL if the line is new */
	const char *key, *was, *is;
};

/* Find the first line of `job` that `known` does not have, or has with another value. All keys in
 * `known` begin with `prefix`. Lines that only `known` has need no search, because the numbers of
 * graphs, splits, arrays and files have lines as well. */
static bool find_difference(const char *job, const char *known, const char *prefix,
                            struct difference *found)
{
	char key[RUNG__FOLDER_BYTES + 128];

	for (const char *at = job; *at; at = strchr(at, '\n') + 1) {
		found->key = at;
		found->key_bytes = (int)strcspn(at, " ");
		found->is = at + found->key_bytes + 1;
		snprintf(key, sizeof(key), "%s%.*s", prefix, found->key_bytes, at);
		found->was = rung__lines_last(known, key);
		if (!found->was || value_bytes(found->was) != value_bytes(found->is) ||
		    memcmp(found->was, found->is, (size_t)value_bytes(found->is)) != 0)
			return true;
	}
	return false;
}

static int fail_difference(int status, const char *path, const char *what,
                           const struct difference *found, const char *cure)
{
	return rung__fail(status, "%s: %s: %.*s was '%.*s', now is '%.*s'; %s", path, what,
	                  found->key_bytes, found->key, value_bytes(found->was),
	                  found->was ? found->was : "nothing", value_bytes(found->is), found->is,
	                  cure);
}

int rung__stage_job_note(struct rung__stage *stage)
{
	/* these lines stay pending until the ranks are known: rung__stage_rank() writes the first
	 * lines */
	int rc = rung__journal_add(&stage->journal, JOB PRODUCER " %s", stage->manifest->producer);

	for (const char *at = stage->job; *at && rc == 0; at = strchr(at, '\n') + 1)
		rc = rung__journal_add(&stage->journal, JOB "%.*s", (int)strcspn(at, "\n"), at);
	return rc;
}

/* The same for the lines of a journal, which also have the program. */
static bool find_in_journal(const struct rung__stage *stage, const char *job,
                            const struct rung__journal *journal, struct difference *found)
{
	*found = (struct difference){ .key = PRODUCER,
		                      .key_bytes = (int)strlen(PRODUCER),
		                      .was = rung__journal_last(journal, JOB PRODUCER),
		                      .is = stage->manifest->producer };
	return !found->was || strlen(found->is) != (size_t)value_bytes(found->was) ||
	       strncmp(found->was, found->is, strlen(found->is)) != 0 ||
	       find_difference(job, journal->text, JOB, found);
}

int rung__stage_job_check(const struct rung__stage *stage)
{
	struct difference found;

	if (!find_in_journal(stage, stage->job, &stage->journal, &found))
		return 0;
	return fail_difference(
		RUNG_E_INVAL, stage->dir.partial_path, "the unfinished work is that of another job",
		&found,
		"resume with the options it was begun with, or start from scratch with --force");
}

int rung__stage_job_check_part(const struct rung__stage *stage, const char *path,
                               const struct rung__journal *journal)
{
	const char *host = rung__journal_last(journal, RUNG__JOURNAL_COMPLETE);
	const size_t bytes = strlen(stage->job) - strlen(stage->job_inputs);
	char *options = rung__format("%.*s", (int)bytes, stage->job), what[320];
	struct difference found;
	int rc = 0;

	if (!options)
		return fail_memory(stage);
	snprintf(what, sizeof(what), "was written on %.*s for another job",
	         RUNG__MIN(value_bytes(host), 256), host ? host : "nothing");
	if (find_in_journal(stage, options, journal, &found))
		rc = fail_difference(RUNG_E_INVAL, path, what, &found, RUNG__STAGE_PART_CURE);
	rung__free(options);
	return rc;
}

int rung__stage_job_check_finished(const struct rung__stage *stage, const char *recorded)
{
	struct difference found;

	if (!recorded)
		return rung__fail(RUNG_E_EXIST,
		                  "%s: is a dataset without a record of its sources; choose "
		                  "another output, or replace it with --force",
		                  stage->dir.path);
	if (!find_difference(stage->job, recorded, "", &found))
		return 0;
	return fail_difference(RUNG_E_EXIST, stage->dir.path,
	                       "is a complete dataset of another job", &found,
	                       "choose another output, or replace it with --force");
}

int rung__stage_job_unchanged(const struct rung__stage *stage)
{
	struct difference found;
	bool changed;
	char *now = NULL;
	int rc = make_lines(stage, inputs, &now);

	if (rc < 0)
		return rc;
	changed = find_difference(now, stage->job_inputs, "", &found);
	if (changed)
		rc = fail_difference(
			RUNG_E_CORRUPT, stage->dir.partial_path,
			"an input changed while it was staged", &found,
			"start from scratch with --force after the changes have stopped");
	rung__free(now);
	return rc;
}
