/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantized features: the source of the rows is wrapped, so that all later steps see rows of bytes
 * (source_quantized.c). Scales per column need a pass over all rows first; their largest magnitudes
 * are computed by several threads, and the scales are stored in the journal. The errors in the
 * report are those of a sample, which a dry run computes as well.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "source/source.h"
#include "stage/stage_input.h"

#define READ_BYTES    (256u << 10) /* rows that a thread reads at a time */
#define READERS       4u
#define COLUMNS_MAX   (RUNG__MANIFEST_BYTES_MAX / 32) /* a scale has up to 27 bytes there */
#define SAMPLE_BLOCKS 64u
#define SAMPLE_ROWS   1024u /* rows of a block */
#define SCALES        "scales"

/* Memory of one thread. */
struct quant_reader {
	unsigned char *rows; /* rows as they were given, READ_BYTES or one */
	float *values;       /* [columns] one row */
	float *magnitudes;   /* [columns] the largest so far */
	unsigned char *row;  /* one quantized row */
};

static const struct rung_source *given(const struct rung__stage *stage)
{
	return rung__source_unquantized(stage->features);
}

static uint64_t step_rows(const struct rung__stage *stage)
{
	return RUNG__MAX(READ_BYTES / stage->manifest->given.row_bytes, 1u);
}

static void close_readers(struct quant_reader *readers)
{
	for (unsigned i = 0; i < READERS; i++) {
		rung__free(readers[i].rows);
		rung__free(readers[i].values);
		rung__free(readers[i].magnitudes);
		rung__free(readers[i].row);
	}
}

static int open_readers(const struct rung__stage *stage, unsigned count,
                        struct quant_reader *readers)
{
	const struct rung__manifest *m = stage->manifest;

	memset(readers, 0, READERS * sizeof(*readers));
	for (unsigned i = 0; i < count; i++) {
		readers[i] = (struct quant_reader){
			.rows = rung__malloc_array(step_rows(stage), (size_t)m->given.row_bytes),
			.values = rung__malloc_array(m->quant.columns, sizeof(float)),
			.magnitudes = rung__zalloc_array(m->quant.columns, sizeof(float)),
			.row = rung__malloc((size_t)m->features.row_bytes),
		};
		if (readers[i].rows && readers[i].values && readers[i].magnitudes && readers[i].row)
			continue;
		close_readers(readers);
		return rung__fail(RUNG_E_NOMEM, "staging: no memory for %" PRIu64 " columns",
		                  m->quant.columns);
	}
	return 0;
}

int rung__stage_quantize(struct rung__stage *stage)
{
	const struct rung_stage_opts *opts = &stage->opts;
	const struct rung_array_info *info = rung_source_info(stage->features);
	struct rung__manifest *m = stage->manifest;
	struct rung_source *quantized;
	int rc;

	if (!rung__quant_format_name(opts->quantize) ||
	    !rung__quant_scales_name(opts->quant_scales))
		return rung__fail(RUNG_E_INVAL,
		                  "staging: quantize %d with scales %d is not valid; use "
		                  "enum rung_quant_format and enum rung_quant_scales",
		                  (int)opts->quantize, (int)opts->quant_scales);
	if (opts->quantize == RUNG_QUANT_NONE)
		return 0;
	if (opts->in_place)
		return rung__fail(RUNG_E_INVAL, "staging: features that stay in place cannot be "
		                                "quantized; omit one of the options");
	if (!rung__quant_accepts(info->dtype))
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: features of dtype %s cannot be quantized; use f16, bf16, f32 "
			"or f64, or stage without --quantize",
			opts->features, rung_dtype_name(info->dtype));
	if (opts->quant_scales == RUNG_SCALES_COLUMN &&
	    info->row_bytes / rung_dtype_bytes(info->dtype) > COLUMNS_MAX)
		return rung__fail(RUNG_E_RANGE,
		                  "%s: has more than %u columns, whose scales a manifest cannot "
		                  "hold; use scales per row",
		                  opts->features, COLUMNS_MAX);
	rc = rung__manifest_quantize(m, info, opts->quantize, opts->quant_scales);
	if (rc == 0)
		rc = rung__source_quantize(stage->features, &m->quant, m->column_scales,
		                           &quantized);
	if (rc < 0)
		return rc;
	stage->features = quantized;
	stage->report.given_row_bytes = m->given.row_bytes;
	return 0;
}

/* ---- scales per column ---- */

/* Read rows [first, first + count), and note the largest magnitudes of the columns. */
static int note_magnitudes(const struct rung__stage *stage, const struct quant_reader *reader,
                           uint64_t first, uint64_t count)
{
	const struct rung__manifest *m = stage->manifest;
	int rc = rung_source_read(given(stage), first, count, reader->rows);

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		rung__quant_widen(m->given.dtype, reader->rows + i * m->given.row_bytes,
		                  m->quant.columns, reader->values);
		/* encoding names the column of a value that is not finite */
		if (!isfinite(rung__quant_magnitude(reader->values, m->quant.columns)))
			return rung_source_read(stage->features, first + i, 1, reader->row);
		for (uint64_t c = 0; c < m->quant.columns; c++)
			reader->magnitudes[c] =
				fmaxf(reader->magnitudes[c], fabsf(reader->values[c]));
	}
	return rc;
}

/* Read all rows, and set the scales. */
static int compute_scales(struct rung__stage *stage)
{
	const struct rung__source_location place = rung__source_location(given(stage));
	struct rung__manifest *m = stage->manifest;
	const unsigned threads = place.streamed && !place.any_order ? 1 : READERS;
	const uint64_t step = step_rows(stage);
	struct rung__failure failure = { .rc = 0 };
	struct quant_reader readers[READERS];
	int rc = open_readers(stage, threads, readers);

	for (uint64_t first = 0; first < m->vertex_count && rc == 0; first += threads * step) {
#pragma omp parallel for num_threads((int)threads) schedule(static, 1)
		for (unsigned i = 0; i < threads; i++) {
			const uint64_t from = RUNG__MIN(first + i * step, m->vertex_count);

			rung__failure_keep(
				&failure, note_magnitudes(stage, &readers[i], from,
			                                  RUNG__MIN(step, m->vertex_count - from)));
		}
		rc = rung__failure_report(&failure);
		if (rc == 0)
			rc = rung__stage_progress(
				stage, SCALES, RUNG__MIN(first + threads * step, m->vertex_count),
				m->vertex_count);
	}
	for (uint64_t c = 0; c < m->quant.columns && rc == 0; c++) {
		float magnitude = 0;

		for (unsigned i = 0; i < threads; i++)
			magnitude = fmaxf(magnitude, readers[i].magnitudes[c]);
		m->column_scales[c] = rung__quant_scale(&m->quant, magnitude);
	}
	close_readers(readers);
	return rc;
}

/* The bits of each scale, in hexadecimal. @return NULL: out of memory */
static char *scales_text(const struct rung__manifest *m)
{
	char *text = rung__malloc_array(m->quant.columns + 1, 9);

	for (uint64_t c = 0; text && c < m->quant.columns; c++) {
		uint32_t bits;

		memcpy(&bits, &m->column_scales[c], sizeof(bits));
		snprintf(text + 9 * c, 10, "%08" PRIx32 "%s", bits,
		         c + 1 < m->quant.columns ? " " : "");
	}
	return text;
}

static int fail_scales_memory(const struct rung__manifest *m)
{
	return rung__fail(RUNG_E_NOMEM, "staging: no memory for %" PRIu64 " scales",
	                  m->quant.columns);
}

/* Store the scales in the journal. */
static int journal_scales(struct rung__stage *stage)
{
	char *text = scales_text(stage->manifest);
	int rc;

	if (!text)
		return fail_scales_memory(stage->manifest);
	rc = rung__journal_add(&stage->journal, SCALES " %s", text);
	rung__free(text);
	return rc < 0 ? rc : rung__journal_commit(&stage->journal, -1);
}

int rung__stage_scales(struct rung__stage *stage)
{
	struct rung__manifest *m = stage->manifest;
	const char *words;
	int rc;

	if (!m->column_scales)
		return 0;
	words = rung__journal_last(&stage->journal, SCALES);
	for (uint64_t c = 0; words && c < m->quant.columns; c++) {
		char *end;
		const uint32_t bits = (uint32_t)strtoul(words, &end, 16);

		memcpy(&m->column_scales[c], &bits, sizeof(bits));
		/* lines of the journal have checksums, so this is a line of another job */
		if (end == words || !(m->column_scales[c] >= rung__quant_scale_min(&m->quant)) ||
		    !isfinite(m->column_scales[c]))
			return rung__fail(RUNG_E_FORMAT,
			                  "%s: the scales do not match this job; start from "
			                  "scratch with --force",
			                  stage->journal.path);
		words = end;
	}
	if (words)
		return 0;
	rc = compute_scales(stage);
	return rc < 0 ? rc : journal_scales(stage);
}

int rung__stage_scales_compare(const struct rung__stage *stage, const struct rung__journal *journal,
                               bool *same_out)
{
	const char *words = rung__journal_last(journal, SCALES);
	char *text;

	*same_out = !stage->manifest->column_scales;
	if (*same_out || !words)
		return 0;
	text = scales_text(stage->manifest);
	if (!text)
		return fail_scales_memory(stage->manifest);
	*same_out = strlen(text) == strcspn(words, "\n") && strncmp(text, words, strlen(text)) == 0;
	rung__free(text);
	return 0;
}

/* ---- errors ---- */

/* Sampled rows: all of a small array, blocks of a large one at equal distances, and the first rows
 * of a source that is slow in any other order. */
struct quant_sample {
	uint64_t blocks, block_rows, distance;
};

static struct quant_sample choose_sample(const struct rung__stage *stage)
{
	const struct rung__source_location place = rung__source_location(given(stage));
	const uint64_t rows = stage->manifest->vertex_count;

	if (rows <= SAMPLE_BLOCKS * SAMPLE_ROWS)
		return (struct quant_sample){ 1, rows, 0 };
	if (place.streamed && !place.any_order)
		return (struct quant_sample){ 1, SAMPLE_BLOCKS * SAMPLE_ROWS, 0 };
	return (struct quant_sample){ SAMPLE_BLOCKS, SAMPLE_ROWS,
		                      (rows - SAMPLE_ROWS) / (SAMPLE_BLOCKS - 1) };
}

/* Encode rows [first, first + count) as the source does, and add up their errors. They are read
 * once and in order, which deflated sources need. */
static int measure_rows(const struct rung__stage *stage, const struct quant_reader *reader,
                        uint64_t first, uint64_t count, struct rung__quant_errors *errors)
{
	const struct rung__manifest *m = stage->manifest;
	const uint64_t step = step_rows(stage);
	int rc = 0;

	for (uint64_t done = 0; done < count && rc == 0; done += step) {
		const uint64_t rows = RUNG__MIN(step, count - done);

		rc = rung_source_read(given(stage), first + done, rows, reader->rows);
		for (uint64_t i = 0; i < rows && rc == 0; i++) {
			rung__quant_widen(m->given.dtype, reader->rows + i * m->given.row_bytes,
			                  m->quant.columns, reader->values);
			/* reading it from the source names the value that is not finite */
			if (!rung__quant_encode(&m->quant, m->column_scales, reader->values,
			                        reader->row))
				return rung_source_read(stage->features, first + done + i, 1,
				                        reader->row);
			rung__quant_measure(&m->quant, m->column_scales, reader->values,
			                    reader->row, errors);
		}
	}
	return rc;
}

/* Scales per column are not known in a dry run: those of the sampled rows are used. */
static int scales_of_sample(struct rung__stage *stage, const struct quant_reader *reader,
                            const struct quant_sample *sample)
{
	struct rung__manifest *m = stage->manifest;
	const uint64_t step = step_rows(stage);
	int rc = 0;

	for (uint64_t b = 0; b < sample->blocks && rc == 0; b++) {
		for (uint64_t i = 0; i < sample->block_rows && rc == 0; i += step)
			rc = note_magnitudes(stage, reader, b * sample->distance + i,
			                     RUNG__MIN(step, sample->block_rows - i));
	}
	for (uint64_t c = 0; c < m->quant.columns && rc == 0; c++)
		m->column_scales[c] = rung__quant_scale(&m->quant, reader->magnitudes[c]);
	return rc;
}

int rung__stage_measure_quantized(struct rung__stage *stage)
{
	struct rung_stage_report *report = &stage->report;
	struct rung__quant_errors errors = { .values = 0 };
	struct quant_reader readers[READERS];
	struct quant_sample sample;
	int rc;

	if (stage->manifest->quant.format == RUNG_QUANT_NONE)
		return 0;
	sample = choose_sample(stage);
	rc = open_readers(stage, 1, readers);
	if (rc == 0 && stage->opts.dry_run && stage->manifest->column_scales)
		rc = scales_of_sample(stage, &readers[0], &sample);
	for (uint64_t b = 0; b < sample.blocks && rc == 0; b++)
		rc = measure_rows(stage, &readers[0], b * sample.distance, sample.block_rows,
		                  &errors);
	close_readers(readers);
	report->quant_rows = sample.blocks * sample.block_rows;
	report->quant_error_max = errors.max;
	report->quant_error_mean = errors.sum / (double)RUNG__MAX(errors.values, 1u);
	report->quant_clipped = (double)errors.clipped / (double)RUNG__MAX(errors.values, 1u);
	return rc;
}
