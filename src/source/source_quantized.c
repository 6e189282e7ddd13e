/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of another source, quantized as they are read. Staging and verification read them like
 * any other rows of bytes. A call converts whole rows, a few at a time, in memory of that call, so
 * any number of threads may read, in any order that the inner source allows.
 */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "source/source.h"
#include "source/state.h"

#define STEP_BYTES (256u << 10) /* rows of the inner source that are converted at a time */

struct quantized {
	struct rung_source *inner; /* owned */
	struct rung__quant quant;
	const float *column_scales; /* [quant.columns]; NULL: scales per row */
	uint64_t row_bytes;         /* of a quantized row */
	uint64_t step_rows;
};

/* Memory of one call. */
struct conversion {
	unsigned char *given; /* [step_rows] rows of the inner source */
	float *values;        /* [columns] one row */
	unsigned char *row;   /* one quantized row */
};

static uint64_t memory_of(const void *stream)
{
	const struct quantized *quantized = stream;

	return sizeof(*quantized) + rung__source_location(quantized->inner).memory_bytes;
}

static void close_quantized(void *stream)
{
	struct quantized *quantized = stream;

	rung_source_close(quantized->inner);
	rung__free(quantized);
}

/* Report the first value of a row that is not finite. */
static int refuse(const struct quantized *quantized, uint64_t row, const float *values)
{
	uint64_t column = 0;

	while (isfinite(values[column]))
		column++;
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: row %" PRIu64 ", column %" PRIu64
	                  ": %s cannot be quantized; give finite values of float32, or stage "
	                  "without --quantize",
	                  rung__source_spec(quantized->inner), row, column,
	                  isnan(values[column]) ? "NaN"
	                  : values[column] > 0  ? "infinity"
	                                        : "-infinity");
}

/* Convert rows [first, first + count) and copy their bytes [skip, skip + bytes) to `to`. */
static int convert(const struct quantized *quantized, const struct conversion *work, uint64_t first,
                   uint64_t count, uint64_t skip, uint64_t bytes, unsigned char *to)
{
	const struct rung_array_info *info = rung_source_info(quantized->inner);
	int rc = rung_source_read(quantized->inner, first, count, work->given);

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		const uint64_t part = RUNG__MIN(bytes, quantized->row_bytes - skip);
		/* whole rows need no copy */
		unsigned char *row = part == quantized->row_bytes ? to : work->row;

		rung__quant_widen(info->dtype, work->given + i * info->row_bytes,
		                  quantized->quant.columns, work->values);
		if (!rung__quant_encode(&quantized->quant, quantized->column_scales, work->values,
		                        row))
			return refuse(quantized, first + i, work->values);
		if (row != to)
			memcpy(to, row + skip, (size_t)part);
		to += part;
		bytes -= part;
		skip = 0;
	}
	return rc;
}

static int read_quantized(void *stream, uint64_t first, uint64_t count, unsigned char *to)
{
	const struct quantized *quantized = stream;
	const uint64_t row_bytes = quantized->row_bytes;
	struct conversion work = {
		.given = rung__malloc_array(quantized->step_rows,
		                            (size_t)rung_source_info(quantized->inner)->row_bytes),
		.values = rung__malloc_array(quantized->quant.columns, sizeof(float)),
		.row = rung__malloc((size_t)row_bytes),
	};
	int rc = 0;

	if (!work.given || !work.values || !work.row)
		rc = rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu64 " rows",
		                rung__source_spec(quantized->inner), quantized->step_rows);
	while (count > 0 && rc == 0) {
		const uint64_t row = first / row_bytes, skip = first % row_bytes;
		const uint64_t rows =
			RUNG__MIN((skip + count + row_bytes - 1) / row_bytes, quantized->step_rows);
		const uint64_t bytes = RUNG__MIN(rows * row_bytes - skip, count);

		rc = convert(quantized, &work, row, rows, skip, bytes, to);
		to += bytes;
		first += bytes;
		count -= bytes;
	}
	rung__free(work.given);
	rung__free(work.values);
	rung__free(work.row);
	return rc;
}

static const struct rung__stream_ops quantized_ops = { read_quantized, memory_of, close_quantized };

int rung__source_quantize(struct rung_source *inner, const struct rung__quant *quant,
                          const float *column_scales, struct rung_source **src_out)
{
	struct quantized *quantized = rung__zalloc(sizeof(*quantized));
	struct rung_source *src = rung__zalloc(sizeof(*src));
	const struct rung__source_location place = rung__source_location(inner);

	if (src) {
		src->fd = -1;
		src->spec = rung__strdup(rung__source_spec(inner));
	}
	if (!quantized || !src || !src->spec) {
		rung__free(quantized);
		rung_source_close(src);
		return rung__fail(RUNG_E_NOMEM, "source '%s'", rung__source_spec(inner));
	}
	*quantized = (struct quantized){
		.inner = inner,
		.quant = *quant,
		.column_scales = column_scales,
		.row_bytes = rung__quant_row_bytes(quant),
		.step_rows = RUNG__MAX(STEP_BYTES / inner->info.row_bytes, 1u),
	};
	src->info = (struct rung_array_info){
		.dtype = RUNG_U8,
		.dim_count = 2,
		.dims = { inner->info.row_count, quantized->row_bytes },
		.row_count = inner->info.row_count,
		.row_bytes = quantized->row_bytes,
	};
	src->stream = quantized;
	src->stream_ops = &quantized_ops;
	src->any_order = !place.streamed || place.any_order;
	*src_out = src;
	return 0;
}

const struct rung_source *rung__source_unquantized(const struct rung_source *src)
{
	const struct quantized *quantized = src->stream;

	return src->stream_ops == &quantized_ops ? quantized->inner : src;
}
