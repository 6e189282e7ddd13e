/* SPDX-License-Identifier: Apache-2.0 */
/* Dicts of torch.save(): the values that are read, and that no bytes break the reader. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "source/pickle.h"
#include "rung/status.h"
#include "expect_error.h"

/* pickle.dumps({'train': numpy.array([1, 200, -1]), 'n': 70000, 'none': numpy.array([], 'i8')},
 * 2) */
static const unsigned char sample[] = {
	0x80, 0x02, 0x7d, 0x71, 0x00, 0x28, 0x58, 0x05, 0x00, 0x00, 0x00, 0x74, 0x72, 0x61, 0x69,
	0x6e, 0x71, 0x01, 0x63, 0x6e, 0x75, 0x6d, 0x70, 0x79, 0x2e, 0x63, 0x6f, 0x72, 0x65, 0x2e,
	0x6d, 0x75, 0x6c, 0x74, 0x69, 0x61, 0x72, 0x72, 0x61, 0x79, 0x0a, 0x5f, 0x72, 0x65, 0x63,
	0x6f, 0x6e, 0x73, 0x74, 0x72, 0x75, 0x63, 0x74, 0x0a, 0x71, 0x02, 0x63, 0x6e, 0x75, 0x6d,
	0x70, 0x79, 0x0a, 0x6e, 0x64, 0x61, 0x72, 0x72, 0x61, 0x79, 0x0a, 0x71, 0x03, 0x4b, 0x00,
	0x85, 0x71, 0x04, 0x63, 0x5f, 0x63, 0x6f, 0x64, 0x65, 0x63, 0x73, 0x0a, 0x65, 0x6e, 0x63,
	0x6f, 0x64, 0x65, 0x0a, 0x71, 0x05, 0x58, 0x01, 0x00, 0x00, 0x00, 0x62, 0x71, 0x06, 0x58,
	0x06, 0x00, 0x00, 0x00, 0x6c, 0x61, 0x74, 0x69, 0x6e, 0x31, 0x71, 0x07, 0x86, 0x71, 0x08,
	0x52, 0x71, 0x09, 0x87, 0x71, 0x0a, 0x52, 0x71, 0x0b, 0x28, 0x4b, 0x01, 0x4b, 0x03, 0x85,
	0x71, 0x0c, 0x63, 0x6e, 0x75, 0x6d, 0x70, 0x79, 0x0a, 0x64, 0x74, 0x79, 0x70, 0x65, 0x0a,
	0x71, 0x0d, 0x58, 0x02, 0x00, 0x00, 0x00, 0x69, 0x38, 0x71, 0x0e, 0x89, 0x88, 0x87, 0x71,
	0x0f, 0x52, 0x71, 0x10, 0x28, 0x4b, 0x03, 0x58, 0x01, 0x00, 0x00, 0x00, 0x3c, 0x71, 0x11,
	0x4e, 0x4e, 0x4e, 0x4a, 0xff, 0xff, 0xff, 0xff, 0x4a, 0xff, 0xff, 0xff, 0xff, 0x4b, 0x00,
	0x74, 0x71, 0x12, 0x62, 0x89, 0x68, 0x05, 0x58, 0x21, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0xc3, 0x88, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc3,
	0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf,
	0x71, 0x13, 0x68, 0x07, 0x86, 0x71, 0x14, 0x52, 0x71, 0x15, 0x74, 0x71, 0x16, 0x62, 0x58,
	0x01, 0x00, 0x00, 0x00, 0x6e, 0x71, 0x17, 0x4a, 0x70, 0x11, 0x01, 0x00, 0x58, 0x04, 0x00,
	0x00, 0x00, 0x6e, 0x6f, 0x6e, 0x65, 0x71, 0x18, 0x68, 0x02, 0x68, 0x03, 0x68, 0x04, 0x68,
	0x09, 0x87, 0x71, 0x19, 0x52, 0x71, 0x1a, 0x28, 0x4b, 0x01, 0x4b, 0x00, 0x85, 0x71, 0x1b,
	0x68, 0x10, 0x89, 0x63, 0x5f, 0x5f, 0x62, 0x75, 0x69, 0x6c, 0x74, 0x69, 0x6e, 0x5f, 0x5f,
	0x0a, 0x62, 0x79, 0x74, 0x65, 0x73, 0x0a, 0x71, 0x1c, 0x29, 0x52, 0x71, 0x1d, 0x74, 0x71,
	0x1e, 0x62, 0x75, 0x2e,
};

/* Reads an exact copy, so that a sanitizer detects reads past the end. */
static int read_copy(const unsigned char *bytes, size_t count, struct rung__pickle_dict *dict,
                     unsigned char **copy_out)
{
	*copy_out = malloc(count ? count : 1);
	memcpy(*copy_out, bytes, count);
	return rung__pickle_read("a.pt", *copy_out, count, dict);
}

Test(pickle, integers_and_arrays_of_a_dict_are_read)
{
	struct rung__pickle_dict *dict = malloc(sizeof(*dict));
	unsigned char *copy;
	int64_t ids[3];

	cr_assert_eq(read_copy(sample, sizeof(sample), dict, &copy), 0, "%s", rung_last_error());
	cr_assert_eq(dict->count, 3);
	cr_assert_str_eq(dict->items[0].key, "train");
	cr_assert(dict->items[0].is_array);
	cr_assert_eq(dict->items[0].dtype, RUNG_I64);
	cr_assert_eq(dict->items[0].count, 3);
	cr_assert_eq(rung__pickle_array("a.pt", &dict->items[0], (unsigned char *)ids), 0, "%s",
	             rung_last_error());
	cr_assert_eq(ids[0], 1);
	cr_assert_eq(ids[1], 200);
	cr_assert_eq(ids[2], -1);
	cr_assert_str_eq(dict->items[1].key, "n");
	cr_assert_not(dict->items[1].is_array);
	cr_assert_eq(dict->items[1].number, 70000);
	cr_assert_eq(dict->items[2].count, 0);
	cr_assert_eq(rung__pickle_array("a.pt", &dict->items[2], (unsigned char *)ids), 0, "%s",
	             rung_last_error());
	free(copy);
	free(dict);
}

/* Reads the dict, and those of its arrays that fit into a buffer. No input may cause a crash,
 * whatever the result. */
static int read_all(const unsigned char *bytes, size_t count, struct rung__pickle_dict *dict)
{
	unsigned char data[256], *copy;
	int rc = read_copy(bytes, count, dict, &copy);

	for (uint32_t i = 0; rc == 0 && i < dict->count; i++) {
		if (dict->items[i].is_array && dict->items[i].count <= sizeof(data) / 8)
			rung__pickle_array("a.pt", &dict->items[i], data);
	}
	free(copy);
	return rc;
}

Test(pickle, no_damage_breaks_the_reader)
{
	struct rung__pickle_dict *dict = malloc(sizeof(*dict));
	unsigned char bytes[sizeof(sample)];

	for (size_t end = 0; end < sizeof(sample); end++)
		cr_assert_eq(read_all(sample, end, dict), RUNG_E_FORMAT, "%zu bytes", end);
	for (size_t at = 0; at < sizeof(sample); at++) {
		for (unsigned value = 0; value < 256; value += 1 + (value % 3) * 2) {
			memcpy(bytes, sample, sizeof(sample));
			bytes[at] = (unsigned char)(sample[at] ^ value);
			read_all(bytes, sizeof(bytes), dict);
		}
	}
	/* missing bytes: opcodes without their operands */
	for (size_t at = 0; at < sizeof(sample); at++) {
		memcpy(bytes, sample, at);
		memcpy(bytes + at, sample + at + 1, sizeof(sample) - at - 1);
		read_all(bytes, sizeof(sample) - 1, dict);
	}
	free(dict);
}

static void refused(const char *bytes, size_t count, const char *words)
{
	struct rung__pickle_dict *dict = malloc(sizeof(*dict));
	unsigned char *copy;

	assert_error(read_copy((const unsigned char *)bytes, count, dict, &copy), RUNG_E_FORMAT,
	             words);
	free(copy);
	free(dict);
}

#define REFUSED(bytes, words) refused(bytes, sizeof(bytes) - 1, words)

Test(pickle, anything_but_a_dict_of_arrays_is_rejected_with_the_reason)
{
	REFUSED("", "not a pickle of protocol 2");
	REFUSED("\x80\x03}.", "not a pickle of protocol 2");
	REFUSED("\x80\x02K\x01.", "is not a dict");
	REFUSED("\x80\x02}}.", "second dict");
	REFUSED("\x80\x02}(K\x01K\x02u.", "not a short text");
	REFUSED("\x80\x02}X\x01\x00\x00\x00"
	        "aNs.",
	        "neither integer nor array");
	REFUSED("\x80\x02}(X\x01\x00\x00\x00"
	        "au.",
	        "not a dict");
	REFUSED("\x80\x02}(X\x01\x00\x00\x00"
	        "aK\x01X\x01\x00\x00\x00"
	        "aK\x01u.",
	        "twice");
	REFUSED("\x80\x02}X\x01\x00\x00\x00\x1bK\x01s.", "ASCII");
	REFUSED("\x80\x02}X\xff\xff\xff\xff"
	        "a",
	        "the file ends");
	REFUSED("\x80\x02\x86", "a tuple of missing values");
	REFUSED("\x80\x02t", "no mark");
	REFUSED("\x80\x02}q\x05h\x06", "memo entry that was not written");
	REFUSED("\x80\x02}r\xff\xff\xff\xff", "memo index out of range");
	REFUSED("\x80\x02\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01", "more than 64 bits");
	REFUSED("\x80\x02"
	        "cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.",
	        "class or function");
	REFUSED("\x80\x02"
	        "cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R.",
	        "not an integer");
	REFUSED("\x80\x02"
	        "cnumpy\nndarray\n)R.",
	        "not a function");
	REFUSED("\x80\x02K\x01N"
	        "b.",
	        "accepts none");
	REFUSED("\x80\x02\x80", "an instruction");
}

Test(pickle, values_tuples_and_arrays_are_limited)
{
	static const char array[] = "h\x01h\x02\x85R";
	struct rung__pickle_dict *dict = malloc(sizeof(*dict));
	unsigned char *bytes = malloc(20000), *at;

	memcpy(bytes, "\x80\x02", 2);
	memset(bytes + 2, 'N', 1025);
	cr_assert_eq(rung__pickle_read("a.pt", bytes, 1027, dict), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "too many values"));
	at = bytes + 2;
	for (int i = 0; i < 4097; i++, at += 2)
		memcpy(at, i ? "\x85\x85" : "N\x85", 2);
	cr_assert_eq(rung__pickle_read("a.pt", bytes, (uint64_t)(at - bytes), dict), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "too many tuples"));
	at = bytes + 2;
	at = (unsigned char *)stpcpy((char *)at, "cnumpy.core.multiarray\n_reconstruct\nq\x01"
	                                         "cnumpy\nndarray\nq\x02");
	for (int i = 0; i < 65; i++, at += sizeof(array) - 1)
		memcpy(at, array, sizeof(array) - 1);
	cr_assert_eq(rung__pickle_read("a.pt", bytes, (uint64_t)(at - bytes), dict), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "too many arrays"), "%s", rung_last_error());
	free(bytes);
	free(dict);
}

Test(pickle, too_few_too_many_and_non_latin1_bytes_are_rejected)
{
	struct rung__pickle_item item = {
		.key = "a", .is_array = true, .dtype = RUNG_U8, .count = 3
	};
	static const char *const texts[] = { "ab",         "abcd",       "ab\xc3",
		                             "ab\xc4\x80", "ab\xc3\x28", "a\xffz" };
	unsigned char data[3];

	for (size_t i = 0; i < RUNG__ARRAY_LEN(texts); i++) {
		item.text = (const unsigned char *)texts[i];
		item.text_bytes = strlen(texts[i]);
		cr_assert_eq(rung__pickle_array("a.pt", &item, data), RUNG_E_FORMAT, "%zu", i);
	}
	item.text = (const unsigned char *)"a\xc3\xbf\xc2\x80";
	item.text_bytes = 5;
	cr_assert_eq(rung__pickle_array("a.pt", &item, data), 0);
	cr_assert(data[0] == 'a' && data[1] == 0xff && data[2] == 0x80);
}
