/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary folders, .npy files, and the sources of small data sets. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "dataset/checksum.h"
#include "dataset.h"

#define MEMORY_MIN (1ul << 30) /* free in /dev/shm */

int support_tempdir(char *path_out, size_t path_bytes)
{
	const char *base = getenv("TMPDIR");

	if (snprintf(path_out, path_bytes, "%s/rung-test-XXXXXX",
	             base && base[0] ? base : "/tmp") >= (int)path_bytes) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return mkdtemp(path_out) ? 0 : -1;
}

void support_prefer_memory(void)
{
	const char *shm = "/dev/shm";
	struct statvfs vfs;

	if (access(shm, W_OK) == 0 && statvfs(shm, &vfs) == 0 &&
	    vfs.f_bavail >= MEMORY_MIN / vfs.f_frsize)
		setenv("TMPDIR", shm, 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	remove(path);
	return 0;
}

void support_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int write_parts(const char *path, const void *head, size_t head_bytes, const void *data,
                       size_t bytes)
{
	FILE *file = fopen(path, "wb");
	int failed;

	if (!file)
		return -1;
	failed = (head_bytes && fwrite(head, 1, head_bytes, file) != head_bytes) ||
	         (bytes && fwrite(data, 1, bytes, file) != bytes);
	return fclose(file) != 0 || failed ? -1 : 0;
}

int support_write_file(const char *path, const void *data, size_t bytes)
{
	return write_parts(path, NULL, 0, data, bytes);
}

void support_put(const char *root, const char *name, const char *text)
{
	char path[512];

	for (const char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(path, sizeof(path), "%s%.*s", root, (int)(slash - name), name);
		mkdir(path, 0777);
	}
	snprintf(path, sizeof(path), "%s%s", root, name);
	if (support_write_file(path, text, strlen(text)) != 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		abort();
	}
}

int support_write_npy(const char *path, const char *descr, const char *shape, const void *data,
                      size_t bytes)
{
	char head[256];
	int len = snprintf(head + 10, sizeof(head) - 10,
	                   "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);

	memcpy(head, "\x93NUMPY\x01\x00", 8);
	while ((len + 11) % 64 != 0)
		head[10 + len++] = ' ';
	head[10 + len++] = '\n';
	head[8] = (char)(len & 0xff);
	head[9] = (char)(len >> 8);
	return write_parts(path, head, (size_t)len + 10, data, bytes);
}

unsigned char *support_read_file(const char *path, size_t *bytes_out)
{
	FILE *file = fopen(path, "rb");
	unsigned char *data = NULL;
	long bytes;

	if (!file)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 &&
	    fseek(file, 0, SEEK_SET) == 0) {
		data = malloc((size_t)bytes + 1);
		if (data && fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
			free(data);
			data = NULL;
		}
		*bytes_out = (size_t)bytes;
	}
	fclose(file);
	return data;
}

int support_flip(const char *path, uint64_t at)
{
	FILE *file = fopen(path, "r+b");
	int byte = EOF;
	bool failed;

	if (!file)
		return -1;
	if (fseek(file, (long)at, SEEK_SET) == 0)
		byte = fgetc(file);
	failed = byte == EOF || fseek(file, (long)at, SEEK_SET) != 0 ||
	         fputc(byte ^ 0x10, file) == EOF;
	return fclose(file) != 0 || failed ? -1 : 0;
}

int support_forge(const char *dir, const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *forged = malloc(strlen(text) + strlen(to) + 1), digits[RUNG__CHECKSUM_DIGITS + 1],
	     path[4096];
	size_t len;
	int rc = -1;

	if (at && forged) {
		len = (size_t)sprintf(forged, "%.*s%s%s", (int)(at - text), text, to,
		                      at + strlen(from));
		memset(forged + len - 20, '0', 16);
		rung__checksum_text(rung__checksum(forged, len), digits);
		memcpy(forged + len - 20, digits, 16);
		snprintf(path, sizeof(path), "%s/manifest.json", dir);
		rc = support_write_file(path, forged, len);
	}
	free(forged);
	return rc;
}

int support_open_descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	int count = -3; /* ".", ".." and `fds` itself */

	if (!fds)
		abort();
	while (readdir(fds))
		count++;
	closedir(fds);
	return count;
}

static uint64_t row_word(uint64_t vertex, uint64_t word)
{
	uint64_t w = (vertex * UINT64_C(0x100000001b3) + word) * UINT64_C(0xff51afd7ed558ccd);

	return (w ^ w >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
}

unsigned char support_row_byte(uint64_t vertex, uint64_t at)
{
	return (unsigned char)(row_word(vertex, at / 8) >> 8 * (at % 8));
}

void support_row(uint64_t vertex, uint64_t row_bytes, unsigned char *row_out)
{
	for (uint64_t at = 0; at < row_bytes; at++)
		row_out[at] = support_row_byte(vertex, at);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33 ^ *state >> 11;
}

static int write_edges(const char *path, uint64_t vertices, uint64_t edges, uint64_t seed)
{
	int64_t *ids = malloc(2 * edges * sizeof(*ids) + 1);
	uint64_t state = seed;
	char shape[64];
	int rc;

	if (!ids)
		return -1;
	for (uint64_t i = 0; i < 2 * edges; i++)
		ids[i] = (int64_t)(next_random(&state) % (next_random(&state) % vertices + 1));
	snprintf(shape, sizeof(shape), "(2, %llu)", (unsigned long long)edges);
	rc = support_write_npy(path, "<i8", shape, ids, (size_t)(2 * edges * sizeof(*ids)));
	free(ids);
	return rc;
}

static int write_features(const char *path, uint64_t vertices, uint64_t row_bytes)
{
	unsigned char *rows = malloc((size_t)(vertices * row_bytes) + 1);
	char shape[64];
	int rc;

	if (!rows)
		return -1;
	for (uint64_t v = 0; v < vertices; v++)
		support_row(v, row_bytes, rows + v * row_bytes);
	snprintf(shape, sizeof(shape), "(%llu, %llu)", (unsigned long long)vertices,
	         (unsigned long long)row_bytes);
	rc = support_write_npy(path, "|u1", shape, rows, (size_t)(vertices * row_bytes));
	free(rows);
	return rc;
}

static int write_extra_arrays(const char *dir, uint64_t vertices)
{
	int64_t *values = malloc((size_t)vertices * sizeof(*values));
	unsigned char *mask = malloc((size_t)vertices);
	uint64_t count = 0;
	char path[4096], shape[64];
	int failed = !values || !mask;

	for (uint64_t v = 0; v < vertices && !failed; v++) {
		values[v] = (int64_t)(v % 7);
		mask[v] = v % 3 == 1;
	}
	snprintf(shape, sizeof(shape), "(%llu,)", (unsigned long long)vertices);
	snprintf(path, sizeof(path), "%s/labels.npy", dir);
	failed = failed ||
	         support_write_npy(path, "<i8", shape, values, (size_t)vertices * sizeof(*values));
	snprintf(path, sizeof(path), "%s/valid.npy", dir);
	failed = failed || support_write_npy(path, "|b1", shape, mask, (size_t)vertices);
	for (uint64_t v = vertices; v-- > 0 && !failed;) {
		if (v % 3 == 0)
			values[count++] = (int64_t)v;
	}
	snprintf(shape, sizeof(shape), "(%llu,)", (unsigned long long)count);
	snprintf(path, sizeof(path), "%s/train.npy", dir);
	failed = failed ||
	         support_write_npy(path, "<i8", shape, values, (size_t)count * sizeof(*values));
	free(values);
	free(mask);
	return failed ? -1 : 0;
}

int support_sources(const char *dir, uint64_t vertices, uint64_t edges, uint64_t row_bytes,
                    uint64_t seed)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/edges.npy", dir);
	if (write_edges(path, vertices, edges, seed) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/features.npy", dir);
	if (write_features(path, vertices, row_bytes) < 0)
		return -1;
	return write_extra_arrays(dir, vertices);
}
