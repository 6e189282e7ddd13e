/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, and the width of ids. The table follows the public list RUNG_DTYPE_LIST. */
#include <string.h>

#include "base/base.h"
#include "rung/dtype.h"
#include "rung/graph.h"

static const struct {
	const char *name;
	size_t bytes;
} dtypes[RUNG_DTYPE_COUNT] = { [RUNG_DTYPE_NONE] = { "none", 0 },
#define DTYPE_ROW(code, name, bytes, descr) [code] = { name, bytes },
	                       RUNG_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

size_t rung_dtype_bytes(enum rung_dtype dtype)
{
	/* callers may pass any value: the cast makes negative ones large */
	return (unsigned)dtype < RUNG_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *rung_dtype_name(enum rung_dtype dtype)
{
	return (unsigned)dtype < RUNG_DTYPE_COUNT ? dtypes[dtype].name : dtypes[0].name;
}

enum rung_dtype rung__dtype_parse(const char *name)
{
	/* from 1: entry 0 is "none", which is not the name of a type */
	for (int i = 1; i < RUNG_DTYPE_COUNT; i++) {
		if (strcmp(name, dtypes[i].name) == 0)
			return (enum rung_dtype)i;
	}
	return RUNG_DTYPE_NONE;
}

unsigned rung_index_bytes(uint64_t vertex_count)
{
	/* 2^32 vertices still fit: the largest id is vertex_count - 1 */
	return vertex_count <= UINT64_C(1) << 32 ? 4 : 8;
}
