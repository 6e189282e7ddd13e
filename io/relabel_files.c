/* SPDX-License-Identifier: Apache-2.0 */
/* A graph in files under new names: its edges, both ends mapped, sorted into two .npy files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "edges_internal.h"
#include "edges_sort.h"
#include "file.h"
#include "npy.h"
#include "relabel.h"

#define MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20)

/* An output, under its temporary name. */
struct output {
	const char *path;
	char *partial;
	int fd;
	uint64_t bytes;
	unsigned char *head; /* [RUNG__NPY_DATA_OFFSET] */
};

static int reserve(const struct output *out)
{
	if (fallocate(out->fd, 0, 0, (off_t)out->bytes) == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
		return 0;
	return rung__fail_errno(errno, "%s: reserving %" PRIu64 " bytes; make room, or choose another folder", out->partial,
				out->bytes);
}

static int open_output(struct output *out, const char *path, enum rung_dtype dtype, uint64_t count)
{
	struct rung_array_info array = { .dtype = dtype, .dim_count = 1, .dims = { count } };

	out->path = path;
	if (!rung__array_measure(&array, &out->bytes) || !rung__add(out->bytes, RUNG__NPY_DATA_OFFSET, &out->bytes))
		return rung__fail(RUNG_E_INVAL, "%s: %" PRIu64 " entries are more than a file holds", path, count);
	out->partial = rung__format("%s.partial", path);
	out->head = rung__malloc(RUNG__NPY_DATA_OFFSET);
	if (!out->partial || !out->head)
		return rung__fail(RUNG_E_NOMEM, "%s", path);
	if (access(path, F_OK) == 0)
		return rung__fail(RUNG_E_EXIST, "%s: exists; choose another output, or remove it", path);
	out->fd = open(out->partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (out->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be made", out->partial);
	rung__npy_format(&array, out->head);
	return reserve(out);
}

static int sync_output(const struct output *out)
{
	return fsync(out->fd) == 0 ? 0 : rung__fail_errno(errno, "%s: cannot be synced to the device", out->partial);
}

/* Under its name, which nobody has taken meanwhile. */
static int publish(const struct output *out)
{
	return link(out->partial, out->path) == 0 ? 0 : rung__fail_errno(errno, "%s: cannot be given its name", out->path);
}

static void close_output(const struct output *out)
{
	if (out->fd >= 0) {
		unlink(out->partial);
		close(out->fd);
	}
	rung__free(out->partial);
	rung__free(out->head);
}

/* Written past the page cache where that can be. */
static int begin(const struct output *out, struct rung__sorted *sorted)
{
	sorted->head = out->head;
	sorted->head_bytes = RUNG__NPY_DATA_OFFSET;
	return rung__direct_open_write(&sorted->file, out->fd, out->partial);
}

static int sort(struct rung_edges *edges, const void *rank_of_vertex, const struct rung_relabel_opts *opts,
		const struct output outputs[2])
{
	struct rung__sort_job job = {
		.memory_bytes = opts->memory_bytes,
		.temp_dir = opts->temp_dir,
		.threads = opts->threads,
		.progress = opts->progress,
		.progress_ctx = opts->progress_ctx,
		.indptr.file.fd = -1,
		.indices.file.fd = -1,
	};
	struct rung__edge_input input;
	int rc = rung__edge_input_open_relabelled(&input, edges, rank_of_vertex);

	if (rc == 0 && (rc = begin(&outputs[0], &job.indptr)) == 0 && (rc = begin(&outputs[1], &job.indices)) == 0)
		rc = rung__sort(&input, &job);
	rung__direct_close(&job.indptr.file);
	rung__direct_close(&job.indices.file);
	rung__edge_input_close(&input);
	return rc;
}

static int write_both(struct rung_edges *edges, const void *rank_of_vertex, const struct rung_relabel_opts *opts,
		      const char *indptr_path, const char *indices_path)
{
	const struct rung_edges_info *info = &edges->info;
	struct output outputs[2] = { { .fd = -1 }, { .fd = -1 } };
	int rc;

	if ((rc = open_output(&outputs[0], indptr_path, RUNG_U64, info->vertex_count + 1)) == 0 &&
	    (rc = open_output(&outputs[1], indices_path, info->index_bytes == 4 ? RUNG_U32 : RUNG_U64, info->edge_count)) == 0 &&
	    (rc = sort(edges, rank_of_vertex, opts, outputs)) == 0 && (rc = sync_output(&outputs[0])) == 0 &&
	    (rc = sync_output(&outputs[1])) == 0 && (rc = publish(&outputs[0])) == 0) {
		rc = publish(&outputs[1]);
		if (rc < 0)
			unlink(indptr_path);
	}
	close_output(&outputs[0]);
	close_output(&outputs[1]);
	return rc;
}

int rung_edges_relabel(struct rung_edges *edges, const void *vertex_of_rank, const void *rank_of_vertex,
		       const struct rung_relabel_opts *caller_opts, const char *indptr_path, const char *indices_path)
{
	const struct rung_edges_info *info = &edges->info;
	struct rung_relabel_opts opts = RUNG_RELABEL_OPTS_INIT;
	int rc = rung__opts_take(&opts, sizeof(opts), caller_opts, "rung_relabel_opts");

	if (rc < 0)
		return rc;
	if (opts.memory_bytes == 0)
		opts.memory_bytes = MEMORY_BYTES_DEFAULT;
	if (!opts.temp_dir)
		opts.temp_dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	rc = rung__sort_memory_check(opts.memory_bytes);
	if (rc == 0)
		rc = rung__maps_check(vertex_of_rank, rank_of_vertex, info->vertex_count, info->index_bytes,
				      rung__threads(opts.threads));
	return rc < 0 ? rc : write_both(edges, rank_of_vertex, &opts, indptr_path, indices_path);
}
