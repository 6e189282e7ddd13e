/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a dataset, or its hottest rows, from another machine: the order of the steps.
 *
 * Manifest and checksums come first, and every block that arrives is compared with them. Rows are
 * in the order of their scores, so the beginning of the features is the best part for a fast drive.
 * The copy appears under its name when it is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "dataset/dataset.h"
#include "fetch/state.h"
#include "file/file.h"
#include "folder/stage_dir.h"
#include "folder/stage_entries.h"
#include "folder/stage_publish.h"
#include "source/npy.h"

#define JOB "job fetch"

/* ---- small files ---- */

static void no_progress(void *ctx)
{
	(void)ctx;
}

/* A folder for a file that rsync writes. @return descriptor, or a failure */
static int make_temporary(char path[PATH_MAX])
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	if (snprintf(path, PATH_MAX, "%s/rung-XXXXXX", tmp ? tmp : "/tmp") >= PATH_MAX ||
	    !mkdtemp(path))
		return rung__fail_errno(errno, "%s: a temporary folder cannot be created", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? rung__fail_errno(errno, "%s", path) : fd;
}

/* Through rsync into a file, and from there into memory. */
static int append_and_read(struct rung__fetch_run *fetch, const char *name, char *data,
                           uint64_t bytes, uint64_t *got_out)
{
	char path[PATH_MAX];
	const int dir_fd = make_temporary(path);
	struct stat st;
	int fd, rc;

	if (dir_fd < 0)
		return dir_fd;
	rc = rung__origin_append(&fetch->origin, name, dir_fd, name, bytes, no_progress, NULL);
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	/* a file with fewer bytes is complete unless rsync failed, and then it is empty */
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
		*got_out = RUNG__MIN((uint64_t)st.st_size, bytes);
		rc = rung__pread_all(fd, name, data, *got_out, 0);
	}
	if (fd >= 0)
		close(fd);
	unlinkat(dir_fd, name, 0);
	close(dir_fd);
	rmdir(path);
	return rc;
}

/* The manifest's size is not known: read until it ends. */
static int read_text(struct rung__fetch_run *fetch, char *data, uint64_t bytes, uint64_t *got_out)
{
	struct rung__transfer transfer;
	int rc;

	if (fetch->origin.kind == RUNG__ORIGIN_RSYNC)
		return append_and_read(fetch, RUNG__MANIFEST, data, bytes, got_out);
	rc = rung__transfer_begin(&fetch->origin, RUNG__MANIFEST, 0, bytes, &transfer);
	if (rc < 0)
		return rc;
	rc = rung__transfer_rest(&transfer, data, bytes, got_out);
	rung__transfer_end(&transfer);
	return rc;
}

static int read_manifest(struct rung__fetch_run *fetch)
{
	char *path = rung__format("%s/" RUNG__MANIFEST, fetch->origin.text);
	uint64_t bytes = 0;
	int rc;

	fetch->text = rung__malloc(RUNG__MANIFEST_BYTES_MAX + 1);
	rc = path && fetch->text ? read_text(fetch, fetch->text, RUNG__MANIFEST_BYTES_MAX, &bytes)
	                         : rung__fail(RUNG_E_NOMEM, RUNG__MANIFEST);
	fetch->text_bytes = bytes;
	if (rc == 0)
		rc = rung__manifest_parse(path, fetch->text, bytes, &fetch->source);
	/* a second one, whose layout will be changed */
	if (rc == 0)
		rc = rung__manifest_parse(path, fetch->text, bytes, &fetch->result);
	if (rc == 0 && fetch->source->types)
		rc = rung__fail(RUNG_E_NOSUP,
		                "%s: is typed; fetch each of its parts into a folder of the same "
		                "name, and copy its " RUNG__MANIFEST " last",
		                fetch->origin.text);
	if (rc == 0 && rung__manifest_in_place(fetch->source))
		rc = rung__fail(
			RUNG_E_INVAL,
			"%s: its rows were staged in place, in %s; copy that file and stage "
			"it again, or stage without --in-place",
			fetch->origin.text, fetch->source->in_place.path);
	rung__free(path);
	return rc;
}

/* checksums.npy, which is compared with the manifest. */
static int read_sums(struct rung__fetch_run *fetch)
{
	const struct rung__manifest *m = fetch->source;
	const uint64_t bytes = m->checksums.bytes;
	unsigned char *data = rung__malloc(bytes);
	uint64_t *found = rung__malloc_array(m->checksums.block_count, sizeof(uint64_t));
	struct rung__transfer transfer;
	uint64_t got = 0;
	int rc = 0;

	fetch->sums = rung__malloc_array(m->block_count, sizeof(uint64_t));
	if (!data || !found || !fetch->sums) {
		rc = rung__fail(RUNG_E_NOMEM, RUNG__CHECKSUMS ": no memory for %" PRIu64 " bytes",
		                bytes);
	} else if (fetch->origin.kind == RUNG__ORIGIN_RSYNC) {
		rc = append_and_read(fetch, RUNG__CHECKSUMS, (char *)data, bytes, &got);
	} else {
		rc = rung__transfer_begin(&fetch->origin, RUNG__CHECKSUMS, 0, bytes, &transfer);
		if (rc == 0) {
			rc = rung__transfer_read(&transfer, data, bytes);
			rung__transfer_end(&transfer);
			got = bytes;
		}
	}
	if (rc == 0) {
		rung__checksum_blocks(data, got == bytes ? bytes : 0, 1, found);
		if (got != bytes || memcmp(found, m->checksums_sums,
		                           m->checksums.block_count * sizeof(*found)) != 0)
			rc = rung__fail(
				RUNG_E_CORRUPT,
				"%s/" RUNG__CHECKSUMS
				": does not match its checksums in the manifest: the source "
				"is damaged; check it with rung verify",
				fetch->origin.text);
		else
			memcpy(fetch->sums, data + RUNG__NPY_DATA_OFFSET,
			       m->block_count * sizeof(uint64_t));
	}
	rung__free(data);
	rung__free(found);
	return rc;
}

/* ---- the folder ---- */

/* Lock OUT.partial, and note what is copied into it. Work for another source is not touched. */
static int acquire(struct rung__fetch_run *fetch)
{
	struct rung__journal *journal = &fetch->journal;
	const size_t length = strlen(fetch->origin.text);
	const char *job;
	int rc = rung__stage_dir_acquire(&fetch->dir, journal);

	if (rc < 0)
		return rc;
	if (fetch->dir.keep) {
		job = rung__lines_last(journal->text, JOB);
		if (job && strncmp(job, fetch->origin.text, length) == 0 && job[length] == '\n')
			return 0;
		return rung__fail(
			RUNG_E_EXIST,
			"%s: contains unfinished work of another run; finish that one, or "
			"remove the folder",
			fetch->dir.partial_path);
	}
	rc = rung__journal_add(journal, JOB " %s", fetch->origin.text);
	if (rc == 0)
		rc = rung__journal_add(journal, RUNG__JOURNAL_RANKED " fetched");
	return rc < 0 ? rc : rung__stage_dir_keep(&fetch->dir, journal);
}

/* The result of a share records which dataset it is a part of. */
static int record_job(struct rung__fetch_run *fetch)
{
	struct rung__manifest *m = fetch->result;

	rung__free(m->job);
	m->job = rung__format("fetched %016" PRIx64 "\n",
	                      rung__checksum(fetch->text, fetch->text_bytes));
	return m->job ? 0 : rung__fail(RUNG_E_NOMEM, RUNG__MANIFEST);
}

/* Whether the folder OUT is already what would be copied. */
static bool is_done(const struct rung__fetch_run *fetch)
{
	const struct rung__manifest *m = fetch->result;
	struct rung__manifest *found = NULL;
	bool same;

	if (rung__manifest_read(fetch->dir.fd, fetch->dir.path, &found) < 0)
		return false;
	same = found->range_count == m->range_count &&
	       found->checksums.block_count == m->checksums.block_count;
	for (uint32_t i = 0; i < m->range_count && same; i++)
		same = found->ranges[i].end == m->ranges[i].end &&
		       found->ranges[i].stored_end == m->ranges[i].stored_end;
	/* checksums of checksums: of all files of a whole copy */
	if (same && rung__fetch_is_whole(fetch))
		same = found->text_bytes == fetch->text_bytes &&
		       memcmp(found->checksums_sums, fetch->source->checksums_sums,
		              m->checksums.block_count * sizeof(uint64_t)) == 0;
	else if (same)
		same = found->job && strcmp(found->job, m->job) == 0;
	rung__manifest_destroy(found);
	return same;
}

/* OUT exists: it must be the wanted copy, perhaps one whose run was killed at its end. */
static int accept_out(struct rung__fetch_run *fetch)
{
	struct rung_dataset *ds = NULL;
	int rc = rung__stage_dir_open_out(&fetch->dir);

	if (rc < 0)
		return rc;
	if (!is_done(fetch))
		rc = rung__fail(RUNG_E_EXIST,
		                "%s: exists, and is not this copy of %s; choose another output, or "
		                "remove it",
		                fetch->dir.path, fetch->origin.text);
	/* its files must be there */
	if (rc == 0)
		rc = rung__dataset_open(fetch->dir.path, true, &ds);
	rung_dataset_close(ds);
	if (rc == 0 && fetch->dir.published)
		rc = rung__stage_dir_finish(&fetch->dir);
	rung__stage_dir_close_out(&fetch->dir);
	fetch->bytes_kept = fetch->bytes_done = fetch->bytes_total;
	return rc;
}

static int check_space(const struct rung__fetch_run *fetch)
{
	uint64_t free_bytes;
	int rc = rung__stage_dir_free_bytes(&fetch->dir, &free_bytes);

	if (rc == 0 && free_bytes < fetch->bytes_total)
		rc = rung__fail(RUNG_E_NOSPC,
		                "%s: the copy needs %" PRIu64 " bytes, and %" PRIu64
		                " are free; give a smaller --share, or another output",
		                fetch->dir.path, fetch->bytes_total, free_bytes);
	return rc;
}

static int run(struct rung__fetch_run *fetch)
{
	int rc;

	if ((rc = read_manifest(fetch)) < 0 || (rc = rung__fetch_lay_out(fetch)) < 0)
		return rc;
	if (!rung__fetch_is_whole(fetch) && !fetch->opts.rest &&
	    fetch->origin.kind != RUNG__ORIGIN_FOLDER)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: a share of the rows leaves the others where they are; give "
		                  "--rest with a folder through which this machine reads them",
		                  fetch->origin.text);
	if (!rung__fetch_is_whole(fetch) && (rc = record_job(fetch)) < 0)
		return rc;
	if (fetch->dir.staged)
		return accept_out(fetch);
	if ((rc = read_sums(fetch)) < 0 || (rc = rung__fetch_check_links(fetch)) < 0 ||
	    (rc = acquire(fetch)) < 0 || (rc = check_space(fetch)) < 0 ||
	    (rc = rung__fetch_files(fetch)) < 0 || (rc = rung__fetch_complete(fetch)) < 0)
		return rc;
	return rung__stage_dir_publish(&fetch->dir);
}

static void fill_report(const struct rung__fetch_run *fetch, uint64_t start_ns,
                        struct rung_fetch_report *report)
{
	const struct rung__manifest *m = fetch->result;

	*report = (struct rung_fetch_report){
		.vertex_count = m->vertex_count,
		.row_count = m->vertex_count,
		.bytes = fetch->bytes_total,
		.bytes_kept = fetch->bytes_kept,
		.seconds = (double)(rung__now_ns() - start_ns) * 1e-9,
	};
	for (uint32_t i = 0; i < fetch->link_count; i++)
		report->bytes_left += fetch->links[i].from->bytes;
	/* the ranges that are not copied are the last ones */
	for (uint32_t i = 0; i < m->range_count && fetch->link_count > 0; i++) {
		if (&m->files[m->ranges[i].file_first] != fetch->links[0].to)
			continue;
		report->row_count = i > 0 ? m->ranges[i - 1].end : 0;
	}
}

static void fini(struct rung__fetch_run *fetch)
{
	for (uint32_t i = 0; i < fetch->file_count; i++) {
		if (fetch->files[i].fd >= 0)
			close(fetch->files[i].fd);
		rung__free(fetch->files[i].path);
	}
	rung__stage_dir_fini(&fetch->dir);
	rung__journal_fini(&fetch->journal);
	rung__manifest_destroy(fetch->source);
	rung__manifest_destroy(fetch->result);
	rung__origin_fini(&fetch->origin);
	rung__free(fetch->text);
	rung__free(fetch->sums);
	rung__free(fetch->out_sums);
	rung__free(fetch);
}

static int check_opts(struct rung_fetch_opts *opts)
{
	if (!opts->source || !opts->out_dir)
		return rung__fail(RUNG_E_INVAL, "fetch: source or out_dir is NULL; give both");
	if (opts->share == 0)
		opts->share = 1;
	if (!(opts->share > 0 && opts->share <= 1))
		return rung__fail(RUNG_E_INVAL,
		                  "fetch: the share %g is not above 0 and at most 1; give one such "
		                  "as 0.4",
		                  opts->share);
	return 0;
}

int rung_fetch(const struct rung_fetch_opts *opts, struct rung_fetch_report *report_out)
{
	const uint64_t start_ns = rung__now_ns();
	struct rung__fetch_run *fetch = rung__zalloc(sizeof(*fetch));
	int rc;

	if (!fetch)
		return rung__fail(RUNG_E_NOMEM, "fetch");
	fetch->opts = (struct rung_fetch_opts)RUNG_FETCH_OPTS_INIT;
	fetch->dir.parent_fd = fetch->dir.fd = fetch->journal.fd = -1;
	rc = rung__opts_copy_in(&fetch->opts, sizeof(fetch->opts), opts, "rung_fetch_opts");
	if (rc == 0)
		rc = check_opts(&fetch->opts);
	if (rc == 0)
		rc = rung__origin_init(fetch->opts.source, &fetch->stop, &fetch->origin);
	/* `resume`: an unfinished copy is always continued */
	if (rc == 0)
		rc = rung__stage_dir_init(
			&fetch->dir,
			&(struct rung_stage_opts){ .out_dir = fetch->opts.out_dir, .resume = 1 });
	if (rc == 0)
		rc = run(fetch);
	if (rc == 0 && report_out)
		fill_report(fetch, start_ns, report_out);
	fini(fetch);
	return rc;
}
