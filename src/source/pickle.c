/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine with a stack and a memo, as pickle defines it, for the 26 instructions that occur in a
 * dict of integers and arrays. Values are small and have no pointers into the file except spans;
 * tuples, the only nested values, are in a pool of fixed size.
 *
 * An array is written as _reconstruct(ndarray, (0,), b'b') and then gets its state, (1, (count,),
 * dtype, False, bytes), where bytes is _codecs.encode(text, 'latin1'), or bytes() for an empty
 * array, and the dtype is dtype('i8', False, True) with a state that begins (3, '<'.
 */
#include "source/pickle.h"

#include <string.h>

#include "base/base.h"

#define STACK_MAX 1024u
#define MEMO_MAX  4096u
#define POOL_MAX  4096u

enum value_kind {
	NOTHING,
	MARK,
	NONE,
	BOOLEAN,
	NUMBER,
	TEXT,
	GLOBAL,
	BYTES,
	TUPLE,
	DICT,
	DTYPE,
	ARRAY
};

enum global { RECONSTRUCT, NDARRAY, NUMPY_DTYPE, ENCODE, EMPTY_BYTES };

struct value {
	enum value_kind kind;
	/* NUMBER; GLOBAL: which; DTYPE: which; ARRAY: its place in arrays; TUPLE: its first in the
	 * pool */
	int64_t number;
	const unsigned char *text; /* TEXT, BYTES */
	uint64_t length;           /* of it; TUPLE: entries */
};

struct array {
	bool built;
	enum rung_dtype dtype;
	uint64_t count;
	const unsigned char *text;
	uint64_t text_bytes;
};

struct machine {
	const char *name;
	const unsigned char *start, *at, *end;
	struct value stack[STACK_MAX], memo[MEMO_MAX], pool[POOL_MAX];
	uint32_t depth, pooled;
	struct array arrays[RUNG__PICKLE_ITEMS_MAX];
	uint32_t array_count;
	bool has_dict;
	struct rung__pickle_dict *dict;
};

static int refuse(const struct machine *m, const char *what)
{
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: byte %zu of its pickle: %s; a dict of integers and 1-D integer "
	                  "NumPy arrays is needed; save it so with "
	                  "torch, see rung(1)",
	                  m->name, (size_t)(m->at - m->start), what);
}

/* ---- stack ---- */

static int push(struct machine *m, struct value value)
{
	if (m->depth == STACK_MAX)
		return refuse(m, "too many values");
	m->stack[m->depth++] = value;
	return 0;
}

/* The value `down` positions below the top; kind NOTHING if there is none. */
static struct value top(const struct machine *m, uint32_t down)
{
	return m->depth > down ? m->stack[m->depth - 1 - down] : (struct value){ .kind = NOTHING };
}

/* Put the upmost `count` values into a tuple, and that in their place and in that of `below` marks
 * under them. */
static int make_tuple(struct machine *m, uint32_t count, uint32_t marks)
{
	struct value tuple = { .kind = TUPLE, .number = m->pooled, .length = count };

	if (m->depth < count + marks)
		return refuse(m, "a tuple of values that are not there");
	if (POOL_MAX - m->pooled < count)
		return refuse(m, "too many tuples");
	memcpy(m->pool + m->pooled, m->stack + m->depth - count, count * sizeof(*m->pool));
	m->pooled += count;
	m->depth -= count + marks;
	return push(m, tuple);
}

/* The number of values above the topmost mark; false without a mark. */
static bool above_mark(const struct machine *m, uint32_t *count_out)
{
	for (uint32_t i = 0; i < m->depth; i++) {
		if (top(m, i).kind == MARK) {
			*count_out = i;
			return true;
		}
	}
	return false;
}

static struct value entry(const struct machine *m, struct value tuple, uint64_t i)
{
	return tuple.kind == TUPLE && i < tuple.length ? m->pool[(uint64_t)tuple.number + i]
	                                               : (struct value){ .kind = NOTHING };
}

static bool is_text(struct value value, const char *text)
{
	return value.kind == TEXT && value.length == strlen(text) &&
	       memcmp(value.text, text, value.length) == 0;
}

static bool is_global(struct value value, enum global which)
{
	return value.kind == GLOBAL && value.number == (int64_t)which;
}

/* ---- reading the file ---- */

static bool take(struct machine *m, unsigned bytes, uint64_t *value_out)
{
	uint64_t value = 0;

	if ((uint64_t)(m->end - m->at) < bytes)
		return false;
	for (unsigned i = bytes; i-- > 0;)
		value = value << 8 | m->at[i];
	m->at += bytes;
	*value_out = value;
	return true;
}

static int push_number(struct machine *m, unsigned bytes, bool has_sign)
{
	uint64_t value = 0;

	if (!take(m, bytes, &value))
		return refuse(m, "the file ends");
	if (has_sign && bytes < 8 && bytes > 0 && value >> (8 * bytes - 1))
		value |= UINT64_MAX << (8 * bytes);
	return push(m, (struct value){ .kind = NUMBER, .number = (int64_t)value });
}

static int push_long(struct machine *m)
{
	uint64_t bytes;

	if (!take(m, 1, &bytes))
		return refuse(m, "the file ends");
	return bytes > 8 ? refuse(m, "an integer of more than 64 bits")
	                 : push_number(m, (unsigned)bytes, true);
}

static int push_text(struct machine *m)
{
	uint64_t length;
	struct value text = { .kind = TEXT };

	if (!take(m, 4, &length) || length > (uint64_t)(m->end - m->at))
		return refuse(m, "the file ends");
	text.text = m->at;
	text.length = length;
	m->at += length;
	return push(m, text);
}

/* "module\nname\n" */
static int push_global(struct machine *m)
{
	static const struct {
		const char *text;
		enum global which;
	} known[] = {
		{ "numpy.core.multiarray\n_reconstruct\n", RECONSTRUCT },
		{ "numpy._core.multiarray\n_reconstruct\n", RECONSTRUCT },
		{ "numpy\nndarray\n", NDARRAY },
		{ "numpy\ndtype\n", NUMPY_DTYPE },
		{ "_codecs\nencode\n", ENCODE },
		{ "__builtin__\nbytes\n", EMPTY_BYTES },
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(known); i++) {
		const size_t length = strlen(known[i].text);

		if ((size_t)(m->end - m->at) < length || memcmp(m->at, known[i].text, length) != 0)
			continue;
		m->at += length;
		return push(m, (struct value){ .kind = GLOBAL, .number = (int64_t)known[i].which });
	}
	return refuse(m, "a class or function that is not used by integer arrays");
}

static int store(struct machine *m, unsigned bytes)
{
	uint64_t idx;

	if (!take(m, bytes, &idx) || idx >= MEMO_MAX || m->depth == 0 || top(m, 0).kind == MARK)
		return refuse(m, "memo index out of range");
	m->memo[idx] = top(m, 0);
	return 0;
}

static int fetch(struct machine *m, unsigned bytes)
{
	uint64_t idx;

	if (!take(m, bytes, &idx) || idx >= MEMO_MAX || m->memo[idx].kind == NOTHING)
		return refuse(m, "a value to remember that there was not");
	return push(m, m->memo[idx]);
}

/* ---- building values ---- */

static int make_dtype(struct machine *m, struct value args, struct value *out)
{
	static const struct {
		const char *text;
		enum rung_dtype dtype;
	} known[] = {
		{ "i1", RUNG_I8 }, { "i2", RUNG_I16 }, { "i4", RUNG_I32 }, { "i8", RUNG_I64 },
		{ "u1", RUNG_U8 }, { "u2", RUNG_U16 }, { "u4", RUNG_U32 }, { "u8", RUNG_U64 }
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(known); i++) {
		if (is_text(entry(m, args, 0), known[i].text)) {
			*out = (struct value){ .kind = DTYPE, .number = (int64_t)known[i].dtype };
			return 0;
		}
	}
	return refuse(m, "a dtype that is not an integer");
}

static int make_array(struct machine *m, struct value args, struct value *out)
{
	if (!is_global(entry(m, args, 0), NDARRAY))
		return refuse(m, "an array of another class");
	if (m->array_count == RUNG__PICKLE_ITEMS_MAX)
		return refuse(m, "too many arrays");
	m->arrays[m->array_count] = (struct array){ .built = false };
	*out = (struct value){ .kind = ARRAY, .number = m->array_count++ };
	return 0;
}

static int make_bytes(struct machine *m, struct value args, struct value *out)
{
	*out = entry(m, args, 0);
	if (out->kind != TEXT || !is_text(entry(m, args, 1), "latin1"))
		return refuse(m, "bytes that are not latin1");
	out->kind = BYTES;
	return 0;
}

static int reduce(struct machine *m)
{
	const struct value function = top(m, 1), args = top(m, 0);
	struct value result = { .kind = NOTHING };
	int rc = 0;

	if (function.kind != GLOBAL || args.kind != TUPLE)
		return refuse(m, "a call of something that is not a function");
	if (function.number == RECONSTRUCT)
		rc = make_array(m, args, &result);
	else if (function.number == NUMPY_DTYPE)
		rc = make_dtype(m, args, &result);
	else if (function.number == ENCODE)
		rc = make_bytes(m, args, &result);
	else if (function.number == EMPTY_BYTES && args.length == 0)
		result = (struct value){ .kind = BYTES, .text = m->at };
	else
		rc = refuse(m, "a call of something that is not a function");
	if (rc < 0)
		return rc;
	m->depth -= 2;
	return push(m, result);
}

static int build_array(struct machine *m, struct array *array, struct value state)
{
	const struct value shape = entry(m, state, 1), dtype = entry(m, state, 2),
			   bytes = entry(m, state, 4);
	const struct value count = entry(m, shape, 0);

	if (array->built || shape.kind != TUPLE || shape.length != 1 || count.kind != NUMBER ||
	    count.number < 0)
		return refuse(m, "an array with another number of dimensions than one");
	if (dtype.kind != DTYPE || bytes.kind != BYTES)
		return refuse(m, "an array without its bytes");
	*array = (struct array){ .built = true,
		                 .dtype = (enum rung_dtype)dtype.number,
		                 .count = (uint64_t)count.number,
		                 .text = bytes.text,
		                 .text_bytes = bytes.length };
	return 0;
}

static int build(struct machine *m)
{
	const struct value object = top(m, 1), state = top(m, 0);
	int rc = 0;

	if (object.kind == DTYPE && !is_text(entry(m, state, 1), "<") &&
	    !is_text(entry(m, state, 1), "|"))
		return refuse(m, "a dtype that is not little-endian");
	if (object.kind == ARRAY)
		rc = build_array(m, &m->arrays[object.number], state);
	else if (object.kind != DTYPE)
		return refuse(m, "a state for a value that has none");
	m->depth--;
	return rc;
}

static int add_item(struct machine *m, struct value key, struct value value)
{
	struct rung__pickle_item *item = &m->dict->items[m->dict->count];

	if (m->dict->count == RUNG__PICKLE_ITEMS_MAX)
		return refuse(m, "too many entries in the dict");
	if (key.kind != TEXT || key.length == 0 || key.length >= RUNG__PICKLE_KEY_BYTES)
		return refuse(m, "a key that is not a short text");
	for (uint64_t i = 0; i < key.length; i++) {
		if (key.text[i] <= ' ' || key.text[i] > '~')
			return refuse(m, "a key with other characters than ASCII has");
	}
	if (value.kind != NUMBER && (value.kind != ARRAY || !m->arrays[value.number].built))
		return refuse(m, "a value that is neither integer nor array");
	*item = (struct rung__pickle_item){ .is_array = value.kind == ARRAY,
		                            .number = value.number };
	memcpy(item->key, key.text, key.length);
	for (uint32_t i = 0; i < m->dict->count; i++) {
		if (strcmp(m->dict->items[i].key, item->key) == 0)
			return refuse(m, "a key that is there twice");
	}
	if (item->is_array) {
		const struct array *array = &m->arrays[value.number];

		item->dtype = array->dtype;
		item->count = array->count;
		item->text = array->text;
		item->text_bytes = array->text_bytes;
	}
	m->dict->count++;
	return 0;
}

static int set_items(struct machine *m, uint32_t count, uint32_t marks)
{
	int rc = 0;

	if (count % 2 || top(m, count + marks).kind != DICT)
		return refuse(m, "entries of a value that is not a dict");
	for (uint32_t i = 0; rc == 0 && i < count; i += 2)
		rc = add_item(m, m->stack[m->depth - count + i],
		              m->stack[m->depth - count + i + 1]);
	m->depth -= count + marks;
	return rc;
}

static int push_dict(struct machine *m)
{
	if (m->has_dict)
		return refuse(m, "a second dict");
	m->has_dict = true;
	return push(m, (struct value){ .kind = DICT });
}

static int since_mark(struct machine *m,
                      int (*fn)(struct machine *m, uint32_t count, uint32_t marks))
{
	uint32_t count;

	return above_mark(m, &count) ? fn(m, count, 1) : refuse(m, "no mark");
}

/* All but PROTO and STOP. */
static int step(struct machine *m, unsigned char code)
{
	switch (code) {
	case '}':
		return push_dict(m);
	case '(':
		return push(m, (struct value){ .kind = MARK });
	case 'N':
		return push(m, (struct value){ .kind = NONE });
	case 0x88:
	case 0x89:
		return push(m, (struct value){ .kind = BOOLEAN });
	case 'K':
		return push_number(m, 1, false);
	case 'M':
		return push_number(m, 2, false);
	case 'J':
		return push_number(m, 4, true);
	case 0x8a:
		return push_long(m);
	case 'X':
		return push_text(m);
	case 'c':
		return push_global(m);
	case 'q':
		return store(m, 1);
	case 'r':
		return store(m, 4);
	case 'h':
		return fetch(m, 1);
	case 'j':
		return fetch(m, 4);
	case ')':
		return make_tuple(m, 0, 0);
	case 0x85:
		return make_tuple(m, 1, 0);
	case 0x86:
		return make_tuple(m, 2, 0);
	case 0x87:
		return make_tuple(m, 3, 0);
	case 't':
		return since_mark(m, make_tuple);
	case 'R':
		return reduce(m);
	case 'b':
		return build(m);
	case 's':
		return set_items(m, 2, 0);
	case 'u':
		return since_mark(m, set_items);
	default:
		m->at--;
		return refuse(m, "an instruction that such dicts are not written with");
	}
}

static int run(struct machine *m)
{
	uint64_t version;
	int rc = 0;

	if (m->at == m->end || *m->at != 0x80)
		return refuse(m, "no pickle of protocol 2");
	m->at++;
	if (!take(m, 1, &version) || version != 2)
		return refuse(m, "no pickle of protocol 2");
	while (rc == 0 && m->at < m->end) {
		const unsigned char code = *m->at++;

		if (code == '.')
			return m->depth == 1 && top(m, 0).kind == DICT
			               ? 0
			               : refuse(m, "the top-level value is not a dict");
		rc = step(m, code);
	}
	return rc < 0 ? rc : refuse(m, "the file ends");
}

int rung__pickle_read(const char *name, const unsigned char *bytes, uint64_t byte_count,
                      struct rung__pickle_dict *dict_out)
{
	struct machine *m = rung__zalloc(sizeof(*m));
	int rc;

	if (!m)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to read it", name);
	m->name = name;
	m->start = m->at = bytes;
	m->end = bytes + byte_count;
	m->dict = dict_out;
	dict_out->count = 0;
	rc = run(m);
	rung__free(m);
	return rc;
}

int rung__pickle_array(const char *name, const struct rung__pickle_item *item,
                       unsigned char *data_out)
{
	const unsigned char *at = item->text, *end = at + item->text_bytes;
	/* the caller has allocated enough */
	const uint64_t bytes = item->count * rung_dtype_bytes(item->dtype);
	uint64_t done = 0;

	while (at < end && done < bytes) {
		if (*at < 0x80) {
			data_out[done++] = *at++;
		} else if ((*at & 0xfe) == 0xc2 && end - at > 1 && (at[1] & 0xc0) == 0x80) {
			data_out[done++] = (unsigned char)((*at & 3) << 6 | (at[1] & 0x3f));
			at += 2;
		} else {
			break;
		}
	}
	if (done < bytes || at < end)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: array '%s' of %" PRIu64 " entries does not have %" PRIu64
		                  " bytes; copy the file again",
		                  name, item->key, item->count, bytes);
	return 0;
}
