/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of a description. Files are opened here only to compare counts, which are in headers;
 * rung_stage() opens and checks them again. A failure is reported with the key in front of it: the
 * user of a description has not written the names of the files.
 */
#include <string.h>

#include "base/base.h"
#include "graph/graph.h"
#include "preset/description.h"
#include "source/source.h"

#define WANTED        "a SRC, such as \"features.npy\""
#define SRC_BYTES_MAX 8000u /* two of the longest paths; rung_stage() records up to 8 KiB */

/* ---- names of files ---- */

/* The folder of the description with a slash at its end, or "" for the current folder. "./" keeps a
 * relative folder with a colon from being read as the prefix of a spec. The caller frees it. */
static char *folder_of(const char *file)
{
	const char *slash = strrchr(file, '/');
	const size_t bytes = slash ? (size_t)(slash - file) + 1 : 0;
	const bool colon = bytes > 0 && file[0] != '/' && memchr(file, ':', bytes);

	return rung__format("%s%.*s", colon ? "./" : "", (int)bytes, file);
}

/* One SRC with the folder; NULL without memory. The caller frees it. */
static char *in_folder(const char *folder, const char *spec)
{
	const char *file = rung__source_file_part(spec);

	if (!file || file[0] == '/')
		return rung__strdup(spec);
	return rung__format("%.*s%s%s", (int)(file - spec), spec, folder, file);
}

/* Both sides of a comma with the folder. @param found_out  whether both name existing files */
static char *pair_in_folder(const char *folder, const char *spec, const char *comma,
                            bool *found_out)
{
	const char *pair = spec + RUNG__COLUMNS_PREFIX;
	char *side = rung__format("%.*s", (int)(comma - pair), pair);
	char *left = side ? in_folder(folder, side) : NULL;
	char *right = in_folder(folder, comma + 1), *both = NULL;
	struct stat st;

	if (left && right) {
		both = rung__format("%.4s%s,%s", spec, left, right);
		*found_out =
			rung__source_stat(left, &st) == 0 && rung__source_stat(right, &st) == 0;
	}
	rung__free(side);
	rung__free(left);
	rung__free(right);
	return both;
}

/* A csc: or csr:, whose sources can contain commas. The first comma at which both sides are files
 * separates them; without such a comma the first one does, for the message of opening it. */
static char *columns_in_folder(const char *folder, const char *spec)
{
	const char *first = strchr(spec, ','), *comma = first;
	bool found = false;
	char *both = NULL;

	if (!first)
		return rung__strdup(spec);
	for (; comma && !found; comma = strchr(comma + 1, ',')) {
		rung__free(both);
		both = pair_in_folder(folder, spec, comma, &found);
		if (!both)
			return NULL;
	}
	if (!found) {
		rung__free(both);
		both = pair_in_folder(folder, spec, first, &found);
	}
	return both;
}

static bool is_columns(const char *spec)
{
	return rung__spec_is_csc(spec) || rung__spec_is_csr(spec);
}

int rung__described_source(struct rung__preset *p, const struct rung__described *object,
                           const char *key, bool needed, bool graph, const char **spec_out)
{
	const char *spec = NULL, *kept;
	char *folder, *resolved = NULL;
	int rc = rung__described_text(object, key, needed, WANTED, &spec);

	if (rc < 0 || !spec)
		return rc;
	if (!spec[0])
		return rung__described_refuse(object, key, "is empty; give " WANTED);
	if (strlen(spec) > SRC_BYTES_MAX)
		return rung__described_refuse(object, key,
		                              "has %zu bytes; give a SRC of at most %u bytes",
		                              strlen(spec), SRC_BYTES_MAX);
	folder = folder_of(object->file);
	if (folder)
		resolved = graph && is_columns(spec) ? columns_in_folder(folder, spec)
		                                     : in_folder(folder, spec);
	rung__free(folder);
	if (!resolved)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for the names of its files",
		                  object->file);
	kept = rung__preset_text(p, "%s", resolved);
	rung__free(resolved);
	if (!kept)
		return RUNG_E_NOMEM;
	*spec_out = kept;
	return 0;
}

/* ---- counts ---- */

/* Put the key in front of the failure of a source. A SRC that is not valid is a mistake in the
 * file, and not one of the caller. */
static int fail_source(const struct rung__described *object, const char *key, int rc)
{
	rc = rc == RUNG_E_INVAL ? RUNG_E_FORMAT : rc;
	return rung__fail(rc, "%s: %s%s: %s", object->file, object->prefix, key, rung_last_error());
}

int rung__described_check_rows(const struct rung__described *object, const char *key,
                               const char *spec, uint64_t vertex_count)
{
	struct rung_source *src;
	uint64_t rows;
	int rc = rung_source_open(spec, &src);

	if (rc < 0)
		return fail_source(object, key, rc);
	rows = rung_source_info(src)->row_count;
	rung_source_close(src);
	if (rows == vertex_count)
		return 0;
	return rung__described_refuse(object, key,
	                              "%s has %" PRIu64 " rows, but the vertex type has \"count\" "
	                              "%" PRIu64 "; give one row for each vertex",
	                              spec, rows, vertex_count);
}

int rung__described_check_ids(const struct rung__described *object, const char *key,
                              const char *spec)
{
	struct rung_source *src;
	int rc = rung_source_open(spec, &src);

	if (rc < 0)
		return fail_source(object, key, rc);
	rung_source_close(src);
	return 0;
}

/* Edges of a csc: or csr:, whose indptr must belong to `vertex_count` vertices. */
static int count_columns(const char *spec, uint64_t vertex_count, uint64_t *count_out)
{
	struct rung_source *indptr, *indices;
	int rc = rung__columns_open(spec, &indptr, &indices);

	if (rc < 0)
		return rc;
	rc = rung__columns_count(indptr, vertex_count, &vertex_count);
	*count_out = rung_source_info(indices)->row_count;
	rung_source_close(indptr);
	rung_source_close(indices);
	return rc;
}

static int count_list(const char *spec, uint64_t *count_out)
{
	struct rung_graph_opts opts = RUNG_GRAPH_OPTS_INIT;
	struct rung__edge_lists lists;
	int rc;

	opts.specs = &spec;
	opts.spec_count = 1;
	rc = rung__edge_lists_open(&lists, &opts, 1); /* nothing is read: one edge per chunk */
	*count_out = lists.edge_count;
	rung__edge_lists_close(&lists);
	return rc;
}

int rung__described_check_edges(const struct rung__described *object, const char *key,
                                const char *spec, struct rung__edge_counts *counts)
{
	/* csc: has the lists of the targets, csr: those of the sources */
	const uint64_t lists = rung__spec_is_csr(spec) ? counts->sources : counts->targets;
	int rc = is_columns(spec) ? count_columns(spec, lists, &counts->found)
	                          : count_list(spec, &counts->found);

	if (rc < 0)
		return fail_source(object, key, rc);
	if (counts->wanted == UINT64_MAX || counts->found == counts->wanted)
		return 0;
	return rung__described_refuse(object, "count",
	                              "is %" PRIu64 ", but %s has %" PRIu64
	                              " edges; correct the count or the file",
	                              counts->wanted, spec, counts->found);
}

int rung__described_check_edge_rows(const struct rung__described *object, const char *spec,
                                    uint64_t edge_count)
{
	struct rung_source *src;
	uint64_t rows;
	int rc = rung_source_open(spec, &src);

	if (rc < 0)
		return fail_source(object, "rows", rc);
	rows = rung_source_info(src)->row_count;
	rung_source_close(src);
	if (rows == edge_count)
		return 0;
	return rung__described_refuse(object, "rows",
	                              "%s has %" PRIu64 " rows, but \"edges\" has %" PRIu64
	                              "; give one row for each edge",
	                              spec, rows, edge_count);
}
