/* SPDX-License-Identifier: Apache-2.0 */
/* Staged folders whose files are symbolic links. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset.h"
#include "rung/rung.h"
#include "expect_error.h"

static char dir[256], ds_dir[300], path[512];

static void setup(void)
{
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	snprintf(ds_dir, sizeof(ds_dir), "%s/ds", dir);
	cr_assert_eq(support_dataset(dir, 500, 3000, 24, 3), 0, "%s", rung_last_error());
}

static void teardown(void)
{
	support_remove(dir);
}

TestSuite(dataset_links, .init = setup, .fini = teardown);

static const char *file_at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", ds_dir, name);
	return path;
}

static void fails(int status, const char *words)
{
	struct rung_dataset *ds = NULL;

	assert_error(rung_dataset_open(ds_dir, &ds), status, words);
	cr_assert_null(ds);
}

static struct rung_dataset *opened(void)
{
	struct rung_dataset *ds = NULL;

	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0, "%s", rung_last_error());
	return ds;
}

/* As in the caches of data sets, whose files are links to blobs. */
Test(dataset_links, they_are_followed_if_all_have_one_owner)
{
	struct rung_dataset *ds = opened();
	char blobs[400], blob[500];
	size_t count = rung_dataset_info(ds)->file_count;

	snprintf(blobs, sizeof(blobs), "%s/blobs", dir);
	cr_assert_eq(mkdir(blobs, 0777), 0);
	for (size_t i = 0; i < count; i++) {
		snprintf(blob, sizeof(blob), "%s/%zu", blobs, i);
		cr_assert_eq(rename(file_at(rung_dataset_file(ds, i)->name), blob), 0);
		snprintf(blob, sizeof(blob), "../blobs/%zu", i);
		cr_assert_eq(symlink(blob, path), 0);
	}
	rung_dataset_close(opened());
	if (geteuid() != 0)
		cr_skip_test("only root can give a file to another owner");
	for (size_t i = 0; i < count; i++) {
		const char *name = rung_dataset_file(ds, i)->name;
		const int status =
			strcmp(name, "manifest.json") == 0 ? RUNG_E_CORRUPT : RUNG_E_FORMAT;

		if (strncmp(name, "features.", strlen("features.")) == 0)
			continue;
		file_at(name);
		for (int flags = 0; flags <= AT_SYMLINK_NOFOLLOW; flags += AT_SYMLINK_NOFOLLOW) {
			cr_assert_eq(fchownat(AT_FDCWD, path, 1, (gid_t)-1, flags), 0);
			fails(status, "differ in their owner; replace it with a copy of the file");
			cr_assert_eq(fchownat(AT_FDCWD, path, 0, (gid_t)-1, flags), 0);
		}
	}
	cr_assert_eq(chown(ds_dir, 1, (gid_t)-1), 0);
	fails(RUNG_E_CORRUPT, "differ in their owner");
	rung_dataset_close(ds);
}
