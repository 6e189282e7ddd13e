/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine with a stack and a memo, as pickle defines it, for the 26 instructions that occur in a
 * dict of integers and arrays. This file decodes the instructions; pickle_value.c has the values.
 * Values are small, and refer to text in the file without copying it. Tuples, the only nested
 * values, are in a pool of fixed size, so nothing recurses and no file can exhaust memory.
 *
 * An array is written as _reconstruct(ndarray, (0,), b'b') and then gets its state, (1, (count,),
 * dtype, False, bytes), where bytes is _codecs.encode(text, 'latin1'), or bytes() for an empty
 * array, and the dtype is dtype('i8', False, True) with a state that begins (3, '<'.
 */
#include "source/pickle.h"

#include <string.h>

#include "base/base.h"
#include "source/pickle_value.h"

/* The number of values above the topmost mark; false without a mark. */
static bool above_mark(const struct rung__pickle_machine *m, uint32_t *count_out)
{
	for (uint32_t i = 0; i < m->depth; i++) {
		if (rung__pickle_top(m, i).kind == RUNG__PICKLE_MARK) {
			*count_out = i;
			return true;
		}
	}
	return false;
}

/* The next `bytes` bytes, at most 8, as a little-endian number. @return false: the file ends */
static bool read_number(struct rung__pickle_machine *m, unsigned bytes, uint64_t *value_out)
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

/* Push a number of `bytes` bytes, 0 to 8; 0 bytes are the number 0. */
static int push_number(struct rung__pickle_machine *m, unsigned bytes, bool has_sign)
{
	uint64_t value = 0;

	if (!read_number(m, bytes, &value))
		return rung__pickle_refuse(m, "the file ends");
	/* extend the sign, unless a shift by 64 bits or by -1 would be undefined */
	if (has_sign && bytes < 8 && bytes > 0 && value >> (8 * bytes - 1))
		value |= UINT64_MAX << (8 * bytes);
	return rung__pickle_push(m, (struct rung__pickle_value){ .kind = RUNG__PICKLE_NUMBER,
	                                                         .number = (int64_t)value });
}

/* A byte with the length, then the number: Python writes integers above 32 bits this way. */
static int push_long(struct rung__pickle_machine *m)
{
	uint64_t bytes;

	if (!read_number(m, 1, &bytes))
		return rung__pickle_refuse(m, "the file ends");
	return bytes > 8 ? rung__pickle_refuse(m, "an integer of more than 64 bits")
	                 : push_number(m, (unsigned)bytes, true);
}

/* Four bytes of length, then UTF-8. The value is a span of the file. */
static int push_text(struct rung__pickle_machine *m)
{
	uint64_t length;
	struct rung__pickle_value text = { .kind = RUNG__PICKLE_TEXT };

	if (!read_number(m, 4, &length) || length > (uint64_t)(m->end - m->at))
		return rung__pickle_refuse(m, "the file ends");
	text.text = m->at;
	text.length = length;
	m->at += length;
	return rung__pickle_push(m, text);
}

/* "module\nname\n". A name that is not in the list is refused here, before anything could call
 * it. */
static int push_global(struct rung__pickle_machine *m)
{
	static const struct {
		const char *text;
		enum rung__pickle_global which;
	} known[] = {
		{ "numpy.core.multiarray\n_reconstruct\n", RUNG__PICKLE_RECONSTRUCT },
		/* the same in NumPy 2 */
		{ "numpy._core.multiarray\n_reconstruct\n", RUNG__PICKLE_RECONSTRUCT },
		{ "numpy\nndarray\n", RUNG__PICKLE_NDARRAY },
		{ "numpy\ndtype\n", RUNG__PICKLE_NUMPY_DTYPE },
		{ "_codecs\nencode\n", RUNG__PICKLE_ENCODE },
		{ "__builtin__\nbytes\n", RUNG__PICKLE_EMPTY_BYTES },
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(known); i++) {
		const size_t length = strlen(known[i].text);

		if ((size_t)(m->end - m->at) < length || memcmp(m->at, known[i].text, length) != 0)
			continue;
		m->at += length;
		return rung__pickle_push(
			m, (struct rung__pickle_value){ .kind = RUNG__PICKLE_GLOBAL,
		                                        .number = (int64_t)known[i].which });
	}
	return rung__pickle_refuse(m, "a class or function that is not used by integer arrays");
}

/* Copy the top of the stack to a memo entry. A mark is not a value: pushed again, it would start
 * another sequence. */
static int store(struct rung__pickle_machine *m, unsigned bytes)
{
	uint64_t idx;

	if (!read_number(m, bytes, &idx) || idx >= RUNG__PICKLE_MEMO_MAX || m->depth == 0 ||
	    rung__pickle_top(m, 0).kind == RUNG__PICKLE_MARK)
		return rung__pickle_refuse(m, "memo index out of range");
	m->memo[idx] = rung__pickle_top(m, 0);
	return 0;
}

/* Push a copy of a memo entry. */
static int fetch(struct rung__pickle_machine *m, unsigned bytes)
{
	uint64_t idx;

	if (!read_number(m, bytes, &idx) || idx >= RUNG__PICKLE_MEMO_MAX ||
	    m->memo[idx].kind == RUNG__PICKLE_NOTHING)
		return rung__pickle_refuse(m, "a memo entry that was not written");
	return rung__pickle_push(m, m->memo[idx]);
}

/* Push a value that consists only of a kind. */
static int push_kind(struct rung__pickle_machine *m, enum rung__pickle_kind kind)
{
	return rung__pickle_push(m, (struct rung__pickle_value){ .kind = kind });
}

/* Run an instruction on the values above the topmost mark, which is removed with them. */
static int since_mark(struct rung__pickle_machine *m,
                      int (*fn)(struct rung__pickle_machine *m, uint32_t count, uint32_t marks))
{
	uint32_t count;

	return above_mark(m, &count) ? fn(m, count, 1) : rung__pickle_refuse(m, "no mark");
}

/* Execute one instruction, except PROTO and STOP, which run() handles. The names are those in
 * Python's pickletools. */
static int step(struct rung__pickle_machine *m, unsigned char code)
{
	switch (code) {
	case '}': /* EMPTY_DICT */
		return rung__pickle_new_dict(m);
	case '(': /* MARK */
		return push_kind(m, RUNG__PICKLE_MARK);
	case 'N': /* NONE */
		return push_kind(m, RUNG__PICKLE_NONE);
	case 0x88: /* NEWTRUE */
	case 0x89: /* NEWFALSE */
		return push_kind(m, RUNG__PICKLE_BOOLEAN);
	case 'K': /* BININT1 */
		return push_number(m, 1, false);
	case 'M': /* BININT2 */
		return push_number(m, 2, false);
	case 'J': /* BININT */
		return push_number(m, 4, true);
	case 0x8a: /* LONG1 */
		return push_long(m);
	case 'X': /* BINUNICODE */
		return push_text(m);
	case 'c': /* GLOBAL */
		return push_global(m);
	case 'q': /* BINPUT */
		return store(m, 1);
	case 'r': /* LONG_BINPUT */
		return store(m, 4);
	case 'h': /* BINGET */
		return fetch(m, 1);
	case 'j': /* LONG_BINGET */
		return fetch(m, 4);
	case ')': /* EMPTY_TUPLE */
		return rung__pickle_tuple(m, 0, 0);
	case 0x85: /* TUPLE1 */
		return rung__pickle_tuple(m, 1, 0);
	case 0x86: /* TUPLE2 */
		return rung__pickle_tuple(m, 2, 0);
	case 0x87: /* TUPLE3 */
		return rung__pickle_tuple(m, 3, 0);
	case 't': /* TUPLE */
		return since_mark(m, rung__pickle_tuple);
	case 'R': /* REDUCE */
		return rung__pickle_reduce(m);
	case 'b': /* BUILD */
		return rung__pickle_build(m);
	case 's': /* SETITEM */
		return rung__pickle_set_items(m, 2, 0);
	case 'u': /* SETITEMS */
		return since_mark(m, rung__pickle_set_items);
	default:
		m->at--; /* the message names the byte of the instruction */
		return rung__pickle_refuse(
			m, "an instruction that does not occur in a dict of integer arrays");
	}
}

/* Execute the file. Other protocols are refused: they have other instructions for the same values.
 * The loop ends, because each instruction uses at least one byte. */
static int run(struct rung__pickle_machine *m)
{
	uint64_t version;
	int rc = 0;

	if (m->at == m->end || *m->at != 0x80)
		return rung__pickle_refuse(m, "not a pickle of protocol 2");
	m->at++;
	if (!read_number(m, 1, &version) || version != 2)
		return rung__pickle_refuse(m, "not a pickle of protocol 2");
	while (rc == 0 && m->at < m->end) {
		const unsigned char code = *m->at++;

		if (code == '.') /* STOP: bytes after it are ignored, as Python does */
			return m->depth == 1 && rung__pickle_top(m, 0).kind == RUNG__PICKLE_DICT
			               ? 0
			               : rung__pickle_refuse(m,
			                                     "the top-level value is not a dict");
		rc = step(m, code);
	}
	return rc < 0 ? rc : rung__pickle_refuse(m, "the file ends");
}

int rung__pickle_read(const char *name, const unsigned char *bytes, uint64_t byte_count,
                      struct rung__pickle_dict *dict_out)
{
	struct rung__pickle_machine *m = rung__zalloc(sizeof(*m));
	int rc;

	if (!m)
		return rung__fail(RUNG_E_NOMEM, "%s: no memory to read it", name);
	m->name = name;
	/* all other fields start as zero: stack, memo and pool are empty */
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
	/* the product cannot overflow, because the caller has allocated this many bytes */
	const uint64_t bytes = item->count * rung_dtype_bytes(item->dtype);
	uint64_t done = 0;

	/* U+0000 to U+00FF are one byte, or two that begin with 0xc2 or 0xc3 */
	while (at < end && done < bytes) {
		if (*at < 0x80) {
			data_out[done++] = *at++;
		} else if ((*at & 0xfe) == 0xc2 && end - at > 1 && (at[1] & 0xc0) == 0x80) {
			data_out[done++] = (unsigned char)((*at & 3) << 6 | (at[1] & 0x3f));
			at += 2;
		} else {
			break; /* a larger character, or a damaged one */
		}
	}
	if (done < bytes || at < end)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: array '%s' has %" PRIu64
		                  " entries, but its data is not %" PRIu64
		                  " bytes long; copy the file again",
		                  name, item->key, item->count, bytes);
	return 0;
}
