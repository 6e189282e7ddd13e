/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a dataset. N calls, usually on N machines, write the rows of N ranges of ranks; the same
 * scores give all of them the same order. Part 0 writes all other files and publishes the dataset.
 *
 * All parts lay out the manifest of the whole dataset. The features files come first in it, so the
 * numbers of their blocks are the same in all parts, also in those that know no graph and no
 * labels: the checksums in the journal of a part are used as they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "folder/stage_part.h"
#include "stage/stage_check.h"
#include "stage/stage_input.h"
#include "stage/stage_job.h"
#include "stage/stage_parts.h"
#include "stage/stage_write.h"

#define LIST_BYTES 512u /* room for RUNG_FEATURE_FILES_MAX parts with their states */

int rung__stage_parts_check(const struct rung_stage_opts *opts)
{
	if (opts->part_count > RUNG_FEATURE_FILES_MAX)
		return rung__fail(RUNG_E_INVAL, "staging: %" PRIu32 " parts; give at most %d",
		                  opts->part_count, RUNG_FEATURE_FILES_MAX);
	if (opts->part >= RUNG__MAX(opts->part_count, 1u))
		return rung__fail(RUNG_E_INVAL,
		                  "staging: part %" PRIu32 " of %" PRIu32
		                  " does not exist; parts count from 0",
		                  opts->part, opts->part_count);
	if (opts->part_count == 0)
		return 0;
	if (opts->stripe_count > 0 || opts->in_place)
		return rung__fail(RUNG_E_INVAL, "staging: parts cannot be striped, and their rows "
		                                "cannot stay in place; omit one of the options");
	if (!opts->score_spec)
		return rung__fail(RUNG_E_INVAL,
		                  "staging: all parts must rank the rows by the same scores; "
		                  "compute the scores once, and give their file to each part");
	return 0;
}

/* ---- part 0 ---- */

/* Compare a complete part with this one. */
static int check_part(const struct rung__stage *stage, const struct rung__stage_part *part)
{
	const char *scored = rung__journal_last(&part->journal, RUNG__JOURNAL_SCORED);
	const uint64_t sum = scored ? strtoull(scored, NULL, 16) : 0;
	int rc = rung__stage_job_check_part(stage, part->path, &part->journal);
	bool same = true;

	if (rc < 0)
		return rc;
	if (sum != stage->score_sum)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: was written with other scores, whose checksum is "
		                  "%016" PRIx64 " instead of %016" PRIx64
		                  "; " RUNG__STAGE_PART_CURE,
		                  part->path, sum, stage->score_sum);
	rc = rung__stage_scales_compare(stage, &part->journal, &same);
	if (rc == 0 && !same)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: was written with other scales per column, from other "
		                  "features; " RUNG__STAGE_PART_CURE,
		                  part->path);
	return rc;
}

/* Move the file of a part, and record it with its checksums. The commit syncs OUT.partial first. */
static int take_file(struct rung__stage *stage, const struct rung__stage_part *part,
                     const struct rung__manifest_file *file)
{
	const uint64_t first = file->first_block;
	int rc = rung__stage_part_move(&stage->dir, part, file->name);

	if (rc < 0)
		return rc;
	rung__journal_drain_sums(&part->journal, first, first + file->block_count, stage->sums);
	rc = rung__journal_add_sums(&stage->journal, first, file->block_count, stage->sums + first);
	if (rc == 0)
		rc = rung__journal_add(&stage->journal, "file %s", file->name);
	return rc < 0 ? rc : rung__journal_commit(&stage->journal, stage->dir.fd);
}

/* Check the part with this number and, with `take`, move its file.
 * @param state_out  why it is not complete; NULL: it is */
static int visit(struct rung__stage *stage, uint32_t number, bool take, const char **state_out)
{
	const struct rung__manifest_file *file = &stage->manifest->files[number];
	struct rung__stage_part part;
	int rc;

	*state_out = NULL;
	if (rung__stage_file_done(stage, file->name))
		return 0;
	rc = rung__stage_part_open(&stage->dir, number, &part);
	if (rc == RUNG_E_NOENT || rc == RUNG_E_BUSY) {
		*state_out = rc == RUNG_E_BUSY ? "in progress" : "missing";
		rc = 0;
	} else if (rc == 0 && !rung__journal_last(&part.journal, RUNG__JOURNAL_COMPLETE)) {
		*state_out = "unfinished";
	} else if (rc == 0) {
		rc = check_part(stage, &part);
		if (rc == 0 && take)
			rc = take_file(stage, &part, file);
	}
	rung__stage_part_close(&part);
	return rc;
}

int rung__stage_parts_assemble(struct rung__stage *stage)
{
	const uint32_t count = stage->opts.part_count;
	char list[LIST_BYTES] = "";
	size_t used = 0;
	int rc = 0;

	for (uint32_t take = 0; take < 2 && rc == 0 && used == 0; take++) {
		for (uint32_t part = 1; part < count && rc == 0; part++) {
			const char *state;

			rc = visit(stage, part, take, &state);
			if (rc == 0 && state && used < LIST_BYTES)
				used += (size_t)snprintf(list + used, LIST_BYTES - used,
				                         "%s%" PRIu32 " (%s)", used ? ", " : "",
				                         part, state);
		}
	}
	if (rc < 0 || used == 0)
		return rc;
	return rung__fail(RUNG_E_NOENT,
	                  "%s: part 0 of %" PRIu32
	                  " is complete, but these are not: %s; stage them, then continue part "
	                  "0 with --resume",
	                  stage->opts.out_dir, count, list);
}

/* ---- the other parts ---- */

int rung__stage_part_end(struct rung__stage *stage)
{
	char host[256] = "";
	int rc = rung__stage_job_unchanged(stage);

	if (rc == 0)
		rc = rung__stage_check_part(stage);
	if (rc < 0)
		return rc;
	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		strcpy(host, "an unnamed host");
	rc = rung__journal_add(&stage->journal, RUNG__JOURNAL_COMPLETE " %s", host);
	return rc < 0 ? rc : rung__journal_commit(&stage->journal, -1);
}

int rung__stage_part_again(struct rung__stage *stage, bool *complete_out)
{
	int rc;

	*complete_out = rung__journal_last(&stage->journal, RUNG__JOURNAL_COMPLETE) != NULL;
	if (!*complete_out)
		return 0;
	stage->report.already_staged = 1;
	rc = rung__stage_accept_sums(stage);
	if (rc < 0 || rung__stage_part_moved(&stage->dir, rung__stage_features_name(stage)))
		return rc;
	return rung__stage_check_part(stage);
}
