/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfer of files in pieces, several at the same time. Each block is compared with its
 * checksum before it is written. A piece begins with the first block that the file does not have
 * yet, so a run that was stopped needs no record of what it has done.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/jobs.h"
#include "dataset/checksum.h"
#include "fetch/state.h"
#include "file/file.h"
#include "folder/stage_step.h"
#include "source/npy.h"

#define PIECE_BYTES   (64u << 20)
#define TRANSFERS     8u
#define TRANSFERS_MAX 64u
#define TRIES         5u           /* without a new block */
#define FIRST_WAIT_NS 500000000ull /* before the second try; doubled for each further one */
#define PROGRESS_NS   100000000ull
#define STOP_POLL_NS  50000000ull
#define DAMAGE_TRIES  2u /* a block that is damaged twice is damaged at the source */

struct copying {
	struct rung__fetch_run *fetch;
	uint64_t first_piece[RUNG__FETCH_FILES_MAX + 1];
	unsigned char *buffers; /* [threads][RUNG__BLOCK_BYTES] */
};

/* Report progress, and set `stop` if the caller cancels. */
static void report_progress(struct rung__fetch_run *fetch)
{
	const struct rung_fetch_opts *opts = &fetch->opts;

	if (opts->progress &&
	    opts->progress(opts->progress_ctx, "fetch", fetch->bytes_done, fetch->bytes_total)) {
		fetch->canceled = true;
		atomic_store(&fetch->stop, true);
	}
}

static uint64_t block_bytes(const struct rung__fetch_file *file, uint64_t block)
{
	return RUNG__MIN(file->from->bytes - block * RUNG__BLOCK_BYTES, RUNG__BLOCK_BYTES);
}

static bool block_ok(const struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                     uint64_t block, const void *data)
{
	return rung__checksum(data, (size_t)block_bytes(file, block)) ==
	       fetch->sums[file->from->first_block + block];
}

/* Whether the copy has a block. A run that was stopped at its end may have cut the file to its
 * rows, or replaced the header, whose form in the source is known. */
static bool has_block(const struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                      uint64_t block, unsigned char *buffer)
{
	const uint64_t bytes = block_bytes(file, block);
	ssize_t got = pread(file->fd, buffer, (size_t)bytes, (off_t)(block * RUNG__BLOCK_BYTES));

	if (got != (ssize_t)bytes)
		return false;
	if (block_ok(fetch, file, block, buffer))
		return true;
	if (block > 0)
		return false;
	rung__npy_format(&file->from->array, buffer);
	if (!block_ok(fetch, file, block, buffer))
		return false;
	return rung__pwrite_all(file->fd, file->path, buffer, RUNG__NPY_DATA_OFFSET, 0) == 0;
}

static int fail_damaged(const struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                        uint64_t block)
{
	return rung__fail(RUNG_E_CORRUPT,
	                  "%s/%s: bytes %" PRIu64 " to %" PRIu64
	                  " do not match their checksum: the source is damaged; check it with rung "
	                  "verify, repair it, and continue with the same command",
	                  fetch->origin.text, file->from->name, block * RUNG__BLOCK_BYTES,
	                  block * RUNG__BLOCK_BYTES + block_bytes(file, block) - 1);
}

/* Wait before another try. @return false if the run is stopped */
static bool wait_ns(struct rung__fetch_run *fetch, uint64_t ns)
{
	const uint64_t until_ns = rung__now_ns() + ns;

	while (!atomic_load(&fetch->stop) && rung__now_ns() < until_ns)
		usleep(STOP_POLL_NS / 1000);
	return !atomic_load(&fetch->stop);
}

/* Transfer the blocks from *block to `end` - 1. After a failure *block is the first missing one.
 */
static int transfer(struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                    uint64_t *block, uint64_t end, unsigned char *buffer)
{
	struct rung__transfer transfer;
	int rc = rung__transfer_begin(&fetch->origin, file->from->name, *block * RUNG__BLOCK_BYTES,
	                              RUNG__MIN(end * RUNG__BLOCK_BYTES, file->bytes), &transfer);

	if (rc < 0)
		return rc;
	for (; *block < end && rc == 0; ++*block) {
		const uint64_t bytes = block_bytes(file, *block);

		rc = rung__transfer_read(&transfer, buffer, bytes);
		if (rc == 0 && !block_ok(fetch, file, *block, buffer))
			rc = fail_damaged(fetch, file, *block);
		rung__stage_step("write block");
		if (rc == 0)
			rc = rung__pwrite_all(file->fd, file->path, buffer, bytes,
			                      *block * RUNG__BLOCK_BYTES);
		if (rc < 0)
			break;
		atomic_fetch_add(&fetch->bytes_done, bytes);
	}
	rung__transfer_end(&transfer);
	return rc;
}

/* Whether to try again after a failure. `damaged`, `failed`: failures without a new block. */
static bool is_temporary(int rc, uint32_t damaged, uint32_t failed)
{
	if (rc == RUNG_E_CORRUPT)
		return damaged < DAMAGE_TRIES;
	return rc == RUNG_E_IO && failed < TRIES;
}

static int fetch_blocks(struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                        uint64_t block, uint64_t end, unsigned char *buffer)
{
	uint32_t failed = 0, damaged = 0;
	int rc = 0;

	while (block < end) {
		const uint64_t before = block;

		rc = transfer(fetch, file, &block, end, buffer);
		if (rc == 0)
			break;
		if (block > before)
			failed = damaged = 0;
		failed++;
		damaged += rc == RUNG_E_CORRUPT;
		/* the folder's file has the same bytes if it is read again */
		if (!is_temporary(rc, damaged, failed) ||
		    fetch->origin.kind == RUNG__ORIGIN_FOLDER ||
		    !wait_ns(fetch, FIRST_WAIT_NS << (failed - 1)))
			break;
	}
	return rc;
}

/* A job: one piece of one file. */
static int fetch_piece(void *ctx, uint64_t piece, uint32_t worker)
{
	struct copying *copying = ctx;
	struct rung__fetch_run *fetch = copying->fetch;
	unsigned char *buffer = copying->buffers + (size_t)worker * RUNG__BLOCK_BYTES;
	const struct rung__fetch_file *file = fetch->files;
	const uint64_t *first = copying->first_piece;
	uint64_t block, end;

	while (piece >= first[1]) {
		first++;
		file++;
	}
	block = (piece - *first) * (PIECE_BYTES / RUNG__BLOCK_BYTES);
	end = RUNG__MIN(block + PIECE_BYTES / RUNG__BLOCK_BYTES, rung__block_count(file->bytes));
	while (block < end && !atomic_load(&fetch->stop) && has_block(fetch, file, block, buffer)) {
		atomic_fetch_add(&fetch->bytes_kept, block_bytes(file, block));
		atomic_fetch_add(&fetch->bytes_done, block_bytes(file, block));
		block++;
	}
	return fetch_blocks(fetch, file, block, end, buffer);
}

static int fetch_pieces(struct rung__fetch_run *fetch)
{
	const uint32_t threads =
		fetch->opts.threads ? RUNG__MIN(fetch->opts.threads, TRANSFERS_MAX) : TRANSFERS;
	struct copying copying = { .fetch = fetch };
	struct rung__jobs *jobs = NULL;
	uint64_t ended;
	int rc;

	for (uint32_t i = 0; i < fetch->file_count; i++)
		copying.first_piece[i + 1] =
			copying.first_piece[i] +
			(fetch->files[i].bytes + PIECE_BYTES - 1) / PIECE_BYTES;
	copying.buffers = rung__malloc_array(threads, RUNG__BLOCK_BYTES);
	if (!copying.buffers)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu32 " transfers",
		                  fetch->dir.path, threads);
	rc = rung__jobs_start(threads, copying.first_piece[fetch->file_count], fetch_piece,
	                      &copying, &jobs);
	if (rc == 0) {
		while (!rung__jobs_over(jobs, PROGRESS_NS, &ended)) {
			report_progress(fetch);
			if (atomic_load(&fetch->stop))
				rung__jobs_stop(jobs);
		}
		/* those in flight end now if one has failed */
		atomic_store(&fetch->stop, true);
		rc = rung__jobs_end(jobs);
	}
	rung__free(copying.buffers);
	return rc;
}

/* ---- rsync ---- */

/* The first block that the copy lacks. */
static uint64_t first_missing(struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                              uint64_t block, unsigned char *buffer)
{
	while (block * RUNG__BLOCK_BYTES < file->bytes && has_block(fetch, file, block, buffer))
		block++;
	return block;
}

static void report_append(void *ctx)
{
	report_progress(ctx);
}

/* Append to one file until it has all blocks. */
static int append_file(struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                       unsigned char *buffer)
{
	const uint64_t blocks = rung__block_count(file->bytes);
	uint64_t block = first_missing(fetch, file, 0, buffer);
	uint32_t failed = 0, damaged = 0;

	atomic_fetch_add(&fetch->bytes_kept, RUNG__MIN(block * RUNG__BLOCK_BYTES, file->bytes));
	while (block < blocks) {
		const uint64_t before = block;
		struct stat st;
		int rc;

		if (ftruncate(file->fd, (off_t)(block * RUNG__BLOCK_BYTES)) < 0)
			return rung__fail_errno(errno, "%s: cannot be cut", file->path);
		rc = rung__origin_append(&fetch->origin, file->from->name, fetch->dir.fd,
		                         file->to->name, file->bytes, report_append, fetch);
		block = first_missing(fetch, file, block, buffer);
		if (block == blocks)
			break;
		/* a complete block that does not match */
		if (rc == 0 || (rc == RUNG_E_IO && fstat(file->fd, &st) == 0 &&
		                (uint64_t)st.st_size >= (block + 1) * RUNG__BLOCK_BYTES))
			rc = fail_damaged(fetch, file, block);
		if (block > before)
			failed = damaged = 0;
		failed++;
		damaged += rc == RUNG_E_CORRUPT;
		if (!is_temporary(rc, damaged, failed) ||
		    !wait_ns(fetch, FIRST_WAIT_NS << (failed - 1)))
			return rc;
	}
	atomic_fetch_add(&fetch->bytes_done, file->bytes);
	report_progress(fetch);
	return 0;
}

static int append_files(struct rung__fetch_run *fetch)
{
	unsigned char *buffer = rung__malloc(RUNG__BLOCK_BYTES);
	int rc = buffer ? 0 : rung__fail(RUNG_E_NOMEM, "%s", fetch->dir.path);

	for (uint32_t i = 0; i < fetch->file_count && rc == 0; i++)
		rc = append_file(fetch, &fetch->files[i], buffer);
	rung__free(buffer);
	return rc;
}

/* ---- all files ---- */

static int open_file(struct rung__fetch_run *fetch, struct rung__fetch_file *file)
{
	file->path = rung__format("%s/%s", fetch->dir.partial_path, file->to->name);
	if (!file->path)
		return rung__fail(RUNG_E_NOMEM, "%s", file->to->name);
	rung__stage_step("create");
	file->fd = openat(fetch->dir.fd, file->to->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
	                  0666);
	return file->fd < 0 ? rung__fail_errno(errno, "%s: cannot be created", file->path) : 0;
}

int rung__fetch_files(struct rung__fetch_run *fetch)
{
	int rc = 0;

	for (uint32_t i = 0; i < fetch->file_count && rc == 0; i++)
		rc = open_file(fetch, &fetch->files[i]);
	if (rc == 0)
		rc = fetch->origin.kind == RUNG__ORIGIN_RSYNC ? append_files(fetch)
		                                              : fetch_pieces(fetch);
	if (rc == 0 || !fetch->canceled)
		return rc;
	return rung__fail(RUNG_E_CANCELED,
	                  "%s: canceled; continue with the same command: %" PRIu64 " of %" PRIu64
	                  " bytes are in %s",
	                  fetch->origin.text, (uint64_t)fetch->bytes_done, fetch->bytes_total,
	                  fetch->dir.partial_path);
}
