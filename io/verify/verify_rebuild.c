/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilding the content of single blocks. A block is rebuilt from:
 *
 *   features, labels, score,  rows of their source, through vertex_of_rank
 *   arrays
 *   splits                    ids of their source, through rank_of_vertex
 *   the two maps              each from the other one
 *   the graph                 its source, relabelled again to unnamed files
 *   checksums.npy             the files: see verify_repair.c
 *
 * Headers follow from the manifest. Sources and maps can be wrong. Nothing is checked here, because
 * the caller compares the block with its recorded checksum before it is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"
#include "source/npy.h"
#include "graph/graph.h"
#include "verify/state.h"

/* Report that the source of a file was not given. @param option the source and the command's option
 * for it */
static int no_source(const struct rung__manifest_file *file, const char *option)
{
	return rung__fail(RUNG_E_NOENT, "%s: cannot be rebuilt without %s; give it", file->name,
	                  option);
}

/* ---- rows ---- */

/* Open the source of an array of rows, and allocate memory to gather the rows of one block. */
static int open_rows(struct rung__rebuild *r, const struct rung__manifest_file *file,
                     const char *spec, const char *option)
{
	const bool features =
		strncmp(file->name, RUNG__FEATURES_PREFIX, strlen(RUNG__FEATURES_PREFIX)) == 0;
	uint64_t row_bytes, count;
	int rc;

	if (!spec)
		return no_source(file, option);
	rc = rung__verify_load_maps(r->v);
	if (rc == 0)
		rc = rung__verify_rows_open(r->v, spec, features ? NULL : file->name, &r->rows);
	if (rc < 0)
		return rc;
	row_bytes = RUNG__MAX(r->rows.layout.row_bytes, 1u);
	/* 2: the first and the last row can be in the block in part */
	count = RUNG__BLOCK_BYTES / row_bytes + 2;
	rc = rung__rows_init(&r->gather, r->rows.src, count, r->v->threads);
	r->gathered = rung__malloc_array(count, (size_t)row_bytes);
	if (rc == 0 && !r->gathered)
		rc = rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu64 " rows", file->name,
		                count);
	return rc;
}

/* Copy the part of a row that is in the block. `buf` has offsets [begin, end) of the file; the row
 * has `bytes` bytes and begins at offset `at`. */
static void copy_part(unsigned char *buf, uint64_t begin, uint64_t end, uint64_t at,
                      const unsigned char *from, uint64_t bytes)
{
	const uint64_t low = RUNG__MAX(begin, at), high = RUNG__MIN(end, at + bytes);

	if (low < high)
		memcpy(buf + (low - begin), from + (low - at), (size_t)(high - low));
}

/* Rebuild bytes [begin, end) of file number f, which are after the header. Bytes between rows are
 * zero. */
static int make_rows(struct rung__rebuild *r, uint64_t f, uint64_t begin, uint64_t end,
                     unsigned char *buf)
{
	const struct rung__layout *layout = &r->rows.layout;
	const struct rung__range *range = rung__file_range(layout, f);
	const uint64_t rows = rung__dealt_rows(range, range->stored_end - range->stored_first,
	                                       f - range->file_first),
		       stride = layout->row_stride;
	uint64_t local = (begin - layout->data_offset) / stride, count;
	const uint64_t last = RUNG__MIN((end - layout->data_offset + stride - 1) / stride, rows);
	int rc = 0;

	memset(buf, 0, (size_t)(end - begin));
	for (; local < last && rc == 0; local += count) {
		const uint64_t rank = rung__file_rank(layout, f, local);

		/* a run ends with its block, because the ranks after it are not consecutive */
		count = RUNG__MIN(last - local, r->gather.count_max);
		if (range->file_count > 1)
			count = RUNG__MIN(count, range->block_rows - local % range->block_rows);
		rc = rung__rows_gather(&r->gather, r->v->vertex_of_rank,
		                       r->v->ds->manifest->index_bytes, rank, count, r->gathered);
		for (uint64_t i = 0; i < count && rc == 0; i++)
			copy_part(buf, begin, end, layout->data_offset + (local + i) * stride,
			          r->gathered + i * layout->row_bytes, layout->row_bytes);
	}
	return rc;
}

/* ---- maps ---- */

/* Load the other map into r->inverse. rung__verify_load_maps() would fail, because one of the maps
 * is damaged and they do not match. */
static int open_inverse(struct rung__rebuild *r, const struct rung__manifest_file *file)
{
	const bool of_rank = strcmp(file->name, RUNG__VERTEX_OF_RANK) == 0;
	const uint64_t bytes = file->bytes - RUNG__NPY_DATA_OFFSET;
	struct rung__features other = { .layout.file_count = 0 };
	int rc;

	r->inverse = rung__malloc_array(bytes, 1);
	if (!r->inverse)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory for the %" PRIu64 " bytes of its inverse",
		                  file->name, bytes);
	rc = rung__array_open(r->v->ds, of_rank ? RUNG__RANK_OF_VERTEX : RUNG__VERTEX_OF_RANK,
	                      &other);
	if (rc == 0)
		rc = rung__pread_all(other.files[0].fd, other.files[0].path, r->inverse, bytes,
		                     RUNG__NPY_DATA_OFFSET);
	rung__features_close(&other);
	return rc;
}

/* Invert the part of the map that the block contains. The whole other map is searched for it:
 * entries of one block are scattered over the inverse. */
static void make_map(const struct rung__rebuild *r, uint64_t begin, uint64_t end,
                     unsigned char *buf)
{
	const struct rung__manifest *m = r->v->ds->manifest;
	const uint64_t first = (begin - RUNG__NPY_DATA_OFFSET) / m->index_bytes,
		       last = (end - RUNG__NPY_DATA_OFFSET) / m->index_bytes;

	memset(buf, 0, (size_t)(end - begin));
	for (uint64_t i = 0; i < m->vertex_count; i++) {
		uint64_t at = rung__id_get(r->inverse, m->index_bytes, i);

		/* also rejects damaged entries, which can have any value */
		if (at >= first && at < last)
			rung__id_set(buf, m->index_bytes, at - first, i);
	}
}

/* ---- splits ---- */

/* Read the ids of a split whose source was given. */
static int open_split(struct rung__rebuild *r, const struct rung__manifest_file *file)
{
	const struct rung_verify_opts *opts = &r->v->opts;
	const size_t prefix = strlen(RUNG__SPLIT_PREFIX),
		     name_len = strlen(file->name) - prefix - strlen(".npy");
	int rc;

	for (size_t i = 0; i < opts->split_count; i++) {
		const char *name = opts->split_names[i];

		if (strlen(name) != name_len || memcmp(name, file->name + prefix, name_len) != 0)
			continue;
		rc = rung__verify_load_maps(r->v);
		if (rc == 0)
			rc = rung__verify_split_ids(r->v, i, &r->split_count, &r->split_ids);
		/* make_split() indexes the ids by their position in the file */
		if (rc == 0 && r->split_count != file->array.row_count)
			rc = rung__fail(RUNG_E_FORMAT,
			                "%s: has %" PRIu64 " ids, but the staged %s has %" PRIu64
			                "; give the ids that were staged",
			                opts->split_specs[i], r->split_count, file->name,
			                file->array.row_count);
		return rc;
	}
	return no_source(file, "its source (--split NAME=SRC or --dataset)");
}

static void make_split(const struct rung__rebuild *r, uint64_t begin, uint64_t end,
                       unsigned char *buf)
{
	const unsigned id_bytes = r->v->ds->manifest->index_bytes;
	const uint64_t first = (begin - RUNG__NPY_DATA_OFFSET) / id_bytes,
		       last = (end - RUNG__NPY_DATA_OFFSET) / id_bytes;

	for (uint64_t i = first; i < last; i++)
		rung__id_set(buf, id_bytes, i - first,
		             rung__id_get(r->v->rank_of_vertex, id_bytes, r->split_ids[i]));
}

/* ---- graph ---- */

/* Close the relabelled graph. Its files have no names, so closing removes them. */
static void close_graph(struct rung__rebuild *r)
{
	if (r->has_graph) {
		close(r->graph_fds[0]);
		close(r->graph_fds[1]);
	}
	r->has_graph = false;
}

/* Relabel the whole graph again, because a list's position depends on all lists before it. */
static int relabel(struct rung__rebuild *r)
{
	struct rung__relabel_opts opts = { 0 };
	struct rung_edges *edges;
	int rc = rung__verify_open_edges(r->v, &edges);

	if (rc < 0)
		return rc;
	opts.memory_bytes = r->v->opts.memory_bytes / 4;
	opts.threads = (uint32_t)r->v->threads;
	opts.progress = r->v->opts.progress;
	opts.progress_ctx = r->v->opts.progress_ctx;
	rc = rung__edges_relabel_temp(edges, r->v->vertex_of_rank,
	                              r->v->rank_of_source ? r->v->rank_of_source
	                                                   : r->v->rank_of_vertex,
	                              &opts, r->graph_fds);
	r->has_graph = rc == 0;
	rung_edges_close(edges);
	return rc;
}

/* Relabel the graph, unless this was done already for a block of either file. */
static int open_graph(struct rung__rebuild *r, const struct rung__manifest_file *file)
{
	int rc;

	if (!r->v->opts.graph)
		return no_source(file, "the graph (--graph or --dataset)");
	rc = rung__verify_load_maps(r->v);
	return rc == 0 && !r->has_graph ? relabel(r) : rc;
}

/* The unnamed files have the same offsets as the files of the dataset, headers included. */
static int read_graph(const struct rung__rebuild *r, const struct rung__manifest_file *file,
                      uint64_t begin, uint64_t end, unsigned char *buf)
{
	const bool indices = strcmp(file->name, RUNG__INDICES) == 0;

	return rung__pread_all(r->graph_fds[indices], "the relabelled graph", buf, end - begin,
	                       begin);
}

/* ---- kinds of files ---- */

/* In the order of the manifest, which kind_of() relies on. */
enum kind {
	KIND_FEATURES,
	KIND_INDPTR,
	KIND_INDICES,
	KIND_VERTEX_OF_RANK,
	KIND_RANK_OF_VERTEX,
	KIND_SCORE,
	KIND_LABELS,
	KIND_ARRAY,
	KIND_SPLIT
};

/* The kind of a file, by its position in the manifest, which follows from the counts. */
static enum kind kind_of(const struct rung__manifest *m, const struct rung__manifest_file *file)
{
	const uint32_t at = (uint32_t)(file - m->files),
		       fixed = m->feature_file_count + rung__manifest_fixed_files(m);
	enum kind kind = (enum kind)(KIND_INDPTR + (at - m->feature_file_count));

	if (at < m->feature_file_count)
		return KIND_FEATURES;
	if (at < fixed) {
		/* what a part of a typed dataset lacks is not in the list */
		if (m->no_graph)
			kind += KIND_VERTEX_OF_RANK - KIND_INDPTR;
		if (m->no_maps && kind >= KIND_VERTEX_OF_RANK)
			kind += KIND_SCORE - KIND_VERTEX_OF_RANK;
		return kind;
	}
	if (m->has_labels && at == fixed)
		return KIND_LABELS;
	return at < m->file_count - m->split_count ? KIND_ARRAY : KIND_SPLIT;
}

/* Close everything that belongs to one file. The relabelled graph stays open, because both of its
 * files may have bad blocks and relabelling takes a long time. */
static void close_file(struct rung__rebuild *r)
{
	rung__rows_fini(&r->gather);
	rung__verify_rows_close(&r->rows);
	rung__free(r->gathered);
	rung__free(r->inverse);
	rung_free(r->split_ids);
	*r = (struct rung__rebuild){ .v = r->v,
		                     .has_graph = r->has_graph,
		                     .graph_fds = { r->graph_fds[0], r->graph_fds[1] } };
}

/* Open the source of a file. */
static int open_file(struct rung__rebuild *r, const struct rung__manifest_file *file)
{
	const struct rung_verify_opts *opts = &r->v->opts;

	switch (kind_of(r->v->ds->manifest, file)) {
	case KIND_FEATURES:
		return open_rows(r, file, opts->source, "the features (--source SRC or --dataset)");
	case KIND_LABELS:
		return open_rows(r, file, opts->labels, "the labels (--labels SRC or --dataset)");
	case KIND_SCORE:
		return open_rows(r, file, opts->score, "the score by original id (--score SRC)");
	case KIND_ARRAY:
		return open_rows(r, file, rung__verify_array_spec(r->v, file->name),
		                 "its source (--source NAME=SRC or --dataset)");
	case KIND_SPLIT:
		return open_split(r, file);
	case KIND_VERTEX_OF_RANK:
	case KIND_RANK_OF_VERTEX:
		return open_inverse(r, file);
	default:
		return open_graph(r, file);
	}
}

/* Rebuild bytes [begin, end) of a file, which are after the header. */
static int make_data(struct rung__rebuild *r, const struct rung__manifest_file *file,
                     uint64_t begin, uint64_t end, unsigned char *buf)
{
	switch (kind_of(r->v->ds->manifest, file)) {
	case KIND_FEATURES:
		return make_rows(r, (uint64_t)(file - r->v->ds->manifest->files), begin, end, buf);
	case KIND_LABELS:
	case KIND_SCORE:
	case KIND_ARRAY:
		return make_rows(r, 0, begin, end, buf);
	case KIND_SPLIT:
		make_split(r, begin, end, buf);
		return 0;
	case KIND_VERTEX_OF_RANK:
	case KIND_RANK_OF_VERTEX:
		make_map(r, begin, end, buf);
		return 0;
	default:
		return read_graph(r, file, begin, end, buf);
	}
}

int rung__rebuild_block(struct rung__rebuild *r, const struct rung__manifest_file *file,
                        uint64_t block, unsigned char *buf)
{
	const uint64_t begin = block * RUNG__BLOCK_BYTES,
		       end = RUNG__MIN(file->bytes, begin + RUNG__BLOCK_BYTES);
	const uint64_t data = RUNG__MAX(begin, RUNG__NPY_DATA_OFFSET);
	int rc = 0;

	/* the blocks of a file are rebuilt one after the other, so its source is opened once */
	if (r->file != file) {
		close_file(r);
		rc = open_file(r, file);
		if (rc < 0) {
			close_file(r);
			return rc;
		}
		r->file = file;
	}
	if (block == 0)
		rung__npy_format(&file->array, buf);
	return data < end ? make_data(r, file, data, end, buf + (data - begin)) : 0;
}

void rung__rebuild_fini(struct rung__rebuild *r)
{
	close_file(r);
	close_graph(r);
}
