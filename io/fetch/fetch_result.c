/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run: files are cut to their rows, and get headers, links, checksums, a manifest. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "fetch/state.h"
#include "file/file.h"
#include "folder/stage_step.h"
#include "source/npy.h"

/* ---- files that stay where they are ---- */

/* The folder of the files to which the result refers. */
static const char *rest_of(const struct rung__fetch_run *fetch)
{
	return fetch->opts.rest ? fetch->opts.rest : fetch->origin.text;
}

static int check_block(const struct rung__fetch_run *fetch, const struct rung__manifest_file *file,
                       int fd, const char *path, uint64_t block, unsigned char *buffer)
{
	const uint64_t at = block * RUNG__BLOCK_BYTES,
		       bytes = RUNG__MIN(file->bytes - at, RUNG__BLOCK_BYTES);
	int rc = rung__pread_all(fd, path, buffer, bytes, at);

	if (rc == 0 &&
	    rung__checksum(buffer, (size_t)bytes) != fetch->sums[file->first_block + block])
		rc = rung__fail(RUNG_E_CORRUPT,
		                "%s: bytes %" PRIu64 " to %" PRIu64
		                " do not match the checksum of %s: it is another dataset, or it is "
		                "damaged; give the folder of the same dataset",
		                path, at, at + bytes - 1, fetch->origin.text);
	return rc;
}

static int check_link(const struct rung__fetch_run *fetch, const struct rung__manifest_file *file,
                      unsigned char *buffer)
{
	char *path = rung__format("%s/%s", rest_of(fetch), file->name);
	struct stat st;
	int fd, rc;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s", file->name);
	fd = rung__open_regular(AT_FDCWD, path, path, 0);
	rc = fd < 0 ? fd : 0;
	if (rc == 0 && fstat(fd, &st) < 0)
		rc = rung__fail_errno(errno, "%s", path);
	if (rc == 0 && (uint64_t)st.st_size != file->bytes)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: has %jd bytes, but the file of %s has %" PRIu64
		                "; give the folder of the same dataset",
		                path, (intmax_t)st.st_size, fetch->origin.text, file->bytes);
	if (rc == 0)
		rc = check_block(fetch, file, fd, path, 0, buffer);
	if (rc == 0)
		rc = check_block(fetch, file, fd, path, file->block_count - 1, buffer);
	if (fd >= 0)
		close(fd);
	rung__free(path);
	return rc;
}

int rung__fetch_check_links(const struct rung__fetch_run *fetch)
{
	unsigned char *buffer = rung__malloc(RUNG__BLOCK_BYTES);
	int rc = buffer ? 0 : rung__fail(RUNG_E_NOMEM, "%s", rest_of(fetch));

	for (uint32_t i = 0; i < fetch->link_count && rc == 0; i++)
		rc = check_link(fetch, fetch->links[i].from, buffer);
	rung__free(buffer);
	return rc;
}

/* Links must be valid from every working folder. Links of the rest's folder are not followed: its
 * files are removed with it, and not with the result. */
static int make_links(const struct rung__fetch_run *fetch)
{
	char *real = fetch->link_count ? realpath(rest_of(fetch), NULL) : NULL;
	int rc = 0;

	if (fetch->link_count && !real)
		return rung__fail_errno(errno, "%s", rest_of(fetch));
	for (uint32_t i = 0; i < fetch->link_count && rc == 0; i++) {
		const char *name = fetch->links[i].to->name;
		char *target = rung__format("%s/%s", real, fetch->links[i].from->name);

		rung__stage_step("link");
		if (!target)
			rc = rung__fail(RUNG_E_NOMEM, "%s", name);
		else if ((unlinkat(fetch->dir.fd, name, 0) < 0 && errno != ENOENT) ||
		         symlinkat(target, fetch->dir.fd, name) < 0)
			rc = rung__fail_errno(errno, "%s/%s: the link cannot be created",
			                      fetch->dir.partial_path, name);
		rung__free(target);
	}
	free(real);
	return rc;
}

/* ---- copied files ---- */

static int sum_block(const struct rung__fetch_file *file, uint64_t block, unsigned char *buffer,
                     uint64_t *sums)
{
	const uint64_t at = block * RUNG__BLOCK_BYTES,
		       bytes = RUNG__MIN(file->to->bytes - at, RUNG__BLOCK_BYTES);
	int rc = rung__pread_all(file->fd, file->path, buffer, bytes, at);

	sums[file->to->first_block + block] = rung__checksum(buffer, (size_t)bytes);
	return rc;
}

/* Cut a file to its rows, and give it their number. Only its first and its last block then differ
 * from the source's. */
static int finish_file(struct rung__fetch_run *fetch, const struct rung__fetch_file *file,
                       unsigned char *buffer)
{
	const bool differs = file->to->array.dims[0] != file->from->array.dims[0];
	int rc = 0;

	memcpy(fetch->out_sums + file->to->first_block, fetch->sums + file->from->first_block,
	       file->to->block_count * sizeof(*fetch->sums));
	rung__stage_step("cut");
	if (ftruncate(file->fd, (off_t)file->to->bytes) < 0)
		return rung__fail_errno(errno, "%s: cannot be cut to its rows", file->path);
	if (differs) {
		rung__npy_format(&file->to->array, buffer);
		rung__stage_step("header");
		rc = rung__pwrite_all(file->fd, file->path, buffer, RUNG__NPY_DATA_OFFSET, 0);
		if (rc == 0)
			rc = sum_block(file, 0, buffer, fetch->out_sums);
		if (rc == 0)
			rc = sum_block(file, file->to->block_count - 1, buffer, fetch->out_sums);
	}
	rung__stage_step("sync");
	if (rc == 0 && fsync(file->fd) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", file->path);
	return rc;
}

/* ---- checksums and manifest ---- */

/* Create or replace a file of OUT.partial. */
static int write_file(const struct rung__fetch_run *fetch, const char *name, const void *data,
                      uint64_t bytes)
{
	char *path = rung__format("%s/%s", fetch->dir.partial_path, name);
	int fd, rc;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s", name);
	rung__stage_step("write");
	fd = openat(fetch->dir.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
	            0666);
	rc = fd < 0 ? rung__fail_errno(errno, "%s: cannot be created", path)
	            : rung__pwrite_all(fd, path, data, bytes, 0);
	if (rc == 0 && fsync(fd) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", path);
	if (fd >= 0)
		close(fd);
	rung__free(path);
	return rc;
}

/* checksums.npy of the result, and its checksums for the manifest. */
static int write_sums(struct rung__fetch_run *fetch)
{
	struct rung__manifest *m = fetch->result;
	unsigned char *data = rung__zalloc(m->checksums.bytes);
	int rc;

	if (!data)
		return rung__fail(RUNG_E_NOMEM, RUNG__CHECKSUMS ": no memory for %" PRIu64 " bytes",
		                  m->checksums.bytes);
	rung__npy_format(&m->checksums.array, data);
	memcpy(data + RUNG__NPY_DATA_OFFSET, fetch->out_sums, m->block_count * sizeof(uint64_t));
	rung__checksum_blocks(data, m->checksums.bytes, 1, m->checksums_sums);
	rc = write_file(fetch, RUNG__CHECKSUMS, data, m->checksums.bytes);
	rung__free(data);
	return rc;
}

/* A whole copy has the source's text, so that all copies of a dataset have the same manifest. */
static int write_manifest(struct rung__fetch_run *fetch)
{
	struct rung__manifest *parsed = NULL;
	char *text = NULL;
	int rc;

	if (rung__fetch_is_whole(fetch))
		return write_file(fetch, RUNG__MANIFEST_PARTIAL, fetch->text, fetch->text_bytes);
	rc = rung__manifest_format(fetch->result, &text);
	if (rc == 0)
		rc = rung__manifest_parse(fetch->dir.path, text, strlen(text), &parsed);
	rung__manifest_destroy(parsed);
	if (rc == 0)
		rc = write_file(fetch, RUNG__MANIFEST_PARTIAL, text, strlen(text));
	rung__free(text);
	return rc;
}

int rung__fetch_complete(struct rung__fetch_run *fetch)
{
	struct rung__manifest *m = fetch->result;
	unsigned char *buffer = rung__malloc(RUNG__BLOCK_BYTES);
	int rc = 0;

	fetch->out_sums = rung__zalloc_array(m->block_count, sizeof(*fetch->out_sums));
	if (!buffer || !fetch->out_sums)
		rc = rung__fail(RUNG_E_NOMEM, "%s", fetch->dir.path);
	for (uint32_t i = 0; i < fetch->file_count && rc == 0; i++)
		rc = finish_file(fetch, &fetch->files[i], buffer);
	for (uint32_t i = 0; i < fetch->link_count && rc == 0; i++)
		memcpy(fetch->out_sums + fetch->links[i].to->first_block,
		       fetch->sums + fetch->links[i].from->first_block,
		       fetch->links[i].to->block_count * sizeof(*fetch->sums));
	if (rc == 0)
		rc = make_links(fetch);
	if (rc == 0)
		rc = write_sums(fetch);
	if (rc == 0)
		rc = write_manifest(fetch);
	rung__free(buffer);
	return rc < 0 ? rc : rung__sync_folder(fetch->dir.fd, fetch->dir.partial_path);
}
