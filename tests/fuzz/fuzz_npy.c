/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of .npy files. The input is a file. */
#include <string.h>

#include "fuzz.h"
#include "source/npy.h"
#include "source/source.h"
#include "rung/rung.h"

const size_t fuzz_bytes_max = 1 << 16;
const size_t fuzz_places_max = 150;

/* The array of an accepted header is inside the file, and reads the same once rung has written
 * it. */
static void check(const struct rung__npy *npy, size_t bytes)
{
	unsigned char head[RUNG__NPY_DATA_OFFSET];
	struct rung__npy again;
	uint64_t data_bytes = 0;
	struct rung_array_info array = npy->array;

	FUZZ_CHECK(npy->data_offset <= bytes && rung__array_measure(&array, &data_bytes));
	FUZZ_CHECK(data_bytes <= bytes - npy->data_offset &&
	           array.row_count * array.row_bytes == data_bytes);
	FUZZ_CHECK(array.row_count == npy->array.row_count &&
	           array.row_bytes == npy->array.row_bytes);
	rung__npy_format(&array, head);
	FUZZ_CHECK(rung__npy_parse("again", head, sizeof(head), sizeof(head) + data_bytes,
	                           &again) == 0);
	FUZZ_CHECK(rung__array_equal(&array, &again.array) && again.data_offset == sizeof(head) &&
	           !again.transposed);
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	struct rung__npy npy, read;
	struct rung_source *src;
	int rc = rung__npy_parse("input.npy", data, bytes, bytes, &npy);
	int opened, transposed = 0;

	if (rc == 0)
		check(&npy, bytes);
	FUZZ_CHECK(rung__npy_parse("input.npy", data, bytes / 2, bytes, &read) < 0 ||
	           npy.data_offset <= bytes / 2);
	opened = rung__source_open_either_order(fuzz_file(0, "input.npy", data, bytes), &transposed,
	                                        &src);
	FUZZ_CHECK((opened == 0) == (rc == 0));
	if (opened < 0)
		return opened;
	FUZZ_CHECK(transposed == npy.transposed &&
	           rung__array_equal(rung_source_info(src), &npy.array));
	rung_source_close(src);
	return 0;
}
