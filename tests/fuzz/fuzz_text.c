/* SPDX-License-Identifier: Apache-2.0 */
/* Ids in lines of text, compressed if the input begins like a gzip file. Accepted ids must match
 * strtoll() on the lines. */
#include <string.h>

#include "fuzz.h"
#include "rung/rung.h"

const size_t fuzz_bytes_max = 1 << 14;
const size_t fuzz_places_max = 200;

/* Only for text that is not compressed. */
static void compare(const struct rung_source *src, const uint8_t *data, size_t bytes)
{
	const uint64_t count = rung_source_info(src)->row_count;
	int64_t *ids = malloc(count * sizeof(*ids) + 1);
	char *text = malloc(bytes + 1), *at = text;

	FUZZ_CHECK(ids && text && rung_source_read(src, 0, count, ids) == 0);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	for (uint64_t i = 0; i < count; i++) {
		FUZZ_CHECK(*at >= '0' && *at <= '9' && strtoll(at, &at, 10) == ids[i]);
		at += strspn(at, "\r\n");
	}
	FUZZ_CHECK(at == text + bytes);
	free(text);
	free(ids);
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	const int packed = bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b;
	const char *path = fuzz_file(0, packed ? "a.csv.gz" : "a.csv", data, bytes);
	struct rung_source *src;
	int rc = rung_source_open(path, &src);

	if (rc < 0)
		return rc;
	if (!packed)
		compare(src, data, bytes);
	rung_source_close(src);
	return 0;
}
