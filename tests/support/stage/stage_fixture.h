/* SPDX-License-Identifier: Apache-2.0 */
/** Sources in a temporary folder and the options to stage them, for the tests of staging. */
#ifndef SUPPORT_STAGE_FIXTURE_H
#define SUPPORT_STAGE_FIXTURE_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "rung/rung.h"
#include "expect_error.h"

#define VERTICES  60u
#define EDGES     300u
#define ROW_BYTES 12u

static char dir[256], out[300], partial[320], aside[330], features[300], edges[300], labels[300],
	train[300], valid[300];
static const char *specs[] = { edges };
static struct rung_stage_split splits[] = { { "train", train }, { "valid", valid } };
static struct rung_stage_opts opts;

static inline void setup(void)
{
	support_prefer_memory();
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	cr_assert_eq(support_sources(dir, VERTICES, EDGES, ROW_BYTES, 5), 0);
	snprintf(out, sizeof(out), "%s/ds", dir);
	snprintf(partial, sizeof(partial), "%s.partial", out);
	snprintf(aside, sizeof(aside), "%s.replaced.partial", out);
	snprintf(features, sizeof(features), "%s/features.npy", dir);
	snprintf(edges, sizeof(edges), "%s/edges.npy", dir);
	snprintf(labels, sizeof(labels), "%s/labels.npy", dir);
	snprintf(train, sizeof(train), "%s/train.npy", dir);
	snprintf(valid, sizeof(valid), "%s/valid.npy", dir);
	opts = (struct rung_stage_opts)RUNG_STAGE_OPTS_INIT;
	opts.graph.specs = specs;
	opts.graph.spec_count = 1;
	opts.features = features;
	opts.out_dir = out;
	opts.labels = labels;
	opts.splits = splits;
	opts.split_count = 2;
	opts.threads = 2;
	opts.score.batches_max = 2; /* tests run it hundreds of times */
}

static inline void teardown(void)
{
	support_remove(dir);
}

static inline bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static inline bool opens(const char *path)
{
	struct rung_dataset *ds = NULL;
	int rc = rung_dataset_open(path, &ds);

	rung_dataset_close(ds);
	return rc == 0;
}

/* The text of a manifest without its record of the inputs, so that the same data from other files
 * compares equal. */
static inline unsigned char *plain_manifest(const char *path, size_t *bytes_out)
{
	char *text = (char *)support_read_file(path, bytes_out), *plain = NULL;
	struct rung__manifest *m = NULL;

	cr_assert(text && rung__manifest_parse(path, text, *bytes_out, &m) == 0, "%s",
	          rung_last_error());
	rung__free(m->job);
	m->job = NULL;
	cr_assert_eq(rung__manifest_format(m, &plain), 0);
	*bytes_out = strlen(plain);
	free(text);
	text = strdup(plain);
	rung__free(plain);
	rung__manifest_destroy(m);
	return (unsigned char *)text;
}

static inline unsigned char *file_bytes(const char *folder, const char *name, size_t *bytes_out)
{
	char path[700];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return strcmp(name, "manifest.json") == 0 ? plain_manifest(path, bytes_out)
	                                          : support_read_file(path, bytes_out);
}

/* All files of the two datasets must have the same bytes. */
static inline void same_files(const char *one, const char *other)
{
	struct rung_dataset *ds = NULL;

	cr_assert_eq(rung_dataset_open(one, &ds), 0, "%s", rung_last_error());
	for (size_t i = 0; i < rung_dataset_info(ds)->file_count; i++) {
		const char *name = rung_dataset_file(ds, i)->name;
		size_t a_bytes = 0, b_bytes = 0;
		unsigned char *a = file_bytes(one, name, &a_bytes),
			      *b = file_bytes(other, name, &b_bytes);

		cr_assert(a && b && a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0, "%s/%s",
		          other, name);
		free(a);
		free(b);
	}
	rung_dataset_close(ds);
}

/* The folder must hold only the files of a dataset. */
static inline void no_leftovers(const char *folder)
{
	struct rung_dataset *ds = NULL;
	DIR *entries = opendir(folder);
	struct dirent *entry;
	size_t count = 0;

	cr_assert(entries != NULL);
	cr_assert_eq(rung_dataset_open(folder, &ds), 0, "%s", rung_last_error());
	while ((entry = readdir(entries)) != NULL)
		count += entry->d_name[0] != '.';
	cr_assert_eq(count, rung_dataset_info(ds)->file_count);
	cr_assert_not(exists(partial));
	closedir(entries);
	rung_dataset_close(ds);
}

static inline void fails(int status, const char *words)
{
	assert_error(rung_stage(&opts, NULL), status, words);
	cr_assert_not(exists(out));
	cr_assert_not(exists(partial));
}

#endif
