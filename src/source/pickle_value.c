/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of the pickle machine: tuples, dtypes, arrays, and the entries of the dict. Every operand
 * comes from an untrusted file, so its kind is checked before it is used. entry() and
 * rung__pickle_top() return kind NOTHING outside of a tuple or the stack, and no check accepts that
 * kind, so a missing operand is refused like a wrong one.
 */
#include "source/pickle_value.h"

#include <string.h>

#include "base/base.h"

int rung__pickle_refuse(const struct rung__pickle_machine *m, const char *what)
{
	return rung__fail(
		RUNG_E_FORMAT,
		"%s: byte %zu of its pickle: %s; rung reads only a dict of integers and 1-D "
		"integer NumPy arrays; save such a dict with torch.save(), see rung(1)",
		m->name, (size_t)(m->at - m->start), what);
}

int rung__pickle_push(struct rung__pickle_machine *m, struct rung__pickle_value value)
{
	if (m->depth == RUNG__PICKLE_STACK_MAX)
		return rung__pickle_refuse(m, "too many values");
	m->stack[m->depth++] = value;
	return 0;
}

int rung__pickle_tuple(struct rung__pickle_machine *m, uint32_t count, uint32_t marks)
{
	struct rung__pickle_value tuple = { .kind = RUNG__PICKLE_TUPLE,
		                            .number = m->pooled,
		                            .length = count };

	/* no overflow: `count` is at most 3, or is a number of values on the stack */
	if (m->depth < count + marks)
		return rung__pickle_refuse(m, "a tuple of missing values");
	if (RUNG__PICKLE_POOL_MAX - m->pooled < count)
		return rung__pickle_refuse(m, "too many tuples");
	/* entries of the pool are never freed: the memo can refer to a tuple until the file ends */
	memcpy(m->pool + m->pooled, m->stack + m->depth - count, count * sizeof(*m->pool));
	m->pooled += count;
	m->depth -= count + marks;
	return rung__pickle_push(m, tuple);
}

/* Entry `i` of a tuple; kind NOTHING past its end, or if `tuple` is not a tuple. */
static struct rung__pickle_value entry(const struct rung__pickle_machine *m,
                                       struct rung__pickle_value tuple, uint64_t i)
{
	return tuple.kind == RUNG__PICKLE_TUPLE && i < tuple.length
	               ? m->pool[(uint64_t)tuple.number + i]
	               : (struct rung__pickle_value){ .kind = RUNG__PICKLE_NOTHING };
}

static bool is_text(struct rung__pickle_value value, const char *text)
{
	return value.kind == RUNG__PICKLE_TEXT && value.length == strlen(text) &&
	       memcmp(value.text, text, value.length) == 0;
}

static bool is_global(struct rung__pickle_value value, enum rung__pickle_global which)
{
	return value.kind == RUNG__PICKLE_GLOBAL && value.number == (int64_t)which;
}

/* dtype('i8', False, True). The flags, align and copy, do not matter here. The byte order follows
 * in the state. */
static int make_dtype(struct rung__pickle_machine *m, struct rung__pickle_value args,
                      struct rung__pickle_value *out)
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
			*out = (struct rung__pickle_value){ .kind = RUNG__PICKLE_DTYPE,
				                            .number = (int64_t)known[i].dtype };
			return 0;
		}
	}
	return rung__pickle_refuse(m, "a dtype that is not an integer");
}

/* _reconstruct(ndarray, (0,), b'b'): an empty array, whose content follows in its state. */
static int make_array(struct rung__pickle_machine *m, struct rung__pickle_value args,
                      struct rung__pickle_value *out)
{
	if (!is_global(entry(m, args, 0), RUNG__PICKLE_NDARRAY))
		return rung__pickle_refuse(m, "an array of another class");
	if (m->array_count == RUNG__PICKLE_ITEMS_MAX)
		return rung__pickle_refuse(m, "too many arrays");
	m->arrays[m->array_count] = (struct rung__pickle_ndarray){ .built = false };
	*out = (struct rung__pickle_value){ .kind = RUNG__PICKLE_ARRAY,
		                            .number = m->array_count++ };
	return 0;
}

/* encode(text, 'latin1'): each character is one byte. The text stays as it is in the file until
 * rung__pickle_array() decodes it into the caller's memory. */
static int make_bytes(struct rung__pickle_machine *m, struct rung__pickle_value args,
                      struct rung__pickle_value *out)
{
	*out = entry(m, args, 0);
	if (out->kind != RUNG__PICKLE_TEXT || !is_text(entry(m, args, 1), "latin1"))
		return rung__pickle_refuse(m, "bytes that are not latin1");
	out->kind = RUNG__PICKLE_BYTES;
	return 0;
}

int rung__pickle_reduce(struct rung__pickle_machine *m)
{
	const struct rung__pickle_value function = rung__pickle_top(m, 1),
					args = rung__pickle_top(m, 0);
	struct rung__pickle_value result = { .kind = RUNG__PICKLE_NOTHING };
	int rc = 0;

	if (function.kind != RUNG__PICKLE_GLOBAL || args.kind != RUNG__PICKLE_TUPLE)
		return rung__pickle_refuse(m, "a call of something that is not a function");
	if (function.number == RUNG__PICKLE_RECONSTRUCT)
		rc = make_array(m, args, &result);
	else if (function.number == RUNG__PICKLE_NUMPY_DTYPE)
		rc = make_dtype(m, args, &result);
	else if (function.number == RUNG__PICKLE_ENCODE)
		rc = make_bytes(m, args, &result);
	else if (function.number == RUNG__PICKLE_EMPTY_BYTES && args.length == 0)
		/* no bytes, but text must point into the file as for other values */
		result = (struct rung__pickle_value){ .kind = RUNG__PICKLE_BYTES, .text = m->at };
	else
		rc = rung__pickle_refuse(m, "a call of something that is not a function");
	if (rc < 0)
		return rc;
	m->depth -= 2;
	return rung__pickle_push(m, result);
}

/* State (1, (count,), dtype, False, bytes). Entries 0 and 3, the version and the Fortran order, do
 * not matter for an array of one dimension. */
static int build_array(struct rung__pickle_machine *m, struct rung__pickle_ndarray *array,
                       struct rung__pickle_value state)
{
	const struct rung__pickle_value shape = entry(m, state, 1), dtype = entry(m, state, 2),
					bytes = entry(m, state, 4);
	const struct rung__pickle_value count = entry(m, shape, 0);

	/* a second state could contradict items that were copied from the first */
	if (array->built || shape.kind != RUNG__PICKLE_TUPLE || shape.length != 1 ||
	    count.kind != RUNG__PICKLE_NUMBER || count.number < 0)
		return rung__pickle_refuse(m, "an array that does not have one dimension");
	if (dtype.kind != RUNG__PICKLE_DTYPE || bytes.kind != RUNG__PICKLE_BYTES)
		return rung__pickle_refuse(m, "an array without its bytes");
	*array = (struct rung__pickle_ndarray){ .built = true,
		                                .dtype = (enum rung_dtype)dtype.number,
		                                .count = (uint64_t)count.number,
		                                .text = bytes.text,
		                                .text_bytes = bytes.length };
	return 0;
}

int rung__pickle_build(struct rung__pickle_machine *m)
{
	const struct rung__pickle_value object = rung__pickle_top(m, 1),
					state = rung__pickle_top(m, 0);
	int rc = 0;

	/* "|" is for types of one byte, which have no byte order */
	if (object.kind == RUNG__PICKLE_DTYPE && !is_text(entry(m, state, 1), "<") &&
	    !is_text(entry(m, state, 1), "|"))
		return rung__pickle_refuse(m, "a dtype that is not little-endian");
	if (object.kind == RUNG__PICKLE_ARRAY)
		rc = build_array(m, &m->arrays[object.number], state);
	else if (object.kind != RUNG__PICKLE_DTYPE)
		return rung__pickle_refuse(m, "a state for a value that accepts none");
	m->depth--; /* the object stays on the stack */
	return rc;
}

/* Append an entry to the result. Keys and values that the result cannot represent are refused. */
static int add_item(struct rung__pickle_machine *m, struct rung__pickle_value key,
                    struct rung__pickle_value value)
{
	struct rung__pickle_item *item = &m->dict->items[m->dict->count];

	if (m->dict->count == RUNG__PICKLE_ITEMS_MAX)
		return rung__pickle_refuse(m, "too many entries in the dict");
	if (key.kind != RUNG__PICKLE_TEXT || key.length == 0 ||
	    key.length >= RUNG__PICKLE_KEY_BYTES)
		return rung__pickle_refuse(m, "a key that is not a short text");
	/* keys are printed in messages, and users write them after the colon of a spec */
	for (uint64_t i = 0; i < key.length; i++) {
		if (key.text[i] <= ' ' || key.text[i] > '~')
			return rung__pickle_refuse(
				m, "a key with characters that are not printable ASCII");
	}
	if (value.kind != RUNG__PICKLE_NUMBER &&
	    (value.kind != RUNG__PICKLE_ARRAY || !m->arrays[value.number].built))
		return rung__pickle_refuse(m, "a value that is neither integer nor array");
	*item = (struct rung__pickle_item){ .is_array = value.kind == RUNG__PICKLE_ARRAY,
		                            .number = value.number };
	memcpy(item->key, key.text, key.length); /* the initialiser wrote the NUL */
	/* Python would keep the last value; other readers might keep the first */
	for (uint32_t i = 0; i < m->dict->count; i++) {
		if (strcmp(m->dict->items[i].key, item->key) == 0)
			return rung__pickle_refuse(m, "a key that occurs twice");
	}
	if (item->is_array) {
		const struct rung__pickle_ndarray *array = &m->arrays[value.number];

		item->dtype = array->dtype;
		item->count = array->count;
		item->text = array->text;
		item->text_bytes = array->text_bytes;
	}
	m->dict->count++;
	return 0;
}

int rung__pickle_set_items(struct rung__pickle_machine *m, uint32_t count, uint32_t marks)
{
	int rc = 0;

	/* a dict at this position implies that `count + marks` values are above it */
	if (count % 2 || rung__pickle_top(m, count + marks).kind != RUNG__PICKLE_DICT)
		return rung__pickle_refuse(m, "entries of a value that is not a dict");
	for (uint32_t i = 0; rc == 0 && i < count; i += 2)
		rc = add_item(m, m->stack[m->depth - count + i],
		              m->stack[m->depth - count + i + 1]);
	m->depth -= count + marks;
	return rc;
}

int rung__pickle_new_dict(struct rung__pickle_machine *m)
{
	if (m->has_dict)
		return rung__pickle_refuse(m, "a second dict");
	m->has_dict = true;
	return rung__pickle_push(m, (struct rung__pickle_value){ .kind = RUNG__PICKLE_DICT });
}
