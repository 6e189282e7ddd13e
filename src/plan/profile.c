/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine profiles: read the numbers that plans use from the output of rung numa --json
 * (docs/PROFILE.md). Unknown keys are ignored, so profiles of newer versions with the same schema
 * can be read. Values are checked here, because the file may have been edited; counts are limited
 * by the arrays of struct rung_profile, and entries beyond them are dropped.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"
#include "rung/numa.h"
#include "rung/profile.h"

#define SCHEMA      1
#define RATE_MAX    1e15   /* per second, of rows or reads: larger values are not plausible */
#define THREADS_MAX 65536u /* of one node */
#define BYTES_MAX   (UINT64_C(1) << 32) /* of a row or a read */

static int bad_value(const char *path, const char *key)
{
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: \"%s\" is missing or not valid in schema %d; measure again with "
	                  "rung numa --json",
	                  path, key, SCHEMA);
}

/* Read a size from 1 to BYTES_MAX. @return false: missing or out of range */
static bool get_bytes(const json_t *object, const char *key, uint64_t *value_out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 1 ||
	    (uint64_t)json_integer_value(value) > BYTES_MAX)
		return false;
	*value_out = (uint64_t)json_integer_value(value);
	return true;
}

/* Read a positive number below RATE_MAX, per second. @return false: missing or out of range */
static bool get_rate(const json_t *object, const char *key, double *value_out)
{
	const json_t *value = json_object_get(object, key);

	*value_out = json_number_value(value);
	return json_is_number(value) && *value_out > 0 && *value_out < RATE_MAX;
}

static bool is_text(const json_t *object, const char *key, const char *text)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value && strcmp(value, text) == 0;
}

/* ---- rows ---- */

/* Read an integer from `low` to `high`. @return false: missing or out of range */
static bool get_number(const json_t *object, const char *key, uint32_t low, uint32_t high,
                       uint32_t *value_out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < low ||
	    json_integer_value(value) > high)
		return false;
	*value_out = (uint32_t)json_integer_value(value);
	return true;
}

/* Compare as qsort() requires. A difference of 64-bit numbers may not fit into an int. */
static int order(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

/* The order that rung__row_ns() relies on: ascending row sizes for each pair of nodes. */
static int compare_rows(const void *a, const void *b)
{
	const struct rung_profile_rows *x = a, *y = b;

	if (x->all_cores != y->all_cores)
		return x->all_cores - y->all_cores;
	if (x->cpu_node != y->cpu_node)
		return order(x->cpu_node, y->cpu_node);
	if (x->memory_node != y->memory_node)
		return order(x->memory_node, y->memory_node);
	return order(x->row_bytes, y->row_bytes);
}

/* Whether a result is of a node's own memory. */
static bool is_near(const json_t *result)
{
	return json_equal(json_object_get(result, "cpu_node"),
	                  json_object_get(result, "memory_node"));
}

/* Add a result of the gather matrix; other matrices and absent values are skipped. */
static int add_rows(const char *path, const json_t *result, struct rung_profile *profile)
{
	struct rung_profile_rows rows = { .threads = 1 };
	uint32_t i = 0;

	rows.all_cores = is_text(result, "cores", "all");
	if (!is_text(result, "matrix", "gather") ||
	    (!rows.all_cores && !is_text(result, "cores", "one")) ||
	    !json_is_null(json_object_get(result, "absent")))
		return 0;
	if (!get_bytes(result, "row_bytes", &rows.row_bytes) ||
	    !get_rate(json_object_get(result, "rows_per_s"), "median", &rows.rows_per_s) ||
	    !get_number(result, "cpu_node", 0, RUNG_NODES_MAX - 1, &rows.cpu_node) ||
	    !get_number(result, "memory_node", 0, RUNG_NODES_MAX - 1, &rows.memory_node) ||
	    (rows.all_cores && !get_number(result, "threads", 1, THREADS_MAX, &rows.threads)))
		return bad_value(path, "results: gather");
	/* a pair of nodes that occurs twice with one row size keeps the faster rate */
	while (i < profile->rows_count && compare_rows(&profile->rows[i], &rows) != 0)
		i++;
	if (i == RUNG_PROFILE_ROWS_MAX)
		return 0; /* the array is full; nearest nodes were added first */
	if (i == profile->rows_count)
		profile->rows[profile->rows_count++] = rows;
	else if (rows.rows_per_s > profile->rows[i].rows_per_s)
		profile->rows[i] = rows;
	return 0;
}

/* Read the rates of gathering rows, in two passes over the results: rates of a node's own memory
 * first, so that a full array lacks only distant pairs. */
static int get_rows(const char *path, const json_t *root, struct rung_profile *profile)
{
	const json_t *results = json_object_get(root, "results");
	int rc = json_is_array(results) ? 0 : bad_value(path, "results");
	bool any = false;

	for (unsigned far = 0; far < 2; far++) {
		for (size_t i = 0; i < json_array_size(results) && rc == 0; i++) {
			const json_t *result = json_array_get(results, i);

			if (is_near(result) == !far)
				rc = add_rows(path, result, profile);
		}
	}
	for (uint32_t i = 0; i < profile->rows_count; i++)
		any |= !profile->rows[i].all_cores &&
		       profile->rows[i].cpu_node == profile->rows[i].memory_node;
	if (rc == 0 && !any)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: has no single-core rates of gathering rows, which a plan "
		                "needs; measure them with rung numa --json",
		                path);
	qsort(profile->rows, profile->rows_count, sizeof(profile->rows[0]), compare_rows);
	return rc;
}

/* ---- rows that GPUs gather ---- */

static int compare_gpu_rows(const void *a, const void *b)
{
	const struct rung_profile_gpu_rows *x = a, *y = b;

	return order(x->row_bytes, y->row_bytes);
}

/* Keep one rate per size. Sizes beyond the array are not needed, because rates are interpolated.
 * @param slowest keep the slowest of several rates of one size instead of the fastest */
static void keep_gpu_rows(const struct rung_profile_gpu_rows *rows, bool slowest,
                          struct rung_profile_gpu_rows *list, uint32_t *count)
{
	uint32_t i = 0;

	while (i < *count && list[i].row_bytes != rows->row_bytes)
		i++;
	if (i == RUNG_PROFILE_GPU_ROWS_MAX)
		return;
	if (i == *count)
		list[(*count)++] = *rows;
	list[i].rows_per_s = slowest ? RUNG__MIN(list[i].rows_per_s, rows->rows_per_s)
	                             : RUNG__MAX(list[i].rows_per_s, rows->rows_per_s);
}

static int add_gpu_rows(const char *path, const json_t *entry, struct rung_profile *profile)
{
	struct rung_profile_gpu_rows rows;

	if (!json_is_object(entry) || !get_bytes(entry, "row_bytes", &rows.row_bytes) ||
	    !get_rate(entry, "rows_per_s", &rows.rows_per_s))
		return bad_value(path, "gpu_gather");
	/* rows are interleaved over all GPUs, so the slowest pair counts */
	if (is_text(entry, "from", "gpu"))
		keep_gpu_rows(&rows, false, profile->gpu_rows, &profile->gpu_rows_count);
	else if (is_text(entry, "from", "peer"))
		keep_gpu_rows(&rows, true, profile->peer_rows, &profile->peer_rows_count);
	else if (is_text(entry, "from", "host"))
		keep_gpu_rows(&rows, false, profile->link_rows, &profile->link_rows_count);
	else
		return bad_value(path, "gpu_gather");
	return 0;
}

/* Profiles of versions that did not measure GPUs have no such list. */
static int get_gpu_rows(const char *path, const json_t *root, struct rung_profile *profile)
{
	const json_t *list = json_object_get(root, "gpu_gather");
	int rc = !list || json_is_array(list) ? 0 : bad_value(path, "gpu_gather");

	for (size_t i = 0; i < json_array_size(list) && rc == 0; i++)
		rc = add_gpu_rows(path, json_array_get(list, i), profile);
	qsort(profile->gpu_rows, profile->gpu_rows_count, sizeof(profile->gpu_rows[0]),
	      compare_gpu_rows);
	qsort(profile->peer_rows, profile->peer_rows_count, sizeof(profile->peer_rows[0]),
	      compare_gpu_rows);
	qsort(profile->link_rows, profile->link_rows_count, sizeof(profile->link_rows[0]),
	      compare_gpu_rows);
	return rc;
}

/* ---- reads ---- */

/* The target of reads: a drive, or a file if the drive has no name. The text belongs to the
 * document. */
struct target {
	const json_t *drive, *file;
};

/* The order that struct rung__drive_reads relies on: by drive, then size, then depth. */
static int compare_reads(const void *a, const void *b)
{
	const struct rung_profile_reads *x = a, *y = b;

	if (x->drive != y->drive)
		return order(x->drive, y->drive);
	return x->read_bytes != y->read_bytes ? order(x->read_bytes, y->read_bytes)
	                                      : order(x->depth, y->depth);
}

static bool same_target(const struct target *a, const struct target *b)
{
	return json_equal(a->drive, b->drive) &&
	       (json_is_string(a->drive) || json_equal(a->file, b->file));
}

/* Find the drive of an entry, or add it.
 * @return 0, 1 if the array of drives is full, or RUNG_E_FORMAT */
static int find_drive(const char *path, const json_t *entry,
                      struct target targets[RUNG_PROFILE_DRIVES_MAX], struct rung_profile *profile,
                      uint32_t *drive_out)
{
	const struct target target = { json_object_get(entry, "drive"),
		                       json_object_get(entry, "file") };
	const char *name = json_is_string(target.drive) ? json_string_value(target.drive) : "";
	uint32_t i = 0;

	if ((!json_is_string(target.drive) && !json_is_null(target.drive)) ||
	    strlen(name) >= RUNG_DRIVE_NAME_BYTES)
		return bad_value(path, "nvme_read: drive");
	while (i < profile->drive_count && !same_target(&targets[i], &target))
		i++;
	if (i == RUNG_PROFILE_DRIVES_MAX)
		return 1;
	if (i == profile->drive_count) {
		targets[i] = target;
		strcpy(profile->drives[i].name, name);
		profile->drive_count++;
	}
	*drive_out = i;
	return 0;
}

/* Add an entry of nvme_read; of several rates at one size and depth the fastest counts. */
static int add_reads(const char *path, const json_t *entry,
                     struct target targets[RUNG_PROFILE_DRIVES_MAX], struct rung_profile *profile)
{
	struct rung_profile_reads reads;
	uint64_t depth;
	uint32_t i = 0;
	int rc;

	if (!json_is_object(entry) || !get_bytes(entry, "row_bytes", &reads.read_bytes) ||
	    !get_bytes(entry, "queue_depth", &depth) || depth > UINT32_MAX ||
	    !get_rate(entry, "reads_per_s", &reads.reads_per_s))
		return bad_value(path, "nvme_read");
	if (profile->reads_count == RUNG_PROFILE_READS_MAX)
		/* checked before the drive is added, so that no drive is left without reads */
		return 0;
	rc = find_drive(path, entry, targets, profile, &reads.drive);
	/* 1: the array of drives is full, so this entry is dropped, which is not an error */
	if (rc != 0)
		return RUNG__MIN(rc, 0);
	reads.depth = (uint32_t)depth;
	while (i < profile->reads_count && compare_reads(&profile->reads[i], &reads) != 0)
		i++;
	if (i == profile->reads_count)
		profile->reads[profile->reads_count++] = reads;
	profile->reads[i].reads_per_s = RUNG__MAX(profile->reads[i].reads_per_s, reads.reads_per_s);
	return 0;
}

static int get_reads(const char *path, const json_t *root, struct rung_profile *profile)
{
	const json_t *list = json_object_get(root, "nvme_read");
	struct target targets[RUNG_PROFILE_DRIVES_MAX];
	int rc = json_is_array(list) ? 0 : bad_value(path, "nvme_read");

	for (size_t i = 0; i < json_array_size(list) && rc == 0; i++)
		rc = add_reads(path, json_array_get(list, i), targets, profile);
	qsort(profile->reads, profile->reads_count, sizeof(profile->reads[0]), compare_reads);
	return rc;
}

/* ---- the file ---- */

/* Read and check the file. Opened as a regular file, because reading a pipe or a device could
 * block. */
static int load(const char *path, struct rung_profile *profile)
{
	const int fd = rung__open_regular(AT_FDCWD, path, path, 0);
	json_error_t error;
	json_t *root;
	int rc;

	if (fd < 0)
		return rung__fail(fd, "%s; write a profile with rung numa --json",
		                  rung_last_error());
	/* of two equal keys jansson would silently use the last one */
	root = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
	close(fd);
	if (!root)
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: line %d: %s: not a machine profile; write one with rung numa --json",
			path, error.line, error.text);
	if (json_integer_value(json_object_get(root, "schema")) != SCHEMA ||
	    !json_is_object(json_object_get(root, "measured")))
		rc = rung__fail(
			RUNG_E_FORMAT,
			"%s: not a machine profile of schema %d; write one with rung numa --json",
			path, SCHEMA);
	else if ((rc = get_rows(path, root, profile)) == 0)
		rc = get_reads(path, root, profile);
	if (rc == 0)
		rc = get_gpu_rows(path, root, profile);
	json_decref(root);
	return rc;
}

int rung_profile_load(const char *path, struct rung_profile *profile_out)
{
	/* filled separately: after a failure the caller's struct is unchanged */
	struct rung_profile profile = { .size = sizeof(profile) };
	int rc;

	if (!path || !profile_out)
		return rung__fail(RUNG_E_INVAL,
		                  "rung_profile_load: path or profile_out is NULL; give both");
	rc = load(path, &profile);
	return rc < 0 ? rc
	              : rung__opts_copy_out(profile_out, &profile, sizeof(profile), "rung_profile");
}
