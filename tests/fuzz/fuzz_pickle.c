/* SPDX-License-Identifier: Apache-2.0 */
/* Dicts of arrays as torch.save() pickles them. An accepted dict has printable keys, and each of
 * its arrays is read in full or not at all. */
#include <string.h>

#include "fuzz.h"
#include "source/pickle.h"
#include "rung/rung.h"

const size_t fuzz_bytes_max = 1 << 14;
const size_t fuzz_places_max = 400;

static int read_item(const struct rung__pickle_item *item)
{
	const uint64_t item_bytes = rung_dtype_bytes(item->dtype);
	unsigned char *data;
	int rc;

	if (item->count > item->text_bytes / item_bytes)
		return RUNG_E_FORMAT;
	data = malloc(item->count * item_bytes + 1);
	FUZZ_CHECK(data);
	rc = rung__pickle_array("input", item, data);
	free(data);
	return rc;
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	static struct rung__pickle_dict dict;
	int rc = rung__pickle_read("input", data, bytes, &dict);

	for (uint32_t i = 0; rc == 0 && i < dict.count; i++) {
		const struct rung__pickle_item *item = &dict.items[i];

		FUZZ_CHECK(item->key[0] && strlen(item->key) < RUNG__PICKLE_KEY_BYTES);
		for (const char *c = item->key; *c; c++)
			FUZZ_CHECK(*c > ' ' && *c <= '~');
		if (item->is_array) {
			FUZZ_CHECK(item->text >= data &&
			           item->text_bytes <= (uint64_t)(data + bytes - item->text));
			read_item(item);
		}
	}
	return rc;
}
