/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening staged datasets. The manifest was checked when it was parsed; here every file must exist
 * with the size and the header that the manifest lists, so that later reads need no such checks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "file/file.h"
#include "base/base.h"
#include "source/npy.h"
#include "layout/layout.h"

#define PARTIAL ".partial"

/* Open the folder, and refuse OUT.partial, in which staging works: it can be complete for a moment
 * before it is renamed. The real path decides, because a link could hide the name. */
static int open_folder(const char *dir, int *fd_out)
{
	char real[PATH_MAX];
	size_t len;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot be opened as a dataset folder", dir);
	if (!realpath(dir, real)) {
		int err = errno; /* close() may change it */

		close(fd);
		return rung__fail_errno(err, "%s", dir);
	}
	len = strlen(real);
	if (len >= strlen(PARTIAL) && strcmp(real + len - strlen(PARTIAL), PARTIAL) == 0) {
		close(fd);
		return rung__fail(RUNG_E_NOENT,
		                  "%s: is the working folder of rung stage, not a finished "
		                  "dataset; run rung stage again",
		                  dir);
	}
	*fd_out = fd;
	return 0;
}

static bool is_feature(const char *name)
{
	return strncmp(name, RUNG__FEATURES_PREFIX, strlen(RUNG__FEATURES_PREFIX)) == 0;
}

/* Whether the folder at the path is another one than the one that was opened. */
static bool was_replaced(const struct rung_dataset *ds)
{
	struct stat opened, named;

	return fstat(ds->dir_fd, &opened) == 0 && stat(ds->dir, &named) == 0 &&
	       (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino);
}

static int kept_fd(const struct rung_dataset *ds, const char *name)
{
	for (uint32_t i = 0; ds->fds && i < ds->manifest->file_count; i++) {
		if (strcmp(ds->manifest->files[i].name, name) == 0)
			return ds->fds[i];
	}
	return -1;
}

static int reopen(int kept, const char *path, int flags)
{
	char link[64];
	int fd;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", kept);
	fd = open(link, O_RDONLY | O_CLOEXEC | flags);
	if (fd < 0) /* without /proc */
		fd = fcntl(kept, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 ? fd : rung__fail_errno(errno, "%s", path);
}

int rung__dataset_open_file(const struct rung_dataset *ds, const char *name, int flags)
{
	char *path = rung__format("%s/%s", ds->dir, name);
	int fd = kept_fd(ds, name);

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s/%s", ds->dir, name);
	/* opened again, because the flags of a duplicate would be those of all its duplicates */
	if (fd >= 0)
		fd = reopen(fd, path, flags);
	else if (is_feature(name)) /* a link to anywhere: --stripe puts them on other devices */
		fd = rung__open_regular(ds->dir_fd, name, path, flags);
	else
		fd = rung__open_own(ds->dir_fd, name, path, flags);
	/* not RUNG_E_NOENT, which means that the dataset itself is missing */
	if (fd == RUNG_E_NOENT)
		fd = rung__fail(RUNG_E_FORMAT, "%s: %s", path,
		                was_replaced(ds) ? "its folder was staged again after it was "
		                                   "opened; open it again"
		                                 : "is missing, though the manifest lists it; "
		                                   "stage the dataset again");
	rung__free(path);
	return fd;
}

/* The .npy header must agree with the manifest, and the data must start at the page after it. */
static int check_header(const struct rung_dataset *ds, const struct rung__manifest_file *file,
                        int fd)
{
	char *path = rung__format("%s/%s", ds->dir, file->name);
	struct rung__npy npy;
	int rc;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s/%s", ds->dir, file->name);
	rc = rung__npy_read(fd, path, 0, file->bytes, &npy);
	if (rc == 0 && (npy.transposed || !rung__array_equal(&npy.array, &file->array) ||
	                npy.data_offset != RUNG__NPY_DATA_OFFSET))
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: its .npy header does not match the type and shape in the "
		                "manifest; stage the dataset again",
		                path);
	rung__free(path);
	return rc;
}

/* Size first: it finds truncated copies with a message that has a remedy.
 * @param kept_out  receives the descriptor; NULL: it is closed */
static int check_file(const struct rung_dataset *ds, const struct rung__manifest_file *file,
                      int *kept_out)
{
	int fd = rung__dataset_open_file(ds, file->name, 0), rc;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		rc = rung__fail_errno(errno, "%s/%s", ds->dir, file->name);
	else if ((uint64_t)st.st_size != file->bytes)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s/%s: has %jd bytes, but the manifest records %" PRIu64
		                "; copy it again or stage the dataset again",
		                ds->dir, file->name, (intmax_t)st.st_size, file->bytes);
	else
		rc = check_header(ds, file, fd);
	if (rc == 0 && kept_out)
		*kept_out = fd;
	else
		close(fd);
	return rc;
}

/* Check all files in the list, and the source of rows in place, which the list does not have. */
static int check_files(struct rung_dataset *ds)
{
	const struct rung__manifest *m = ds->manifest;
	int *fds = rung__malloc_array(m->file_count, sizeof(*fds)), rc;

	if (!fds)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for a list of its files", ds->dir);
	for (uint32_t i = 0; i < m->file_count; i++)
		fds[i] = -1;
	ds->fds = fds;
	for (uint32_t i = 0; i < m->file_count; i++) {
		rc = check_file(ds, &m->files[i], is_feature(m->files[i].name) ? NULL : &fds[i]);
		if (rc < 0)
			return rc;
	}
	rc = check_file(ds, &m->checksums, NULL); /* not among m->files */
	return rc < 0 || !rung__manifest_in_place(m) ? rc
	                                             : rung__in_place_check(&m->in_place, ds->dir);
}

/* The public description of a file. The name stays in the manifest. */
static struct rung_dataset_file listed(const struct rung__manifest_file *file)
{
	return (struct rung_dataset_file){ .name = file->name,
		                           .bytes = file->bytes,
		                           .array = file->array,
		                           .data_offset = RUNG__NPY_DATA_OFFSET };
}

static struct rung_quantization quantization(const struct rung__manifest *m)
{
	return (struct rung_quantization){ .format = (enum rung_quant_format)m->quant.format,
		                           .scales = (enum rung_quant_scales)m->quant.scales,
		                           .columns = m->quant.columns,
		                           .row_bytes = m->features.row_bytes,
		                           .column_scales = m->column_scales };
}

/* Where the rows are: ranges in files, or a source in which they were left. */
static void list_places(struct rung_dataset *ds)
{
	const struct rung__manifest *m = ds->manifest;

	if (rung__manifest_in_place(m)) {
		ds->info.features_path = m->in_place.path;
		ds->info.features_offset = m->data_offset;
		ds->info.features_file_bytes = m->in_place.bytes;
	}
	for (uint32_t i = 0; i < m->range_count; i++)
		ds->ranges[i] = (struct rung_feature_range){
			.begin = i > 0 ? m->ranges[i - 1].end : 0,
			.end = m->ranges[i].end,
			.stored_first = m->ranges[i].stored_first,
			.file_first = (uint32_t)m->ranges[i].file_first,
			.file_count = (uint32_t)m->ranges[i].file_count,
			.block_rows = m->ranges[i].file_count > 1 ? m->ranges[i].block_rows
			                                          : m->vertex_count,
		};
}

/* The types and relations of a typed dataset; its files are those of the parts. */
static int list_types(struct rung_dataset *ds)
{
	const struct rung__types *types = ds->manifest->types;

	ds->info.type_count = types->type_count;
	ds->info.relation_count = types->relation_count;
	ds->info.seed_type = types->seed_type;
	ds->info.file_count = 1; /* the manifest; the other files are those of the parts */
	ds->files = rung__zalloc_array(1, sizeof(*ds->files));
	ds->types = rung__zalloc_array(types->type_count, sizeof(*ds->types));
	ds->relations = rung__zalloc_array(types->relation_count, sizeof(*ds->relations));
	if (!ds->files || !ds->types || !ds->relations)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for its types", ds->dir);
	ds->files[0] = (struct rung_dataset_file){ .name = RUNG__MANIFEST,
		                                   .bytes = ds->manifest->text_bytes };
	for (uint32_t i = 0; i < types->type_count; i++)
		ds->types[i] = (struct rung_dataset_type){
			.name = types->types[i].name,
			.vertex_count = types->types[i].vertex_count,
			.folder = types->types[i].folder,
			.has_features = types->types[i].has_features,
		};
	for (uint32_t i = 0; i < types->relation_count; i++)
		ds->relations[i] = (struct rung_dataset_relation){
			.name = types->relations[i].name,
			.source_type = types->relations[i].source_type,
			.target_type = types->relations[i].target_type,
			.edge_count = types->relations[i].edge_count,
			.folder = types->relations[i].folder,
			.rows_folder = types->relations[i].rows_folder[0]
			                       ? types->relations[i].rows_folder
			                       : NULL,
			.fanouts = types->relations[i].fanouts,
		};
	ds->info.types = ds->types;
	ds->info.relations = ds->relations;
	return 0;
}

/* The files, and the names of splits and arrays: lists of pointers, because the manifest has arrays
 * of structs. */
static int list_files(struct rung_dataset *ds)
{
	const struct rung__manifest *m = ds->manifest;

	ds->files = rung__zalloc_array(ds->info.file_count, sizeof(*ds->files));
	ds->split_names = rung__zalloc_array(m->split_count, sizeof(*ds->split_names));
	ds->array_names = rung__zalloc_array(m->array_count, sizeof(*ds->array_names));
	if (!ds->files || !ds->split_names || !ds->array_names)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for a list of %zu files", ds->dir,
		                  ds->info.file_count);
	ds->info.split_names = ds->split_names;
	for (uint32_t i = 0; i < m->split_count; i++)
		ds->split_names[i] = m->splits[i].name;
	ds->info.array_names = ds->array_names;
	for (uint32_t i = 0; i < m->array_count; i++)
		ds->array_names[i] = m->arrays[i].name;
	for (uint32_t i = 0; i < m->file_count; i++)
		ds->files[i] = listed(&m->files[i]);
	/* last, as rung_dataset_file() documents */
	ds->files[m->file_count] = listed(&m->checksums);
	ds->files[m->file_count + 1] =
		(struct rung_dataset_file){ .name = RUNG__MANIFEST, .bytes = m->text_bytes };
	return 0;
}

/* Fill the public description of the dataset. Only numbers are copied from the manifest. */
static int fill_info(struct rung_dataset *ds)
{
	const struct rung__manifest *m = ds->manifest;
	const bool quantized = m->quant.format != RUNG_QUANT_NONE;

	ds->info = (struct rung_dataset_info){
		.format_version = rung__manifest_version(m),
		.vertex_count = m->vertex_count,
		.edge_count = m->edge_count,
		.features = quantized ? m->given : m->features,
		.row_stride = m->row_stride,
		.feature_bytes = m->vertex_count * m->features.row_bytes,
		.index_bytes = m->index_bytes,
		.score_method = m->score_method,
		.score_iterations = m->score_iterations,
		.score_damping = m->score_damping,
		.fanouts = m->fanouts,
		.fanout_count = m->fanout_count,
		.batch_size = m->batch_size,
		.has_labels = m->has_labels,
		.split_count = m->split_count,
		.file_count = m->file_count + 2u, /* plus the checksums and the manifest */
		.feature_file_count = m->feature_file_count,
		.draws = m->draws,
		.score_sampled = m->score_sampled,
		.score_batches = m->score_batches,
		.score_seed = m->score_seed,
		.array_count = m->array_count,
		.vertex_type = m->vertex_type,
		.relation = m->relation,
		.stored_row_bytes = m->features.row_bytes,
		.feature_range_count = m->range_count,
		.feature_ranges = ds->ranges,
		.has_maps = !m->no_maps,
		.has_graph = !m->no_graph,
		.source_count = m->source_count ? m->source_count : m->vertex_count,
	};
	if (quantized)
		ds->info.quantization = quantization(m);
	list_places(ds);
	return m->types ? list_types(ds) : list_files(ds);
}

int rung__dataset_open(const char *dir, bool check, struct rung_dataset **ds_out)
{
	struct rung_dataset *ds = rung__zalloc(sizeof(*ds));
	int rc;

	if (!ds)
		return rung__fail(RUNG_E_NOMEM, "%s", dir);
	ds->dir_fd = -1; /* for rung_dataset_close() after a failure */
	ds->dir = rung__strdup(dir);
	rc = ds->dir ? open_folder(dir, &ds->dir_fd) : rung__fail(RUNG_E_NOMEM, "%s", dir);
	if (rc == 0)
		rc = rung__manifest_read(ds->dir_fd, dir, &ds->manifest);
	if (rc == 0)
		rc = fill_info(ds);
	if (rc == 0 && check)
		rc = ds->manifest->types ? 0 : check_files(ds);
	if (rc < 0) {
		rung_dataset_close(ds);
		return rc;
	}
	*ds_out = ds;
	return 0;
}

const struct rung_dataset_info *rung_dataset_info(const struct rung_dataset *ds)
{
	return &ds->info;
}

const struct rung_dataset_file *rung_dataset_file(const struct rung_dataset *ds, size_t idx)
{
	return idx < ds->info.file_count ? &ds->files[idx] : NULL;
}

const char *rung_dataset_dir(const struct rung_dataset *ds)
{
	return ds->dir;
}

void rung_dataset_close(struct rung_dataset *ds)
{
	if (!ds)
		return;
	if (ds->dir_fd >= 0)
		close(ds->dir_fd);
	for (uint32_t i = 0; ds->fds && i < ds->manifest->file_count; i++) {
		if (ds->fds[i] >= 0)
			close(ds->fds[i]);
	}
	rung__free(ds->fds);
	rung__manifest_destroy(ds->manifest); /* NULL after a failed open, as are the lists */
	rung__free(ds->files);
	rung__free(ds->split_names);
	rung__free(ds->array_names);
	rung__free(ds->types);
	rung__free(ds->relations);
	rung__free(ds->dir);
	rung__free(ds);
}
