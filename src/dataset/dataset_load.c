/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the small arrays of a staged dataset, and its graph, into memory. Opening the dataset has
 * checked sizes and headers; the content is checked here, because callers use ids as indices.
 */
#include <string.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "file/file.h"
#include "graph/graph.h"
#include "base/base.h"
#include "source/npy.h"

/* Read bytes [first, first + bytes) of a file's array, within its bounds. */
static int read_file(const struct rung_dataset *ds, const struct rung__manifest_file *file,
                     uint64_t first, uint64_t bytes, void *buf)
{
	char *path = rung__format("%s/%s", ds->dir, file->name);
	int fd, rc;

	if (!path)
		return rung__fail(RUNG_E_NOMEM, "%s/%s", ds->dir, file->name);
	rc = fd = rung__dataset_open_file(ds, file->name, 0);
	if (fd >= 0) {
		rc = rung__pread_all(fd, path, buf, bytes, RUNG__NPY_DATA_OFFSET + first);
		close(fd);
	}
	rung__free(path);
	return rc;
}

/* The whole array of a file. The caller frees *data_out. */
static int load_file(const struct rung_dataset *ds, const struct rung__manifest_file *file,
                     void **data_out)
{
	const uint64_t bytes = file->bytes - RUNG__NPY_DATA_OFFSET;
	void *data = rung__malloc_huge(bytes); /* it may be the graph, which is read at random */
	int rc;

	if (!data)
		return rung__fail(RUNG_E_NOMEM, "%s/%s: no memory for %" PRIu64 " bytes", ds->dir,
		                  file->name, bytes);
	rc = read_file(ds, file, 0, bytes, data);
	if (rc < 0) {
		rung__free(data);
		return rc;
	}
	*data_out = data;
	return 0;
}

/* Without this check the kernel kills the process while it touches memory that does not exist. */
static int check_graph_memory(const struct rung_dataset *ds)
{
	const struct rung__manifest *m = ds->manifest;
	const uint64_t free_bytes = rung__host_memory_free(rung__machine_root);
	const uint64_t bytes = rung__manifest_file(m, RUNG__INDPTR)->bytes +
	                       rung__manifest_file(m, RUNG__INDICES)->bytes;

	if (free_bytes == 0 || bytes <= free_bytes) /* 0: unknown */
		return 0;
	return rung__fail(RUNG_E_NOMEM,
	                  "%s: the graph needs %" PRIu64 " bytes of memory, and %" PRIu64
	                  " are free; open the store with a structure, which reads neighbour "
	                  "lists from the file",
	                  ds->dir, bytes, free_bytes);
}

int rung_dataset_load_graph(const struct rung_dataset *ds, struct rung_graph **graph_out)
{
	const struct rung__manifest *m = ds->manifest;
	void *indptr, *indices;
	int rc;

	rc = rung__dataset_needs(ds, RUNG__NEEDS_LISTS);
	if (rc == 0)
		rc = check_graph_memory(ds);
	if (rc == 0)
		rc = load_file(ds, rung__manifest_file(m, RUNG__INDPTR), &indptr);
	if (rc < 0)
		return rc;
	rc = load_file(ds, rung__manifest_file(m, RUNG__INDICES), &indices);
	if (rc < 0) { /* not adopted yet */
		rung__free(indptr);
		return rc;
	}
	/* the call takes over both arrays, also if it fails, and checks every entry */
	rc = rung__graph_adopt(&(struct rung_csc){ .vertex_count = m->vertex_count,
	                                           .edge_count = m->edge_count,
	                                           .indptr = indptr,
	                                           .indices = indices,
	                                           .index_bytes = m->index_bytes,
	                                           .source_count = m->source_count },
	                       graph_out);
	/* the error of the graph does not name the folder */
	return rc < 0 ? rung__fail(rc, "%s: %s", ds->dir, rung_last_error()) : 0;
}

/* Files of index_bytes per entry. */
static bool holds_ids(const char *name)
{
	return strcmp(name, RUNG__VERTEX_OF_RANK) == 0 || strcmp(name, RUNG__RANK_OF_VERTEX) == 0 ||
	       strncmp(name, RUNG__SPLIT_PREFIX, strlen(RUNG__SPLIT_PREFIX)) == 0;
}

/* The file of an array by its public name, which is the file's without ".npy". Features, indptr and
 * indices cannot be loaded this way. @return NULL: no such array */
static const struct rung__manifest_file *find_array(const struct rung_dataset *ds, const char *name)
{
	for (uint32_t i = 0; i < ds->manifest->file_count; i++) {
		const struct rung__manifest_file *file = &ds->manifest->files[i];
		size_t len = strlen(file->name) - strlen(".npy"); /* every file ends in it */

		if (strlen(name) == len && memcmp(name, file->name, len) == 0 &&
		    (holds_ids(file->name) || strcmp(file->name, RUNG__SCORE) == 0 ||
		     strcmp(file->name, RUNG__LABELS) == 0 ||
		     strncmp(file->name, RUNG__ARRAY_PREFIX, strlen(RUNG__ARRAY_PREFIX)) == 0))
			return file;
	}
	return NULL;
}

/* The same, with a failure that names the array. */
static int find(const struct rung_dataset *ds, const char *name,
                const struct rung__manifest_file **file_out)
{
	*file_out = find_array(ds, name);
	return *file_out ? 0
	                 : rung__fail(RUNG_E_NOENT, "%s: no array '%s'; rung info lists the arrays",
	                              ds->dir, name);
}

/* Fail at the first id that is not a vertex. Arrays that do not hold ids need no check. */
static int check_ids(const struct rung_dataset *ds, const struct rung__manifest_file *file,
                     const void *ids)
{
	uint64_t at;
	int rc;

	if (!holds_ids(file->name))
		return 0;
	rc = rung__ids_stray(file->name, ids, ds->manifest->index_bytes, file->array.row_count,
	                     ds->manifest->vertex_count, &at);
	if (rc == 0 && at < file->array.row_count)
		rc = rung__fail(RUNG_E_RANGE,
		                "%s/%s: entry %" PRIu64 " is %" PRIu64
		                ", not below the vertex count %" PRIu64
		                "; run rung verify, and stage the dataset again",
		                ds->dir, file->name, at,
		                rung__id_get(ids, ds->manifest->index_bytes, at),
		                ds->manifest->vertex_count);
	return rc;
}

int rung_dataset_load_array(const struct rung_dataset *ds, const char *name,
                            struct rung_array_info *info_out, void **data_out)
{
	const struct rung__manifest_file *file;
	void *data;
	int rc = find(ds, name, &file);

	if (rc == 0)
		rc = load_file(ds, file, &data);
	if (rc < 0)
		return rc;
	rc = check_ids(ds, file, data);
	if (rc < 0) {
		rung__free(data);
		return rc;
	}
	if (info_out)
		*info_out = file->array;
	*data_out = data;
	return 0;
}

int rung_dataset_load_ids(const struct rung_dataset *ds, const char *name, uint64_t *count_out,
                          uint64_t **ids_out)
{
	const struct rung__manifest_file *file = find_array(ds, name);
	uint64_t *ids;
	void *data;
	int rc;

	/* an unknown name is reported by rung_dataset_load_array() */
	if (file && !holds_ids(file->name))
		return rung__fail(
			RUNG_E_INVAL,
			"%s: '%s' does not hold ids; read it with rung_dataset_load_array()",
			ds->dir, name);
	rc = rung_dataset_load_array(ds, name, NULL, &data);
	if (rc < 0)
		return rc;
	ids = rung__malloc_array(file->array.row_count, sizeof(*ids));
	if (!ids) {
		rung__free(data);
		return rung__fail(RUNG_E_NOMEM, "%s/%s: no memory for %" PRIu64 " ids", ds->dir,
		                  file->name, file->array.row_count);
	}
	/* `file` is not NULL: the array was loaded */
	for (uint64_t i = 0; i < file->array.row_count; i++)
		ids[i] = rung__id_get(data, ds->manifest->index_bytes, i);
	rung__free(data);
	*count_out = file->array.row_count;
	*ids_out = ids;
	return 0;
}
