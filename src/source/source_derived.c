/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that are computed as they are read: range:, pad: (the rows of a source, followed by filler
 * rows) and every: (some rows of a source). They hold no data, so any number of threads may read,
 * in any order that the inner source allows.
 */
#include <string.h>

#include "base/base.h"
#include "source/npy.h"
#include "source/source.h"
#include "source/state.h"

struct derived {
	struct rung_source *inner; /* owned; NULL: a range */
	uint64_t row_bytes;        /* bytes per row of `inner` and of the result */
	uint64_t inner_bytes;      /* bytes of all rows of `inner` */
	uint64_t first; /* range: the first number; every: first kept row of each period */
	uint64_t period, per_period; /* every: rows per period, and kept rows per period */
};

static uint64_t memory_of(const void *stream)
{
	const struct derived *derived = stream;

	return sizeof(*derived) +
	       (derived->inner ? rung__source_location(derived->inner).memory_bytes : 0);
}

static void close_derived(void *stream)
{
	struct derived *derived = stream;

	rung_source_close(derived->inner);
	rung__free(derived);
}

/* `first` can be inside a number, because callers read blocks of bytes. */
static int read_range(void *stream, uint64_t first, uint64_t count, unsigned char *to)
{
	const struct derived *derived = stream;

	while (count > 0) {
		const uint64_t id = derived->first + first / sizeof(id), skip = first % sizeof(id);
		const uint64_t bytes = RUNG__MIN(count, sizeof(id) - skip);

		memcpy(to, (const unsigned char *)&id + skip, (size_t)bytes);
		to += bytes;
		first += bytes;
		count -= bytes;
	}
	return 0;
}

/* Filler rows have every bit set, which is -1 in all signed types and NaN in all floating-point
 * types. */
static int read_padded(void *stream, uint64_t first, uint64_t count, unsigned char *to)
{
	const struct derived *derived = stream;
	uint64_t there = 0;
	int rc = 0;

	if (first < derived->inner_bytes) {
		there = RUNG__MIN(count, derived->inner_bytes - first);
		rc = rung__source_read_bytes(derived->inner, first, there, to);
	}
	memset(to + there, 0xff, (size_t)(count - there));
	return rc;
}

/* Each step reads one run of kept rows, or a part of it. The rows of a run are contiguous in
 * `inner`. */
static int read_every(void *stream, uint64_t first, uint64_t count, unsigned char *to)
{
	const struct derived *derived = stream;
	const uint64_t run_bytes = derived->per_period * derived->row_bytes;
	int rc = 0;

	while (count > 0 && rc == 0) {
		const uint64_t run = first / run_bytes, at = first % run_bytes,
			       bytes = RUNG__MIN(count, run_bytes - at);
		const uint64_t row = run * derived->period + derived->first;

		rc = rung__source_read_bytes(derived->inner, row * derived->row_bytes + at, bytes,
		                             to);
		to += bytes;
		first += bytes;
		count -= bytes;
	}
	return rc;
}

static const struct rung__stream_ops range_ops = { read_range, memory_of, close_derived };
static const struct rung__stream_ops padded_ops = { read_padded, memory_of, close_derived };
static const struct rung__stream_ops every_ops = { read_every, memory_of, close_derived };

/* Create a `struct derived` as the stream of a source, with the shape of `inner` (NULL: a range).
 * The stream owns `inner` from here on, and closes it on failure. @return NULL after RUNG_E_NOMEM
 * was recorded */
static struct derived *begin(struct rung_source *src, const struct rung__stream_ops *ops,
                             struct rung_source *inner)
{
	struct derived *derived = rung__zalloc(sizeof(*derived));

	if (!derived) {
		rung_source_close(inner);
		rung__fail(RUNG_E_NOMEM, "source '%s'", src->spec);
		return NULL;
	}
	if (inner) {
		src->info = inner->info;
		derived->inner = inner;
		derived->row_bytes = src->info.row_bytes;
		derived->inner_bytes = src->info.row_count * src->info.row_bytes;
	}
	src->stream = derived;
	src->stream_ops = ops;
	return derived;
}

int rung__source_open_range(struct rung_source *src)
{
	const char *at = src->spec + strlen(RUNG__RANGE_PREFIX);
	uint64_t first = 0, end = 0;
	struct derived *derived;

	if (!rung__parse_number(&at, ',', &first) || *at++ != ',' ||
	    !rung__parse_number(&at, '\0', &end) || first > end || end > INT64_MAX / 8)
		return rung__fail(
			RUNG_E_INVAL,
			"source '%s': not valid; write it as range:FIRST,END, as in range:0,60000 "
			"for 0 to 59999",
			src->spec);
	derived = begin(src, &range_ops, NULL);
	if (!derived)
		return RUNG_E_NOMEM;
	derived->first = first;
	/* the spec was checked: end * 8 fits 63 bits */
	src->info = (struct rung_array_info){ .dtype = RUNG_I64,
		                              .dim_count = 1,
		                              .dims = { end - first },
		                              .row_count = end - first,
		                              .row_bytes = 8 };
	return 0;
}

/* Check that the type can represent the filler, and that the result has at least as many rows as
 * `inner`. */
static int check_padded(const struct rung_source *src, const struct rung_source *inner,
                        uint64_t row_count)
{
	const enum rung_dtype dtype = inner->info.dtype;

	/* from RUNG_I8 to RUNG_U64 signed and unsigned types alternate */
	if (dtype == RUNG_BOOL || (dtype >= RUNG_U8 && dtype <= RUNG_U64 && (dtype - RUNG_I8) % 2))
		return rung__fail(RUNG_E_FORMAT,
		                  "source '%s': rows added after those of %s are NaN or -1, which "
		                  "its dtype %s cannot represent; convert it with a.astype('<i8')",
		                  src->spec, inner->spec, rung_dtype_name(dtype));
	if (inner->info.row_count > row_count)
		return rung__fail(RUNG_E_FORMAT,
		                  "source '%s': %s has %" PRIu64 " rows, more than the %" PRIu64
		                  " rows of the result; raise ROWS",
		                  src->spec, inner->spec, inner->info.row_count, row_count);
	return 0;
}

/* Parse PREFIX, `count` numbers, each followed by a comma, and SRC, which is not empty. @return
 * SRC, or NULL */
static const char *numbers_before_src(const char *spec, const char *prefix, uint64_t *numbers,
                                      unsigned count)
{
	const char *at = spec + strlen(prefix);

	if (strncmp(spec, prefix, strlen(prefix)) != 0)
		return NULL;
	for (unsigned i = 0; i < count; i++) {
		if (!rung__parse_number(&at, ',', &numbers[i]) || *at++ != ',')
			return NULL;
	}
	return *at ? at : NULL;
}

const char *rung__source_inner_spec(const char *spec)
{
	uint64_t numbers[3];
	const char *inner = numbers_before_src(spec, RUNG__PAD_PREFIX, numbers, 1);

	return inner ? inner : numbers_before_src(spec, RUNG__EVERY_PREFIX, numbers, 3);
}

/* A pad: or every: inside another one is refused: it has no use, and a long spec could nest them
 * until the stack overflows. */
static bool is_derived(const char *spec)
{
	return strncmp(spec, RUNG__PAD_PREFIX, strlen(RUNG__PAD_PREFIX)) == 0 ||
	       strncmp(spec, RUNG__EVERY_PREFIX, strlen(RUNG__EVERY_PREFIX)) == 0;
}

/* the numbers of an every: spec, in their order there */
enum { PERIOD, FIRST, END, EVERY_NUMBERS };

/* @return SRC, or NULL if the spec is not valid */
static const char *padded_spec(const char *spec, uint64_t *row_count_out)
{
	const char *inner = numbers_before_src(spec, RUNG__PAD_PREFIX, row_count_out, 1);

	return inner && !is_derived(inner) ? inner : NULL;
}

/* The same for every:. A period must have rows, and at least one of them must be kept. */
static const char *every_spec(const char *spec, uint64_t *numbers)
{
	const char *inner = numbers_before_src(spec, RUNG__EVERY_PREFIX, numbers, EVERY_NUMBERS);

	if (!inner || is_derived(inner) || numbers[FIRST] >= numbers[END] ||
	    numbers[END] > numbers[PERIOD])
		return NULL;
	return inner;
}

int rung__source_check_derived(const struct rung_source *src, const char **inner_spec_out)
{
	const bool padded = strncmp(src->spec, RUNG__PAD_PREFIX, strlen(RUNG__PAD_PREFIX)) == 0;
	uint64_t numbers[EVERY_NUMBERS];

	*inner_spec_out = padded ? padded_spec(src->spec, numbers) : every_spec(src->spec, numbers);
	if (!*inner_spec_out && padded)
		return rung__fail(RUNG_E_INVAL,
		                  "source '%s': not valid; write it as pad:ROWS,SRC, as in "
		                  "pad:244160499,node_label.npy",
		                  src->spec);
	if (!*inner_spec_out)
		return rung__fail(
			RUNG_E_INVAL,
			"source '%s': not valid; write it as every:PERIOD,FIRST,END,SRC, as in "
			"every:5,0,3,ids.npy for the first 3 of every 5 rows",
			src->spec);
	return 0;
}

int rung__source_open_padded(struct rung_source *src, struct rung_source *inner)
{
	struct derived *derived = begin(src, &padded_ops, inner);
	uint64_t row_count, bytes;
	int rc = derived ? 0 : RUNG_E_NOMEM;

	padded_spec(src->spec, &row_count); /* the spec was accepted before `inner` was opened */
	if (rc == 0)
		rc = check_padded(src, inner, row_count);
	if (rc < 0)
		return rc;
	src->info.dims[0] = row_count;
	if (!rung__array_measure(&src->info, &bytes))
		return rung__fail(RUNG_E_INVAL,
		                  "source '%s': its size needs more than 63 bits; lower ROWS",
		                  src->spec);
	return 0;
}

int rung__source_open_every(struct rung_source *src, struct rung_source *inner)
{
	struct derived *derived = begin(src, &every_ops, inner);
	uint64_t numbers[EVERY_NUMBERS], rest, bytes;

	if (!derived)
		return RUNG_E_NOMEM;
	every_spec(src->spec, numbers);
	derived->first = numbers[FIRST];
	derived->period = numbers[PERIOD];
	/* bounded by the rows of `inner`, so that the bytes of a run fit 63 bits and are not 0 */
	derived->per_period =
		RUNG__MIN(numbers[END], RUNG__MAX(src->info.row_count, numbers[FIRST] + 1)) -
		numbers[FIRST];
	/* the last period can be incomplete */
	rest = src->info.row_count % derived->period;
	src->info.dims[0] =
		src->info.row_count / derived->period * derived->per_period +
		(rest > derived->first ? RUNG__MIN(rest - derived->first, derived->per_period) : 0);
	/* not larger than the inner array, whose size was checked */
	rung__array_measure(&src->info, &bytes);
	return 0;
}
