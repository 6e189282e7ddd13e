/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relabelling a graph that stays in files: its edges, with both ids mapped to ranks, are sorted
 * into two .npy files.
 *
 * Named outputs are written under NAME.partial and published under their names only when both are
 * complete and on the disk, so a file of the final name is never incomplete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "edges/edges.h"
#include "edges/edges_sort.h"
#include "file/file.h"
#include "source/npy.h"

#define MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20)

/* An output, under its temporary name or without a name. */
struct output {
	const char *path;    /* NULL: without a name */
	char *partial;       /* temporary name; NULL: without a name */
	const char *name;    /* for messages */
	int fd;              /* -1: not open */
	uint64_t bytes;      /* of the whole file */
	unsigned char *head; /* [RUNG__NPY_DATA_OFFSET] */
};

/* Create a named output under its temporary name. An existing file of the final name is refused
 * now, before the work; publish() refuses one that appears later. */
static int create(struct output *out, const char *path)
{
	out->path = path;
	out->name = out->partial = rung__format("%s.partial", path);
	if (!out->partial)
		return rung__fail(RUNG_E_NOMEM, "%s", path);
	if (access(path, F_OK) == 0)
		return rung__fail(RUNG_E_EXIST, "%s: exists; choose another output, or remove it",
		                  path);
	out->fd = open(out->partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return out->fd < 0 ? rung__fail_errno(errno, "%s: cannot be created", out->partial) : 0;
}

/* Format the header of an output and reserve its space, so that a full disk is reported before the
 * work. */
static int prepare(struct output *out, enum rung_dtype dtype, uint64_t count)
{
	struct rung_array_info array = { .dtype = dtype, .dim_count = 1, .dims = { count } };

	if (!rung__array_measure(&array, &out->bytes) ||
	    !rung__add(out->bytes, RUNG__NPY_DATA_OFFSET, &out->bytes))
		return rung__fail(RUNG_E_INVAL, "%s: %" PRIu64 " entries do not fit in a file",
		                  out->name, count);
	out->head = rung__malloc(RUNG__NPY_DATA_OFFSET);
	if (!out->head)
		return rung__fail(RUNG_E_NOMEM, "%s", out->name);
	rung__npy_format(&array, out->head);
	return rung__reserve(out->fd, out->name, out->bytes);
}

static int sync_output(const struct output *out)
{
	return fsync(out->fd) == 0 ? 0
	                           : rung__fail_errno(errno, "%s: cannot be synced to the device",
	                                              out->partial);
}

/* Give an output its final name. link() fails if the name exists by now; rename() would replace
 * that file. The temporary name is removed by close_output(). */
static int publish(const struct output *out)
{
	return link(out->partial, out->path) == 0
	               ? 0
	               : rung__fail_errno(errno, "%s: cannot be linked to its final name",
	                                  out->path);
}

/* Close an output, and remove its temporary name, also after a failure. */
static void close_output(const struct output *out)
{
	if (out->fd >= 0 && out->partial)
		unlink(out->partial);
	if (out->fd >= 0)
		close(out->fd);
	rung__free(out->partial);
	rung__free(out->head);
}

/* Set the file that a sort writes: another descriptor of the output, with O_DIRECT if the file
 * system supports it. */
static int begin(const struct output *out, struct rung__sorted *sorted)
{
	sorted->head = out->head;
	sorted->head_bytes = RUNG__NPY_DATA_OFFSET;
	return rung__direct_open_write(&sorted->file, out->fd, out->name);
}

/* The maps by which edges are relabelled. */
struct rank_maps {
	const void *rank_of_vertex, *rank_of_source; /* of targets and sources, or the same */
	void *inverse;                               /* with two types: rank_of_vertex, owned */
};

/* Sort the relabelled edges into both outputs. */
static int sort(struct rung_edges *edges, const struct rank_maps *maps,
                const struct rung__relabel_opts *opts, const struct output outputs[2])
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
	int rc = rung__edge_input_open_relabelled(&input, edges, maps->rank_of_vertex,
	                                          maps->rank_of_source);

	if (rc == 0 && (rc = begin(&outputs[0], &job.indptr)) == 0 &&
	    (rc = begin(&outputs[1], &job.indices)) == 0)
		rc = rung__sort(&input, &job);
	rung__direct_close(&job.indptr.file);
	rung__direct_close(&job.indices.file);
	rung__edge_input_close(&input);
	return rc;
}

/* Write the graph to two open files. */
static int write_graph(struct rung_edges *edges, const struct rank_maps *maps,
                       const struct rung__relabel_opts *opts, struct output outputs[2])
{
	const struct rung_edges_info *info = &edges->info;
	const enum rung_dtype id_dtype = info->index_bytes == 4 ? RUNG_U32 : RUNG_U64;
	int rc = prepare(&outputs[0], RUNG_U64, info->vertex_count + 1);

	if (rc == 0)
		rc = prepare(&outputs[1], id_dtype, info->edge_count);
	return rc == 0 ? sort(edges, maps, opts, outputs) : rc;
}

/* Write the graph to two new files. Both are synced before either gets its name. If the second
 * cannot get its name, the first is removed again. */
static int write_named(struct rung_edges *edges, const struct rank_maps *maps,
                       const struct rung__relabel_opts *opts, const char *indptr_path,
                       const char *indices_path)
{
	struct output outputs[2] = { { .fd = -1 }, { .fd = -1 } };
	int rc;

	if ((rc = create(&outputs[0], indptr_path)) == 0 &&
	    (rc = create(&outputs[1], indices_path)) == 0 &&
	    (rc = write_graph(edges, maps, opts, outputs)) == 0 &&
	    (rc = sync_output(&outputs[0])) == 0 && (rc = sync_output(&outputs[1])) == 0 &&
	    (rc = publish(&outputs[0])) == 0) {
		rc = publish(&outputs[1]);
		if (rc < 0)
			unlink(indptr_path);
	}
	close_output(&outputs[0]);
	close_output(&outputs[1]);
	return rc;
}

/* The maps of two types: the given ones are checked, and that of the targets is inverted. */
static int invert(const struct rung_edges_info *info, const void *vertex_of_rank,
                  const void *rank_of_source, struct rank_maps *maps)
{
	const unsigned index_bytes = info->index_bytes;
	int rc = rung__permutation_check(vertex_of_rank, info->vertex_count, index_bytes,
	                                 "vertex_of_rank");

	if (rc == 0)
		rc = rung__permutation_check(rank_of_source, info->source_count, index_bytes,
		                             "rank_of_vertex");
	if (rc < 0)
		return rc;
	maps->inverse = rung__malloc_array(info->vertex_count, index_bytes);
	if (!maps->inverse)
		return rung__fail(RUNG_E_NOMEM,
		                  "relabel: no memory for the ranks of %" PRIu64 " vertices",
		                  info->vertex_count);
	for (uint64_t r = 0; r < info->vertex_count; r++)
		rung__id_set(maps->inverse, index_bytes,
		             rung__id_get(vertex_of_rank, index_bytes, r), r);
	maps->rank_of_vertex = maps->inverse;
	maps->rank_of_source = rank_of_source;
	return 0;
}

/* Copy the options, fill in defaults and check the maps, which within one type must be inverse
 * permutations. The caller frees maps->inverse. */
static int copy_opts(const struct rung_edges *edges, const void *vertex_of_rank,
                     const void *rank_of_vertex, const struct rung__relabel_opts *caller_opts,
                     struct rung__relabel_opts *opts, struct rank_maps *maps)
{
	const struct rung_edges_info *info = &edges->info;
	int rc;

	*maps = (struct rank_maps){ rank_of_vertex, rank_of_vertex, NULL };

	*opts = caller_opts ? *caller_opts : (struct rung__relabel_opts){ 0 };
	if (opts->memory_bytes == 0)
		opts->memory_bytes = MEMORY_BYTES_DEFAULT;
	if (!opts->temp_dir)
		opts->temp_dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	rc = rung__sort_memory_check(opts->memory_bytes);
	if (rc == 0 && info->source_count)
		return invert(info, vertex_of_rank, rank_of_vertex, maps);
	return rc < 0 ? rc
	              : rung__maps_check(vertex_of_rank, rank_of_vertex, info->vertex_count,
	                                 info->index_bytes, rung__threads(opts->threads));
}

int rung__edges_relabel(struct rung_edges *edges, const void *vertex_of_rank,
                        const void *rank_of_vertex, const struct rung__relabel_opts *caller_opts,
                        const char *indptr_path, const char *indices_path)
{
	struct rung__relabel_opts opts;
	struct rank_maps maps;
	int rc = copy_opts(edges, vertex_of_rank, rank_of_vertex, caller_opts, &opts, &maps);

	if (rc == 0)
		rc = write_named(edges, &maps, &opts, indptr_path, indices_path);
	rung__free(maps.inverse);
	return rc;
}

int rung__edges_relabel_temp(struct rung_edges *edges, const void *vertex_of_rank,
                             const void *rank_of_vertex,
                             const struct rung__relabel_opts *caller_opts, int fds_out[2])
{
	static const char *const names[] = { "temporary file of indptr",
		                             "temporary file of indices" };
	struct rung__relabel_opts opts;
	struct output outputs[2] = { { .fd = -1 }, { .fd = -1 } };
	struct rank_maps maps;
	int rc = copy_opts(edges, vertex_of_rank, rank_of_vertex, caller_opts, &opts, &maps);

	for (int i = 0; i < 2 && rc == 0; i++) {
		struct rung__direct file;

		outputs[i].name = names[i];
		rc = rung__direct_temp(&file, opts.temp_dir, names[i], 0);
		outputs[i].fd = file.fd; /* -1 after a failure */
	}
	if (rc == 0)
		rc = write_graph(edges, &maps, &opts, outputs);
	/* The caller gets new descriptors without O_DIRECT, so it may read at any offset. */
	for (int i = 0; i < 2 && rc == 0; i++) {
		fds_out[i] = rung__reopen(outputs[i].fd, 0);
		if (fds_out[i] < 0)
			rc = rung__fail_errno(errno, "%s: cannot be reopened", names[i]);
		if (rc < 0 && i == 1)
			close(fds_out[0]);
	}
	close_output(&outputs[0]);
	close_output(&outputs[1]);
	rung__free(maps.inverse);
	return rc;
}
