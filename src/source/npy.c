/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of .npy files: 6 bytes of magic, version, length, and a Python dict of descr,
 * fortran_order and shape as text. NumPy evaluates the dict as Python; this parser accepts these
 * three keys in any order and spacing, and nothing else, because files are untrusted. Every size is
 * compared with the file before it is used, so readers of the data need no further check.
 */
#include <stdio.h>
#include <string.h>

#include "file/file.h"
#include "base/base.h"
#include "source/npy.h"

#define MAGIC            "\x93NUMPY"
#define MAGIC_BYTES      6u
#define PREFIX_BYTES_MAX 12u /* magic, version, and a length of 2 bytes (version 1) or 4 */
#define DESCR_BYTES      32u /* kept bytes of a descr or key; all supported ones are shorter */

enum key { KEY_DESCR, KEY_FORTRAN, KEY_SHAPE, KEY_COUNT };
static const char *const key_names[KEY_COUNT] = { "descr", "fortran_order", "shape" };

/* The unread part of the dict. */
struct cursor {
	const char *name;  /* for messages */
	const char *start; /* first byte of the .npy, from which offsets in messages count */
	const char *at, *end;
	bool fortran; /* value of fortran_order */
};

bool rung__array_measure(struct rung_array_info *array, uint64_t *bytes_out)
{
	uint64_t row_bytes = rung_dtype_bytes(array->dtype), bytes;

	if (array->dim_count < 1 || array->dim_count > RUNG_DIMS_MAX || row_bytes == 0)
		return false;
	/* dimension 0 is the number of rows; the others are the shape of a row */
	for (unsigned i = 1; i < array->dim_count; i++) {
		if (!rung__mul(row_bytes, array->dims[i], &row_bytes))
			return false;
	}
	/* the factors are checked as well, because a factor of 0 makes the product 0, however large
	 * the other factor is */
	if (!rung__mul(row_bytes, array->dims[0], &bytes) || bytes > INT64_MAX ||
	    row_bytes > INT64_MAX || array->dims[0] > INT64_MAX)
		return false;
	array->row_count = array->dims[0];
	array->row_bytes = row_bytes;
	*bytes_out = bytes;
	return true;
}

bool rung__array_equal(const struct rung_array_info *a, const struct rung_array_info *b)
{
	return a->dtype == b->dtype && a->dim_count == b->dim_count &&
	       memcmp(a->dims, b->dims, a->dim_count * sizeof(a->dims[0])) == 0;
}

/* Fail with a problem at the current byte of the file. */
static int malformed(const struct cursor *c, const char *what)
{
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: malformed .npy header at byte %zu: %s; write the array again with "
	                  "numpy.save()",
	                  c->name, (size_t)(c->at - c->start), what);
}

/* White space that Python allows between tokens; numpy.save() pads the dict with it. */
static void skip_space(struct cursor *c)
{
	while (c->at < c->end &&
	       (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
		c->at++;
}

/* Consume the byte `wanted`, after white space. @return false if another byte follows, which is not
 * consumed */
static bool skip_char(struct cursor *c, char wanted)
{
	skip_space(c);
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

/* A quoted string without escapes. It is cut to DESCR_BYTES - 1, which matches no key and no dtype.
 * Unprintable bytes become '?', because messages quote the string. */
static int parse_string(struct cursor *c, char text[DESCR_BYTES])
{
	size_t len = 0;
	char quote;

	skip_space(c);
	if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
		return malformed(c, "a quoted string is missing");
	for (quote = *c->at++; c->at < c->end && *c->at != quote; c->at++) {
		if (*c->at == '\\' || *c->at == '\n')
			return malformed(c, "a string holds an escape or a line break");
		if (len < DESCR_BYTES - 1)
			text[len++] = *c->at >= ' ' && *c->at <= '~' ? *c->at : '?';
	}
	text[len] = '\0';
	if (c->at == c->end)
		return malformed(c, "a string does not end");
	c->at++;
	return 0;
}

/* Consume `word`, after white space. */
static bool parse_word(struct cursor *c, const char *word)
{
	size_t len = strlen(word);

	skip_space(c);
	if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
		return false;
	c->at += len;
	return true;
}

/* Python objects get a separate message: pickle would be needed to read them, and executes code. */
static int refuse_descr(const struct cursor *c, const char *descr)
{
	if (strchr(descr, 'O'))
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: dtype '%s' holds Python objects, not numbers; "
			"convert it with numpy.array(a.tolist(), dtype='<f4') and save it again",
			c->name, descr);
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: dtype '%s' is not supported, only bool, integers, f16, f32, f64 and "
	                  "2-byte void (as bf16); convert it, for example with a.astype('<f4')",
	                  c->name, descr);
}

/* The dtype of "<f4" and the like. The byte order may be absent, which means native. */
static int dtype_of_descr(const struct cursor *c, const char *descr, enum rung_dtype *dtype_out)
{
	static const char *const known[RUNG_DTYPE_COUNT] = {
#define DESCR_ROW(code, name, bytes, text) [code] = text,
		RUNG_DTYPE_LIST(DESCR_ROW)
#undef DESCR_ROW
	};
	/* if descr is empty, strchr() finds the NUL, which must not be skipped */
	char order = strchr("<>=|", descr[0]) ? descr[0] : '=';
	const char *type = descr[0] && strchr("<>=|", descr[0]) ? descr + 1 : descr;

	if (strcmp(type, "?") == 0) /* NumPy's other name for this type */
		type = "b1";
	for (int i = 1; i < RUNG_DTYPE_COUNT; i++) {
		if (strcmp(type, known[i] + 1) != 0) /* after the byte order */
			continue;
		if (order == '>' && rung_dtype_bytes((enum rung_dtype)i) > 1)
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: dtype '%s' is big-endian; convert it with "
			                  "a.astype('<%s') and save it again",
			                  c->name, descr, type);
		*dtype_out = (enum rung_dtype)i;
		return 0;
	}
	return refuse_descr(c, descr);
}

static int parse_descr(struct cursor *c, struct rung_array_info *array)
{
	char descr[DESCR_BYTES];
	int rc;

	skip_space(c);
	/* numpy.save() writes a list of fields, or a tuple for sub-arrays, instead of a string */
	if (c->at < c->end && (*c->at == '[' || *c->at == '('))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: a structured dtype (named fields or sub-arrays) is not "
		                  "supported; save one field: numpy.save(file, a['field'])",
		                  c->name);
	rc = parse_string(c, descr);
	return rc < 0 ? rc : dtype_of_descr(c, descr, &array->dtype);
}

int rung__npy_refuse_fortran(const char *name)
{
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: Fortran order (columns are contiguous, not rows) is not supported; "
	                  "convert it with numpy.ascontiguousarray(a) and save it again",
	                  name);
}

static int parse_fortran(struct cursor *c)
{
	c->fortran = parse_word(c, "True");
	if (c->fortran || parse_word(c, "False"))
		return 0;
	return malformed(c, "fortran_order is neither True nor False");
}

/* A decimal number. Python's other forms, such as 0x10 or 1_000, are never written. */
static int parse_dim(struct cursor *c, uint64_t *dim_out)
{
	uint64_t dim = 0;

	skip_space(c);
	if (c->at == c->end || *c->at < '0' || *c->at > '9')
		return malformed(c, "a dimension is not a number");
	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
		if (!rung__mul(dim, 10, &dim) || !rung__add(dim, (uint64_t)(*c->at - '0'), &dim))
			return malformed(c, "a dimension needs more than 64 bits");
	}
	if (c->at < c->end && *c->at == 'L') /* suffix of long integers in Python 2 */
		c->at++;
	*dim_out = dim;
	return 0;
}

/* A tuple of dimensions. In Python (3) is a number, and only (3,) is a tuple. */
static int parse_shape(struct cursor *c, struct rung_array_info *array)
{
	bool comma = true; /* the last token was a comma, or this is the first token */
	int rc;

	if (!skip_char(c, '('))
		return malformed(c, "shape is not a tuple");
	array->dim_count = 0;
	while (!skip_char(c, ')')) {
		if (!comma)
			return malformed(c, "a comma is missing in shape");
		if (array->dim_count == RUNG_DIMS_MAX)
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: more than %d dimensions are not supported; reshape "
			                  "it: a.reshape(len(a), -1)",
			                  c->name, RUNG_DIMS_MAX);
		rc = parse_dim(c, &array->dims[array->dim_count]);
		if (rc < 0)
			return rc;
		array->dim_count++;
		comma = skip_char(c, ',');
	}
	if (array->dim_count == 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: shape () is a single value; at least one dimension is "
		                  "needed; reshape it: a.reshape(1)",
		                  c->name);
	if (array->dim_count == 1 && !comma)
		return malformed(c, "a comma is missing in shape");
	return 0;
}

static int parse_value(struct cursor *c, enum key key, struct rung_array_info *array)
{
	switch (key) {
	case KEY_DESCR:
		return parse_descr(c, array);
	case KEY_FORTRAN:
		return parse_fortran(c);
	default:
		return parse_shape(c, array);
	}
}

/* Parse the whole dict. Each key may occur only once, because readers differ in which of two values
 * they use. */
static int parse_dict(struct cursor *c, struct rung_array_info *array)
{
	bool seen[KEY_COUNT] = { false }, comma = true;
	char text[DESCR_BYTES];
	int key, rc;

	if (!skip_char(c, '{'))
		return malformed(c, "a dict is missing");
	while (!skip_char(c, '}')) {
		if (!comma)
			return malformed(c, "a comma is missing");
		rc = parse_string(c, text);
		if (rc < 0)
			return rc;
		for (key = 0; key < KEY_COUNT && strcmp(text, key_names[key]) != 0; key++)
			;
		if (key == KEY_COUNT)
			return malformed(
				c, "unknown key; only descr, fortran_order and shape are allowed");
		if (seen[key])
			return malformed(c, "a key occurs twice");
		seen[key] = true;
		if (!skip_char(c, ':'))
			return malformed(c, "a colon is missing");
		rc = parse_value(c, (enum key)key, array);
		if (rc < 0)
			return rc;
		comma = skip_char(c, ',');
	}
	skip_space(c);
	if (c->at != c->end)
		return malformed(c, "text after the dict");
	/* NumPy also requires all three keys */
	for (key = 0; key < KEY_COUNT; key++) {
		if (!seen[key])
			return malformed(c, key == KEY_DESCR     ? "no descr"
			                    : key == KEY_FORTRAN ? "no fortran_order"
			                                         : "no shape");
	}
	return 0;
}

/* Find the positions of the dict and of the data. `bytes` is the size of the .npy. `head` has at
 * least its first PREFIX_BYTES_MAX bytes, or all of it if it is shorter. */
static int parse_prefix(const char *name, const unsigned char *head, uint64_t bytes,
                        uint64_t *dict_at, uint64_t *data_at)
{
	uint64_t len;
	unsigned major;

	if (bytes < MAGIC_BYTES || memcmp(head, MAGIC, MAGIC_BYTES) != 0)
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: not a .npy file: wrong magic at byte 0; write it with numpy.save(), "
			"or give a file without a header as raw:FILE,DTYPE,DIMxDIM",
			name);
	/* the shortest header has 12 bytes: the prefix of version 1 has 10, a dict at least 2 */
	if (bytes < PREFIX_BYTES_MAX)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: truncated: ends at byte %" PRIu64
		                  ", inside the .npy header; copy it again",
		                  name, bytes);
	major = head[6];
	if (major < 1 || major > 3 || head[7] != 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: .npy version %u.%u at byte 6 is not one of 1.0, 2.0, 3.0; "
		                  "write it again with numpy.save()",
		                  name, major, head[7]);
	/* version 3 differs from 2 only in that the dict is UTF-8 */
	len = (uint64_t)head[8] | (uint64_t)head[9] << 8;
	if (major > 1)
		len |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
	*dict_at = major == 1 ? 10 : 12;
	*data_at = *dict_at + len;
	if (len > RUNG__NPY_HEADER_BYTES_MAX)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the .npy header claims %" PRIu64
		                  " bytes, but at most %u are accepted; "
		                  "write it again with numpy.save()",
		                  name, len, RUNG__NPY_HEADER_BYTES_MAX);
	return 0;
}

int rung__npy_parse(const char *name, const void *head, uint64_t head_bytes, uint64_t file_bytes,
                    struct rung__npy *npy_out)
{
	struct rung__npy npy = { .data_offset = 0 };
	struct cursor c = { .name = name, .start = head };
	uint64_t dict_at = 0, data_bytes;
	int rc;

	rc = parse_prefix(name, head, RUNG__MIN(head_bytes, file_bytes), &dict_at,
	                  &npy.data_offset);
	if (rc < 0)
		return rc;
	/* head_bytes is smaller than the header only if the file ends inside the header */
	if (npy.data_offset > head_bytes || npy.data_offset > file_bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: truncated: the .npy header ends at byte %" PRIu64
		                  ", but the file ends at byte %" PRIu64 "; copy it again",
		                  name, npy.data_offset, file_bytes);
	c.at = c.start + dict_at;
	c.end = c.start + npy.data_offset;
	rc = parse_dict(&c, &npy.array);
	/* the transpose of more than two dimensions has no rows that callers could use */
	if (rc == 0 && c.fortran && npy.array.dim_count > 2)
		rc = rung__npy_refuse_fortran(name);
	if (rc < 0)
		return rc;
	/* both orders of a vector are the same; a matrix becomes its transpose in C order */
	npy.transposed = c.fortran && npy.array.dim_count == 2;
	if (npy.transposed) {
		uint64_t swap = npy.array.dims[0];

		npy.array.dims[0] = npy.array.dims[1];
		npy.array.dims[1] = swap;
	}
	if (!rung__array_measure(&npy.array, &data_bytes))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the array's size needs more than 63 bits: the .npy header "
		                  "is damaged; copy the file again",
		                  name);
	/* bytes after the data are allowed, as numpy.load() does */
	if (data_bytes > file_bytes - npy.data_offset)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: truncated: %" PRIu64 " bytes are missing at offset %" PRIu64
		                  " (the header announces %" PRIu64
		                  " bytes of data from offset %" PRIu64 " on); copy it again",
		                  name, data_bytes - (file_bytes - npy.data_offset), file_bytes,
		                  data_bytes, npy.data_offset);
	*npy_out = npy;
	return 0;
}

int rung__npy_read(int fd, const char *name, uint64_t base, uint64_t file_bytes,
                   struct rung__npy *npy_out)
{
	unsigned char prefix[PREFIX_BYTES_MAX] = { 0 };
	uint64_t dict_at = 0, data_at = 0, head_bytes;
	unsigned char *head;
	int rc;

	rc = rung__pread_all(fd, name, prefix, RUNG__MIN(file_bytes, PREFIX_BYTES_MAX), base);
	if (rc < 0)
		return rc;
	rc = parse_prefix(name, prefix, file_bytes, &dict_at, &data_at);
	if (rc < 0)
		return rc;
	/* at most 1 MiB plus the prefix; rung__npy_parse() reports a file that ends inside the
	 * header */
	head_bytes = RUNG__MIN(data_at, file_bytes);
	head = rung__malloc((size_t)head_bytes);
	if (!head)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory for a .npy header of %" PRIu64 " bytes", name,
		                  head_bytes);
	rc = rung__pread_all(fd, name, head, head_bytes, base);
	if (rc == 0)
		rc = rung__npy_parse(name, head, head_bytes, file_bytes, npy_out);
	rung__free(head);
	return rc;
}

void rung__npy_format(const struct rung_array_info *array,
                      unsigned char head_out[RUNG__NPY_DATA_OFFSET])
{
	static const char *const descrs[RUNG_DTYPE_COUNT] = {
#define DESCR_ROW(code, name, bytes, text) [code] = text,
		RUNG_DTYPE_LIST(DESCR_ROW)
#undef DESCR_ROW
	};
	/* length of the dict, which follows the prefix of 10 bytes */
	const unsigned len = RUNG__NPY_DATA_OFFSET - 10;
	char *text = (char *)head_out + 10;
	size_t used;

	memset(head_out, ' ', RUNG__NPY_DATA_OFFSET);
	memcpy(head_out, MAGIC "\x01\x00", 8);
	head_out[8] = (unsigned char)(len & 0xff);
	head_out[9] = (unsigned char)(len >> 8);
	/* at most 8 dimensions of 20 digits, which is far below a page: no call is cut */
	used = (size_t)snprintf(text, len, "{'descr': '%s', 'fortran_order': False, 'shape': (",
	                        descrs[array->dtype]);
	for (unsigned i = 0; i < array->dim_count; i++)
		used += (size_t)snprintf(text + used, len - used, "%s%" PRIu64, i ? ", " : "",
		                         array->dims[i]);
	used += (size_t)snprintf(text + used, len - used, "%s), }",
	                         array->dim_count == 1 ? "," : "");
	text[used] = ' '; /* replace the NUL that snprintf() wrote */
	/* the format requires a line feed as the last byte */
	head_out[RUNG__NPY_DATA_OFFSET - 1] = '\n';
}
