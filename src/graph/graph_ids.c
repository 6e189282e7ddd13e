/* SPDX-License-Identifier: Apache-2.0 */
/* Reading integers of files as vertex ids and offsets: opening sources of them, with messages that
 * explain how to convert an array of another type or shape, and reading ranges. */
#include "graph/graph_ids.h"
#include "source/source.h"

#include <stdio.h>

const char *rung__ids_text(char text[RUNG__ID_TEXT_BYTES], enum rung_dtype dtype, uint64_t value)
{
	if (dtype == RUNG_I32 || dtype == RUNG_I64)
		snprintf(text, RUNG__ID_TEXT_BYTES, "%" PRId64, (int64_t)value);
	else
		snprintf(text, RUNG__ID_TEXT_BYTES, "%" PRIu64, value);
	return text;
}

/* Check the type and number of dimensions. `src` is closed if they are not acceptable. */
static int check(const char *spec, const char *what, unsigned dim_count, struct rung_source *src)
{
	const struct rung_array_info *info = rung_source_info(src);
	int rc = 0;

	if (!rung__ids_dtype_ok(info->dtype))
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: %s has dtype %s; it must be i32, i64, u32 or u64: convert it "
		                "with .astype('int64')",
		                spec, what, rung_dtype_name(info->dtype));
	else if (info->dim_count != dim_count)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: %s has %u dimensions; it must have %u: reshape it", spec, what,
		                info->dim_count, dim_count);
	if (rc < 0)
		rung_source_close(src);
	return rc;
}

int rung__ids_open(const char *spec, const char *what, unsigned dim_count,
                   struct rung_source **src_out)
{
	struct rung_source *src;
	int rc = rung_source_open(spec, &src);

	if (rc == 0)
		rc = check(spec, what, dim_count, src);
	if (rc == 0)
		*src_out = src;
	return rc;
}

int rung__ids_open_matrix(const char *spec, const char *what, int *transposed_out,
                          struct rung_source **src_out)
{
	struct rung_source *src;
	int rc = rung__source_open_either_order(spec, transposed_out, &src);

	if (rc == 0)
		rc = check(spec, what, 2, src);
	if (rc == 0)
		*src_out = src;
	return rc;
}

int rung__ids_read(const struct rung_source *src, uint64_t first, uint64_t count, void *raw)
{
	const size_t bytes = rung_dtype_bytes(rung_source_info(src)->dtype);

	return count ? rung__source_read_bytes(src, first * bytes, count * bytes, raw) : 0;
}
