/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files with data from memory, block by block and without the page cache. The checksum of
 * each block is computed from the data in memory, before it is written, so that it covers the
 * write. Checksums in the journal are read into sums[].
 *
 * A line of the journal describes synced data only. So a file is synced when it is closed, then
 * its checksums and its name are added to the pending lines, and a commit writes these lines.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "file/direct.h"
#include "file/file.h"
#include "folder/stage_step.h"
#include "source/npy.h"
#include "stage/stage_write.h"

#define CHUNK_ITEMS 65536u /* number of items that are put in rank order at a time: 256 KiB */

/* A file that is being written through stage->buffer. Only one is open at a time. */
struct array_output {
	struct rung__stage *stage;
	const struct rung__manifest_file *file;
	uint64_t *sums; /* [file->block_count], set as blocks are written */
	char *path;     /* for messages */
	struct rung__direct direct;
	size_t used;      /* number of bytes in stage->buffer */
	uint64_t written; /* number of bytes in the file */
};

/* Create the file. An existing one is an error: unfinished files of an earlier run were removed. */
static int open_file(struct array_output *out, int dir_fd, const char *name)
{
	int fd, rc;

	rung__stage_step("create");
	fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot be created", out->path);
	rc = rung__direct_open_write(&out->direct, fd, out->path);
	close(fd); /* `direct` uses a separate descriptor */
	out->direct.bytes_needed = out->file->bytes;
	return rc;
}

/* Begin a file: create it, reserve its space, and put the .npy header into the buffer. After a
 * failure, too, close_output() releases it. @param sums  [file->block_count] */
static int open_output(struct array_output *out, struct rung__stage *stage,
                       const struct rung__manifest_file *file, uint64_t *sums)
{
	int rc;

	*out = (struct array_output){ .stage = stage, .file = file, .sums = sums, .direct.fd = -1 };
	out->path = rung__format("%s/%s", stage->dir.partial_path, file->name);
	if (!out->path)
		return rung__fail(RUNG_E_NOMEM, "%s", file->name);
	rc = open_file(out, stage->dir.fd, file->name);
	rung__stage_step("reserve");
	/* a full disk is reported now, before hours of work, and the file gets few extents */
	if (rc == 0)
		rc = rung__reserve(out->direct.fd, out->path, file->bytes);
	if (rc < 0)
		return rc;
	rung__npy_format(&file->array, stage->buffer);
	out->used = RUNG__NPY_DATA_OFFSET;
	return 0;
}

/* Write the buffer at the end of the file. Direct writes have whole pages, so the last one is
 * padded with zeros, which close_output() cuts off; the checksums do not include them. */
static int flush(struct array_output *out)
{
	struct rung__stage *stage = out->stage;
	const size_t used = out->used, bytes = (size_t)rung__align_up(used, RUNG__PAGE_BYTES);
	int rc;

	rung__checksum_blocks(stage->buffer, used, stage->threads,
	                      out->sums + out->written / RUNG__BLOCK_BYTES);
	memset(stage->buffer + used, 0, bytes - used);
	rung__stage_step("write");
	rc = rung__direct_write(&out->direct, stage->buffer, bytes, out->written);
	if (rc < 0)
		return rc;
	out->written += used;
	out->used = 0;
	return rung__stage_advance(stage, "files", used);
}

/* Append data. The buffer is written only when it is full, so every write except the last consists
 * of whole blocks. */
static int append(struct array_output *out, const void *data, uint64_t bytes)
{
	const unsigned char *from = data;
	int rc;

	while (bytes > 0) {
		size_t piece = (size_t)RUNG__MIN(bytes, RUNG__STAGE_BUFFER_BYTES - out->used);

		memcpy(out->stage->buffer + out->used, from, piece);
		out->used += piece;
		from += piece;
		bytes -= piece;
		if (out->used == RUNG__STAGE_BUFFER_BYTES) {
			rc = flush(out);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

/* Write the rest, cut the file to its size, sync it, and release everything. `rc` is the result of
 * the writes; if it is a failure, it is returned, and the file is left as it is. */
static int close_output(struct array_output *out, int rc)
{
	if (rc == 0 && out->used > 0)
		rc = flush(out);
	if (rc == 0) {
		rung__stage_step("sync");
		if (ftruncate(out->direct.fd, (off_t)out->file->bytes) < 0 ||
		    fsync(out->direct.fd) < 0)
			rc = rung__fail_errno(errno, "%s: cannot be synced to the device",
			                      out->path);
	}
	rung__direct_close(&out->direct);
	rung__free(out->path);
	return rc;
}

int rung__stage_accept_sums(struct rung__stage *stage)
{
	stage->buffer = rung__malloc_aligned(RUNG__PAGE_BYTES, RUNG__STAGE_BUFFER_BYTES);
	stage->sums = rung__zalloc_array(stage->manifest->block_count, sizeof(*stage->sums));
	if (!stage->buffer || !stage->sums)
		return rung__fail(RUNG_E_NOMEM,
		                  "staging: no memory for the checksums of %" PRIu64 " blocks",
		                  stage->manifest->block_count);
	rung__journal_drain_sums(&stage->journal, 0, stage->manifest->block_count, stage->sums);
	return 0;
}

/* Add a complete, synced file to the journal: first its checksums, then its name. If a kill cuts
 * off the journal in between, the file is not listed as finished. */
static int note_file(struct rung__stage *stage, const struct rung__manifest_file *file)
{
	int rc = rung__journal_add_sums(&stage->journal, file->first_block, file->block_count,
	                                stage->sums + file->first_block);

	return rc < 0 ? rc : rung__journal_add(&stage->journal, "file %s", file->name);
}

/* Write and sync a file from data in memory. @param sums  [file->block_count], set */
static int write_array(struct rung__stage *stage, const struct rung__manifest_file *file,
                       const void *data, uint64_t *sums)
{
	struct array_output out;
	int rc = open_output(&out, stage, file, sums);

	if (rc == 0)
		rc = append(&out, data, file->bytes - RUNG__NPY_DATA_OFFSET);
	return close_output(&out, rc);
}

int rung__stage_write_array(struct rung__stage *stage, const char *name, const void *data)
{
	const struct rung__manifest_file *file = rung__manifest_file(stage->manifest, name);
	int rc = write_array(stage, file, data, stage->sums + file->first_block);

	return rc < 0 ? rc : note_file(stage, file);
}

/* Read a file of OUT.partial once, in buffers of whole blocks, and either record the checksums of
 * its blocks or, with `compare`, check them. @param to  its data without the header; NULL: only the
 * checksums */
static int read_file(struct rung__stage *stage, const struct rung__manifest_file *file,
                     const struct rung__direct *direct, bool compare, unsigned char *to)
{
	uint64_t sums[RUNG__STAGE_BUFFER_BYTES / RUNG__BLOCK_BYTES],
		*known = stage->sums + file->first_block;
	int rc = 0;

	for (uint64_t at = 0; at < file->bytes && rc == 0; at += RUNG__STAGE_BUFFER_BYTES) {
		/* `skip`: the header, which only the first buffer contains */
		const uint64_t bytes = RUNG__MIN(file->bytes - at, RUNG__STAGE_BUFFER_BYTES),
			       skip = at ? 0 : RUNG__NPY_DATA_OFFSET;

		rc = rung__direct_read(direct, stage->buffer, bytes, at);
		if (rc < 0)
			return rc;
		rung__checksum_blocks(stage->buffer, (size_t)bytes, stage->threads, sums);
		for (uint64_t i = 0; i < rung__block_count(bytes); i++, known++) {
			if (compare && *known != sums[i])
				return rung__fail(RUNG_E_CORRUPT,
				                  "%s: differs from the record in the journal; "
				                  "start from scratch with --force",
				                  direct->name);
			*known = sums[i];
		}
		if (to)
			memcpy(to + (at + skip - RUNG__NPY_DATA_OFFSET), stage->buffer + skip,
			       (size_t)(bytes - skip));
		rc = rung__stage_advance(stage, "files", bytes);
	}
	return rc;
}

/* Like read_file(), for a file by its name. Reads are direct, so that the content of the device is
 * checked, not that of the page cache. */
static int open_and_read(struct rung__stage *stage, const char *name, bool compare, void *to)
{
	const struct rung__manifest_file *file = rung__manifest_file(stage->manifest, name);
	char *path = rung__format("%s/%s", stage->dir.partial_path, name);
	struct rung__direct direct;
	int fd, rc;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s", name);
	rc = fd = rung__open_regular(stage->dir.fd, name, path, O_NOFOLLOW);
	if (fd >= 0)
		rc = rung__direct_open(&direct, fd, path);
	if (fd >= 0)
		close(fd);
	if (rc == 0) {
		rc = read_file(stage, file, &direct, compare, to);
		rung__direct_close(&direct);
	}
	rung__free(path);
	return rc;
}

int rung__stage_sum_file(struct rung__stage *stage, const char *name)
{
	int rc = open_and_read(stage, name, false, NULL);

	return rc < 0 ? rc : note_file(stage, rung__manifest_file(stage->manifest, name));
}

int rung__stage_read_array(struct rung__stage *stage, const char *name, void *data_out)
{
	return open_and_read(stage, name, true, data_out);
}

int rung__stage_write_score(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	const struct rung__manifest_file *file = rung__manifest_file(m, RUNG__SCORE);
	float *chunk = rung__malloc_array(CHUNK_ITEMS, sizeof(*chunk));
	struct array_output out;
	int rc;

	if (!chunk)
		return rung__fail(RUNG_E_NOMEM, "%s", file->name);
	rc = open_output(&out, stage, file, stage->sums + file->first_block);
	/* written in chunks, because a second array of all scores might not fit in memory next to
	 * the maps */
	for (uint64_t first = 0; first < m->vertex_count && rc == 0; first += CHUNK_ITEMS) {
		uint64_t count = RUNG__MIN(CHUNK_ITEMS, m->vertex_count - first);

		for (uint64_t i = 0; i < count; i++)
			chunk[i] = stage->score[rung__id_get(stage->vertex_of_rank, m->index_bytes,
			                                     first + i)];
		rc = append(&out, chunk, count * sizeof(*chunk));
	}
	rc = close_output(&out, rc);
	rung__free(chunk);
	return rc < 0 ? rc : note_file(stage, file);
}

/* Write a split as ranks, in the order in which it was given. */
static int write_split(struct rung__stage *stage, const struct rung__manifest_file *file,
                       const struct rung__stage_split_ids *split)
{
	const unsigned index_bytes = stage->manifest->index_bytes;
	void *ranks = rung__malloc_array(split->count, index_bytes);
	int rc;

	if (!ranks)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu64 " ids", file->name,
		                  split->count);
	for (uint64_t i = 0; i < split->count; i++)
		rung__id_set(ranks, index_bytes, i,
		             rung__id_get(stage->rank_of_vertex, index_bytes, split->ids[i]));
	rc = rung__stage_write_array(stage, file->name, ranks);
	rung__free(ranks);
	return rc;
}

int rung__stage_write_splits(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	int rc = 0;

	for (uint32_t i = 0; i < m->split_count && rc == 0; i++) {
		/* the splits are the last files in the manifest */
		const struct rung__manifest_file *file =
			&m->files[m->file_count - m->split_count + i];

		if (!rung__stage_file_done(stage, file->name))
			rc = write_split(stage, file, &stage->splits[i]);
	}
	return rc < 0 ? rc : rung__journal_commit(&stage->journal, stage->dir.fd);
}

/* Write the manifest under its temporary name. The folder is synced after the file, so that the
 * name cannot refer to missing data after a power failure. */
static int write_text(const struct rung__stage *stage, const char *path, const char *text)
{
	int fd, rc;

	rung__stage_step("create manifest");
	fd = openat(stage->dir.fd, RUNG__MANIFEST_PARTIAL, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	            0666);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot be created", path);
	rung__stage_step("write manifest");
	rc = rung__pwrite_all(fd, path, text, strlen(text), 0);
	rung__stage_step("sync manifest");
	/* EINVAL: the file system cannot sync folders */
	if (rc == 0 && (fsync(fd) < 0 || fsync(stage->dir.fd) < 0) && errno != EINVAL)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", path);
	if (close(fd) < 0 && rc == 0)
		rc = rung__fail_errno(errno, "%s", path);
	return rc;
}

/* Compare the file of the manifest with `text`, which was written to it, and parse it as readers
 * will. */
static int compare_text(const struct rung__stage *stage, const char *path, const char *text)
{
	const size_t bytes = strlen(text);
	int fd = rung__open_regular(stage->dir.fd, RUNG__MANIFEST_PARTIAL, path, O_NOFOLLOW),
	    rc = fd;
	struct rung__manifest *parsed = NULL;
	char *read = rung__malloc(bytes);

	if (fd >= 0)
		rc = read ? rung__pread_all(fd, path, read, bytes, 0)
		          : rung__fail(RUNG_E_NOMEM, "%s: no memory for %zu bytes", path, bytes);
	if (rc == 0 && memcmp(read, text, bytes) != 0)
		rc = rung__fail(RUNG_E_CORRUPT,
		                "%s: differs from the written data; " RUNG__STAGE_CURE, path);
	/* a fault of the writer, which must not replace a dataset that can be opened */
	if (rc == 0)
		rc = rung__manifest_parse(path, text, bytes, &parsed);
	rung__manifest_destroy(parsed);
	rung__free(read);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Call `fn` with the text of the manifest, and the path of its file, for messages. */
static int with_text(struct rung__stage *stage,
                     int (*fn)(const struct rung__stage *stage, const char *path, const char *text))
{
	char *path = rung__format("%s/" RUNG__MANIFEST_PARTIAL, stage->dir.partial_path),
	     *text = NULL;
	int rc = path ? rung__manifest_format(stage->manifest, &text)
	              : rung__fail(RUNG_E_NOMEM, RUNG__MANIFEST);

	if (rc == 0)
		rc = fn(stage, path, text);
	rung__free(text);
	rung__free(path);
	return rc;
}

int rung__stage_check_manifest(struct rung__stage *stage)
{
	return with_text(stage, compare_text);
}

int rung__stage_write_manifest(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	/* checksums.npy comes first: the manifest contains its checksums. A typed dataset has none,
	 * because the files are those of the parts */
	int rc = m->types ? 0 : write_array(stage, &m->checksums, stage->sums, m->checksums_sums);

	return rc < 0 ? rc : with_text(stage, write_text);
}
