/* SPDX-License-Identifier: Apache-2.0 */
/** A folder for files, and a check that sources do not open, for the tests of sources. */
#ifndef SUPPORT_SOURCE_FIXTURE_H
#define SUPPORT_SOURCE_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>

#include "dataset.h"
#include "rung/rung.h"
#include "expect_error.h"

static char dir[256], path[512];

static inline void setup(void)
{
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
}

static inline void teardown(void)
{
	support_remove(dir);
}

/* Returns `path`, which the next call overwrites. */
static inline const char *file_at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static inline void fails(const char *what, int status, const char *words)
{
	struct rung_source *src = NULL;

	assert_error(rung_source_open(what, &src), status, words);
	cr_assert_null(src);
}

#endif
