/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of rows: an edge index [2,E] has two rows, each too long to be read at once. */
#include <string.h>

#include "file.h"
#include "internal.h"
#include "source_private.h"

int rung_source_read_bytes(const struct rung_source *src, uint64_t byte_first, uint64_t byte_count, void *buf)
{
	const uint64_t bytes = src->info.row_count * src->info.row_bytes;   /* checked against the file when it was opened */

	if (byte_first > bytes || byte_count > bytes - byte_first)
		return rung__fail(RUNG_E_INVAL, "%s: %" PRIu64 " bytes from byte %" PRIu64 " on asked for, it has %" PRIu64, src->spec, byte_count,
		                  byte_first, bytes);
	if (byte_count == 0)
		return 0;
	if (src->data) {
		memcpy(buf, src->data + src->data_offset + byte_first, (size_t)byte_count);
		return 0;
	}
	return rung__pread_all(src->fd, src->path, buf, byte_count, src->data_offset + byte_first);
}
