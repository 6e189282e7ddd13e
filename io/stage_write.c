/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a dataset, written block by block; each block's checksum is taken from memory, before it is written. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "checksum.h"
#include "file.h"
#include "internal.h"
#include "npy.h"
#include "rows.h"
#include "stage_private.h"

#define CHUNK_ITEMS 65536u /* of an array that is converted on the way */

struct output {
	struct rung__stage *stage;
	const struct rung__manifest_file *file;
	uint64_t *sums; /* of its blocks */
	char *path;
	int fd;
	size_t used;      /* bytes in stage->buffer */
	uint64_t written; /* bytes in the file */
};

/* Take the room before it is needed: a full device is found at once, and the file lies in few pieces. */
static int reserve(const struct output *out)
{
	rung__stage_step("reserve");
	if (fallocate(out->fd, 0, 0, (off_t)out->file->bytes) == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
		return 0;
	return rung__fail_errno(errno, "%s: reserving %" PRIu64 " bytes; make room, or choose an output elsewhere", out->path,
				out->file->bytes);
}

static int open_output(struct output *out, struct rung__stage *stage, const struct rung__manifest_file *file, uint64_t *sums)
{
	int rc;

	*out = (struct output){ .stage = stage, .file = file, .sums = sums, .fd = -1 };
	out->path = rung__format("%s/%s", stage->dir.partial_path, file->name);
	if (!out->path)
		return rung__fail(RUNG_E_NOMEM, "%s", file->name);
	rung__stage_step("create");
	out->fd = openat(stage->dir.fd, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	rc = out->fd < 0 ? rung__fail_errno(errno, "%s: cannot be made", out->path) : reserve(out);
	if (rc < 0)
		return rc;
	rung__npy_format(&file->array, stage->buffer);
	out->used = RUNG__NPY_DATA_OFFSET;
	return 0;
}

static int flush(struct output *out)
{
	struct rung__stage *stage = out->stage;
	int rc;

	rung__checksum_blocks(stage->buffer, out->used, stage->threads, out->sums + out->written / RUNG__BLOCK_BYTES);
	rung__stage_step("write");
	rc = rung__pwrite_all(out->fd, out->path, stage->buffer, out->used, out->written);
	if (rc < 0)
		return rc;
	out->written += out->used;
	stage->step_done += out->used;
	out->used = 0;
	return rung__stage_progress(stage, stage->step, stage->step_done, stage->step_total);
}

static int append(struct output *out, const void *data, uint64_t bytes)
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

/* `rc`: of what was appended; a failure is passed on. */
static int close_output(struct output *out, int rc)
{
	if (rc == 0 && out->used > 0)
		rc = flush(out);
	if (rc == 0) {
		rung__stage_step("sync");
		if (fsync(out->fd) < 0)
			rc = rung__fail_errno(errno, "%s: cannot be synced to the device", out->path);
	}
	if (out->fd >= 0 && close(out->fd) < 0 && rc == 0)
		rc = rung__fail_errno(errno, "%s", out->path);
	rung__free(out->path);
	return rc;
}

static int write_array(struct rung__stage *stage, const struct rung__manifest_file *file, const void *data, uint64_t *sums)
{
	struct output out;
	int rc = open_output(&out, stage, file, sums);

	if (rc == 0)
		rc = append(&out, data, file->bytes - RUNG__NPY_DATA_OFFSET);
	return close_output(&out, rc);
}

static int append_rows(struct output *out, struct rung__rows *rows, unsigned char *block)
{
	const struct rung__stage *stage = out->stage;
	const struct rung__manifest *m = stage->manifest;
	const uint64_t row_bytes = out->file->array.row_bytes;
	int rc = 0;

	for (uint64_t first = 0; first < m->vertex_count && rc == 0; first += rows->count_max) {
		uint64_t count = RUNG__MIN(rows->count_max, m->vertex_count - first);

		rc = rung__rows_gather(rows, stage->vertex_of_rank, m->index_bytes, first, count, block);
		if (rc == 0)
			rc = append(out, block, count * row_bytes);
	}
	return rc;
}

/* Rows of a source, in rank order. */
static int write_rows(struct rung__stage *stage, const struct rung_source *src, const char *name)
{
	const struct rung__manifest_file *file = rung__manifest_file(stage->manifest, name);
	const uint64_t row_bytes = file->array.row_bytes;
	const uint64_t count_max = RUNG__MIN(rung__rows_per_block(row_bytes), stage->manifest->vertex_count);
	unsigned char *block = rung__malloc_array(count_max, (size_t)row_bytes);
	struct rung__rows rows;
	struct output out;
	int rc;

	if (!block)
		return rung__fail(RUNG_E_NOMEM, "%s: a block of %" PRIu64 " rows", name, count_max);
	rc = rung__rows_init(&rows, src, count_max, stage->threads);
	if (rc < 0)
		goto free_block;
	rc = open_output(&out, stage, file, stage->sums + file->first_block);
	if (rc == 0)
		rc = append_rows(&out, &rows, block);
	rc = close_output(&out, rc);
	rung__rows_fini(&rows);
free_block:
	rung__free(block);
	return rc;
}

static int write_score(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	const struct rung__manifest_file *file = rung__manifest_file(m, RUNG__SCORE);
	float *chunk = rung__malloc_array(CHUNK_ITEMS, sizeof(*chunk));
	struct output out;
	int rc;

	if (!chunk)
		return rung__fail(RUNG_E_NOMEM, "%s", file->name);
	rc = open_output(&out, stage, file, stage->sums + file->first_block);
	for (uint64_t first = 0; first < m->vertex_count && rc == 0; first += CHUNK_ITEMS) {
		uint64_t count = RUNG__MIN(CHUNK_ITEMS, m->vertex_count - first);

		for (uint64_t i = 0; i < count; i++)
			chunk[i] = stage->score[rung__id_get(stage->vertex_of_rank, m->index_bytes, first + i)];
		rc = append(&out, chunk, count * sizeof(*chunk));
	}
	rc = close_output(&out, rc);
	rung__free(chunk);
	return rc;
}

/* A split as ranks, in the order it was given. */
static int write_split(struct rung__stage *stage, const struct rung__manifest_file *file,
		       const struct rung__stage_split_ids *split)
{
	const unsigned index_bytes = stage->manifest->index_bytes;
	void *ranks = rung__malloc_array(split->count, index_bytes);
	int rc;

	if (!ranks)
		return rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " ids", file->name, split->count);
	for (uint64_t i = 0; i < split->count; i++)
		rung__id_set(ranks, index_bytes, i, rung__id_get(stage->rank_of_vertex, index_bytes, split->ids[i]));
	rc = write_array(stage, file, ranks, stage->sums + file->first_block);
	rung__free(ranks);
	return rc;
}

/* The arrays of the graph and the maps, which are in memory as they are written. */
static int write_graph(struct rung__stage *stage)
{
	const struct {
		const char *name;
		const void *data;
	} arrays[] = {
		{ RUNG__INDPTR, stage->indptr },
		{ RUNG__INDICES, stage->indices },
		{ RUNG__VERTEX_OF_RANK, stage->vertex_of_rank },
		{ RUNG__RANK_OF_VERTEX, stage->rank_of_vertex },
	};
	int rc = 0;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(arrays) && rc == 0; i++) {
		const struct rung__manifest_file *file = rung__manifest_file(stage->manifest, arrays[i].name);

		rc = write_array(stage, file, arrays[i].data, stage->sums + file->first_block);
	}
	return rc;
}

static int write_text(struct rung__stage *stage, const char *path, const char *text)
{
	int fd, rc;

	rung__stage_step("create manifest");
	fd = openat(stage->dir.fd, RUNG__MANIFEST_PARTIAL, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot be made", path);
	rung__stage_step("write manifest");
	rc = rung__pwrite_all(fd, path, text, strlen(text), 0);
	rung__stage_step("sync manifest");
	if (rc == 0 && (fsync(fd) < 0 || fsync(stage->dir.fd) < 0) && errno != EINVAL)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", path);
	if (close(fd) < 0 && rc == 0)
		rc = rung__fail_errno(errno, "%s", path);
	return rc;
}

static int write_manifest(struct rung__stage *stage)
{
	char *path = rung__format("%s/" RUNG__MANIFEST_PARTIAL, stage->dir.partial_path), *text = NULL;
	int rc = path ? rung__manifest_format(stage->manifest, &text) : rung__fail(RUNG_E_NOMEM, RUNG__MANIFEST);

	if (rc == 0)
		rc = write_text(stage, path, text);
	rung__free(text);
	rung__free(path);
	return rc;
}

static int write_others(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	int rc;

	if ((rc = write_graph(stage)) < 0 || (rc = write_score(stage)) < 0)
		return rc;
	if (stage->labels && (rc = write_rows(stage, stage->labels, RUNG__LABELS)) < 0)
		return rc;
	for (uint32_t i = 0; i < m->split_count; i++) {
		rc = write_split(stage, &m->files[m->file_count - m->split_count + i], &stage->splits[i]);
		if (rc < 0)
			return rc;
	}
	return write_array(stage, &m->checksums, stage->sums, m->checksums_sums);
}

int rung__stage_write_all(struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	int rc;

	stage->step = "features";
	stage->step_total = rung__manifest_file(m, RUNG__FEATURES)->bytes;
	rc = write_rows(stage, stage->features, RUNG__FEATURES);
	if (rc < 0)
		return rc;
	stage->step = "files";
	stage->step_done = 0;
	stage->step_total = m->checksums.bytes;
	for (uint32_t i = 1; i < m->file_count; i++)
		stage->step_total += m->files[i].bytes;
	rc = write_others(stage);
	return rc < 0 ? rc : write_manifest(stage);
}
