/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers of quantized rows that the kernel decodes to f16, next to gathers of the same rows as
 * f16, from GPU memory and over the link. As in table.c there are no files. The rows are random
 * codes, each with its scale.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "device/device.h"
#include "quant/quant.h"

#define COLUMNS    768u
#define OUT_BYTES  (COLUMNS * 2u)
#define COMPARED   1000u
#define TABLE_SIZE 4u /* the table has this many batches */

struct quantized {
	const struct bench *b;
	const struct rung__meter_ops *ops;
	struct rung__meter *meter;
	unsigned char *host; /* pinned: the rows of both places */
	unsigned char *device;
	uint64_t rows;            /* of the table */
	uint64_t count;           /* of a batch */
	uint64_t *ids;            /* [BENCH_LISTS x count], GPU memory */
	uint64_t first[COMPARED]; /* the first ids of list 0 */
	unsigned char *out;
};

static void draw_ids(struct quantized *q, uint64_t count)
{
	uint64_t *ids = bench_alloc(count * BENCH_LISTS * 8);

	q->count = count;
	for (uint64_t i = 0; i < count * BENCH_LISTS; i++)
		ids[i] = bench_draw(q->b->seed + count, i) % q->rows;
	memcpy(q->first, ids, RUNG__MIN(count, COMPARED) * 8);
	bench_upload(q->ids, ids, count * BENCH_LISTS * 8);
	free(ids);
}

/* One sample is one gather of each list, divided by their number. */
static struct bench_times time_gathers(const struct quantized *q,
                                       const struct rung__meter_gather *gather)
{
	struct bench_times times = { 0 };

	for (unsigned turn = 0; turn < q->b->warmups + q->b->samples; turn++) {
		double seconds;

		bench_need(q->ops->gather(q->meter, gather, BENCH_LISTS, &seconds),
		           "gathering quantized rows");
		if (turn >= q->b->warmups)
			bench_add(&times, seconds / BENCH_LISTS);
	}
	return times;
}

/* Gathers list 0 and compares its first rows with those that the library decodes without vector
 * instructions. */
static uint64_t verify(const struct quantized *q, struct rung__meter_gather gather)
{
	const uint64_t count = RUNG__MIN(q->count, COMPARED);
	unsigned char *got = bench_alloc(count * OUT_BYTES), row[OUT_BYTES];
	double seconds;

	gather.list_count = 1;
	bench_poison(q->out, q->count * OUT_BYTES);
	bench_need(q->ops->gather(q->meter, &gather, 1, &seconds), "gathering quantized rows");
	bench_cuda(cudaMemcpy(got, q->out, count * OUT_BYTES, cudaMemcpyDeviceToHost),
	           "copying rows to the host");
	for (uint64_t i = 0; i < count; i++) {
		const unsigned char *stored = q->host + q->first[i] * gather.row_bytes;

		gather.form->decode(gather.form, row, stored, false, stored);
		if (memcmp(row, got + i * OUT_BYTES, OUT_BYTES) != 0)
			bench_die("quantized rows: row %llu of format %s is wrong",
			          (unsigned long long)i,
			          rung__quant_format_name(gather.form->quant.format));
	}
	free(got);
	return count;
}

static void one_format(struct quantized *q, bool over_link, enum rung_quant_format format,
                       double f16_rows_per_s)
{
	const struct rung__quant quant = { format, RUNG_SCALES_ROW, COLUMNS };
	const struct rung__row_form form =
		rung__row_form_decode_with(RUNG__QUANT_SCALAR, &quant, NULL, RUNG_F16);
	const struct rung__meter_gather gather = {
		.table = over_link ? q->host : q->device,
		.table_rows = q->rows,
		.row_bytes = form.row_bytes,
		.form = &form,
		.over_link = over_link,
		.ids = q->ids,
		.row_count = q->count,
		.list_count = BENCH_LISTS,
		.out = q->out,
	};
	struct bench_times times;
	double rows_per_s;

	for (uint64_t r = 0; r < q->rows; r++) { /* the other bytes of the rows are random */
		const float scale = 0.001f * (float)(1 + r % 100);

		memcpy(q->host + r * form.row_bytes, &scale, sizeof(scale));
	}
	if (!over_link)
		bench_upload(q->device, q->host, q->rows * form.row_bytes);
	times = time_gathers(q, &gather);
	rows_per_s = (double)q->count / bench_median(&times);
	out_begin("quantized");
	out_text("tier", over_link ? "host" : "gpu");
	out_text("format", rung__quant_format_name(format));
	out_u64("columns", COLUMNS);
	out_u64("row_bytes", form.row_bytes);
	out_u64("out_bytes", form.out_bytes);
	out_u64("rows", q->count);
	out_u64("verified_rows", verify(q, gather));
	out_times("seconds", &times);
	out_real("rows_per_s", rows_per_s);
	out_real("out_bytes_per_s", rows_per_s * OUT_BYTES);
	out_real("f16_rows_per_s", f16_rows_per_s);
	out_real("over_f16", rows_per_s / f16_rows_per_s);
	if (over_link)
		out_ratio(rows_per_s * (double)form.row_bytes, q->b->ceilings.link_kernel, NULL, 0);
	else
		out_ratio(rows_per_s * (double)(form.row_bytes + form.out_bytes),
		          q->b->ceilings.device_copy, NULL, 0);
	out_end();
}

static void one_place(struct quantized *q, bool over_link)
{
	struct bench_times times;
	double rows_per_s;

	draw_ids(q, (over_link ? q->b->link_bytes : q->b->batch_bytes) / OUT_BYTES);
	times = time_gathers(q,
	                     &(struct rung__meter_gather){ .table = over_link ? q->host : q->device,
	                                                   .table_rows = q->rows,
	                                                   .row_bytes = OUT_BYTES,
	                                                   .over_link = over_link,
	                                                   .ids = q->ids,
	                                                   .row_count = q->count,
	                                                   .list_count = BENCH_LISTS,
	                                                   .out = q->out });
	rows_per_s = (double)q->count / bench_median(&times);
	one_format(q, over_link, RUNG_QUANT_INT8, rows_per_s);
	one_format(q, over_link, RUNG_QUANT_INT4, rows_per_s);
}

void bench_quantized(struct bench *b)
{
	const uint64_t batch = RUNG__MAX(b->batch_bytes, b->link_bytes);
	const uint64_t bytes = TABLE_SIZE * batch / OUT_BYTES * OUT_BYTES;
	struct quantized *q = bench_alloc(sizeof(*q));

	*q = (struct quantized){ .b = b,
		                 .ops = rung__device_find(RUNG_DEVICE_CUDA)->meter,
		                 .rows = bytes / OUT_BYTES };
	q->host = bench_pinned_alloc(bytes);
	q->device = bench_device_alloc(bytes);
	q->out = bench_device_alloc(batch);
	q->ids = bench_device_alloc(batch / OUT_BYTES * BENCH_LISTS * 8);
	for (uint64_t i = 0; i < bytes / 8; i++)
		((uint64_t *)(void *)q->host)[i] = bench_draw(b->seed, i);
	bench_need(q->ops->open(b->gpu, &q->meter), "opening the meter");
	one_place(q, false);
	one_place(q, true);
	q->ops->close(q->meter);
	bench_cuda(cudaFree(q->ids), "freeing");
	bench_cuda(cudaFree(q->out), "freeing");
	bench_cuda(cudaFree(q->device), "freeing");
	bench_cuda(cudaFreeHost(q->host), "freeing");
	free(q);
}
