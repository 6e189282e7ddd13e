/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles a run with `resume` whose OUT exists already. If OUT is the complete result of this job,
 * its files are checked and the run is finished. An earlier run may have been killed between the
 * rename and the removal of its journal and of the replaced dataset: these last steps are then
 * completed here.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/base.h"
#include "file/file.h"
#include "folder/stage_dir.h"
#include "folder/stage_publish.h"
#include "source/npy.h"
#include "stage/stage_check.h"
#include "stage/stage_job.h"
#include "stage/stage_write.h"

/* Read the checksums of all blocks from checksums.npy, not from the journal, which a complete run
 * has removed. */
static int read_sums(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	char *path = rung__format("%s/" RUNG__CHECKSUMS, stage->dir.path);
	int fd, rc;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, RUNG__CHECKSUMS);
	rc = fd = rung__open_regular(stage->dir.fd, RUNG__CHECKSUMS, path, O_NOFOLLOW);
	if (fd >= 0) {
		rc = rung__pread_all(fd, path, stage->sums, m->block_count * sizeof(*stage->sums),
		                     RUNG__NPY_DATA_OFFSET);
		close(fd);
	}
	rung__free(path);
	return rc == RUNG_E_NOMEM || rc == 0
	               ? rc
	               : rung__fail(RUNG_E_CORRUPT, "%s; " RUNG__FINISHED_CURE, rung_last_error());
}

/* Check the files of OUT, whose manifest is now stage->manifest. */
static int check_previous(struct rung__stage *stage, const char *cure)
{
	int rc = rung__stage_accept_sums(stage);

	if (rc == 0)
		rc = read_sums(stage);
	if (rc == 0)
		rc = rung__stage_check_all(stage, stage->dir.path,
		                           stage->dir.published ? RUNG__STAGE_CURE : cure);
	/* The journal is still in OUT, so the dataset that was replaced may still exist under the
	 * name OUT.partial: the user can return to that dataset. */
	if (rc == RUNG_E_CORRUPT && stage->dir.published &&
	    faccessat(stage->dir.parent_fd, stage->dir.partial_name, F_OK, 0) == 0)
		return rung__fail(rc, "%s; the dataset that it replaced is still in %s",
		                  rung_last_error(), stage->dir.partial_path);
	return rc;
}

/* Open OUT and read its manifest. RUNG_E_EXIST if it belongs to another job; *previous_out may be
 * set after a failure, too. */
static int open_previous(struct rung__stage *stage, struct rung__manifest **previous_out)
{
	int rc = rung__stage_dir_open_out(&stage->dir);

	if (rc == 0)
		rc = rung__manifest_read(stage->dir.fd, stage->dir.path, previous_out);
	return rc < 0 ? rc : rung__stage_job_check_finished(stage, (*previous_out)->job);
}

int rung__stage_check_found(struct rung__stage *stage, const char *cure)
{
	int rc = rung__stage_dir_open_out(&stage->dir);

	if (rc == 0)
		rc = rung__manifest_read(stage->dir.fd, stage->dir.path, &stage->manifest);
	return rc < 0 ? rc : check_previous(stage, cure);
}

int rung__stage_finished(struct rung__stage *stage, bool *finished_out)
{
	struct rung__manifest *previous = NULL;
	int rc = open_previous(stage, &previous);

	*finished_out = false;
	if (rc < 0) {
		rung__manifest_destroy(previous);
		rung__stage_dir_close_out(&stage->dir);
		/* With `force` any other dataset is replaced, even a damaged one. The exceptions: a
		 * folder that another process uses is not replaced, and a lack of memory remains a
		 * failure. */
		return stage->dir.force && rc != RUNG_E_BUSY && rc != RUNG_E_NOMEM ? 0 : rc;
	}
	/* the report describes the dataset that was found */
	rung__manifest_destroy(stage->manifest);
	stage->manifest = previous;
	stage->report.score.iterations = previous->score_iterations;
	stage->report.score.batches_sampled = previous->score_batches;
	stage->report.resumed = stage->report.already_staged = 1;
	*finished_out = true;
	rc = check_previous(stage, RUNG__FINISHED_CURE);
	/* the clean-up is left to part 0 */
	return rc < 0 || !stage->dir.published || stage->opts.dry_run || stage->opts.part > 0
	               ? rc
	               : rung__stage_dir_finish(&stage->dir);
}
