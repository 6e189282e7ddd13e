/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.json. The input is its text. The checksum is corrected, and a missing end is appended,
 * so that the input reaches the parser and does not just fail its checksum.
 */
#include <string.h>

#include "dataset/checksum.h"
#include "fuzz.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "dataset/state.h"
#include "rung/rung.h"

const size_t fuzz_bytes_max = 1 << 16;
const size_t fuzz_places_max = 150;

#define ZEROS "0000000000000000"

static char *with_checksum(const uint8_t *data, size_t bytes, size_t *bytes_out)
{
	static const char end[] = RUNG__MANIFEST_CHECKSUM_KEY ZEROS RUNG__MANIFEST_TAIL;
	const size_t end_bytes = sizeof(end) - 1, key_bytes = strlen(RUNG__MANIFEST_CHECKSUM_KEY);
	char digits[RUNG__CHECKSUM_DIGITS + 1], *text = malloc(bytes + end_bytes);
	bool has_end = bytes >= end_bytes &&
	               memcmp(data + bytes - end_bytes, end, key_bytes) == 0 &&
	               memcmp(data + bytes - strlen(RUNG__MANIFEST_TAIL), RUNG__MANIFEST_TAIL,
	                      strlen(RUNG__MANIFEST_TAIL)) == 0;

	FUZZ_CHECK(text);
	memcpy(text, data, bytes);
	bytes -= has_end ? end_bytes : 0;
	memcpy(text + bytes, end, end_bytes);
	*bytes_out = bytes + end_bytes;
	rung__checksum_text(rung__checksum(text, *bytes_out), digits);
	memcpy(text + bytes + key_bytes, digits, RUNG__CHECKSUM_DIGITS);
	return text;
}

/* A manifest that was read can be written, and the written text reads the same. */
static void check(struct rung__manifest *m)
{
	char *text, *again_text;
	struct rung__manifest *again;

	FUZZ_CHECK(rung__manifest_format(m, &text) == 0);
	FUZZ_CHECK(rung__manifest_parse("again", text, strlen(text), &again) == 0);
	FUZZ_CHECK(rung__manifest_format(again, &again_text) == 0);
	FUZZ_CHECK(strcmp(text, again_text) == 0);
	rung__manifest_destroy(again);
	rung__free(again_text);
	rung__free(text);
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	struct rung__manifest *m;
	size_t text_bytes;
	char *text;
	int rc;

	if (rung__manifest_parse("input", (const char *)data, bytes, &m) == 0)
		rung__manifest_destroy(m);
	text = with_checksum(data, bytes, &text_bytes);
	rc = rung__manifest_parse("input", text, text_bytes, &m);
	free(text);
	if (rc < 0)
		return rc;
	check(m);
	rung__manifest_destroy(m);
	return 0;
}
