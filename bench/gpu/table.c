/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers from tables of realistic size, without a file: one kernel fills the rows and another one
 * compares them. A table of many GiB exceeds the reach of the GPU's TLB, which a small table does
 * not show. No public function gathers from memory outside a dataset, so this file uses the
 * library's meter, which times the kernel of the store.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "device/device.h"
#include "kernels.h"

#define SEED 77u

struct table {
	const struct bench *b;
	const struct rung__meter_ops *ops;
	struct rung__meter *meter;
	unsigned char *rows;
	uint64_t bytes;
	uint32_t row_bytes;
	uint64_t count; /* ids of a list */
	uint64_t *ids;  /* [BENCH_LISTS x count], GPU memory */
	unsigned char *out;
};

static void draw_ids(struct table *t)
{
	const uint64_t count = t->count * BENCH_LISTS, seed = t->b->seed + t->bytes + t->row_bytes;
	uint64_t *ids = bench_alloc(count * 8);

	for (uint64_t i = 0; i < count; i++)
		ids[i] = bench_draw(seed, i) % (t->bytes / t->row_bytes);
	t->ids = bench_device_alloc(count * 8);
	bench_upload(t->ids, ids, count * 8);
	free(ids);
}

static struct rung__meter_gather gather_of(const struct table *t)
{
	return (struct rung__meter_gather){
		.table = t->rows,
		.table_rows = t->bytes / t->row_bytes,
		.row_bytes = t->row_bytes,
		.ids = t->ids,
		.row_count = t->count,
		.list_count = BENCH_LISTS,
		.out = t->out,
	};
}

/* One sample is one gather of each list, divided by their number. */
static struct bench_times time_gathers(const struct table *t)
{
	const struct rung__meter_gather gather = gather_of(t);
	struct bench_times times = { 0 };

	for (unsigned turn = 0; turn < t->b->warmups + t->b->samples; turn++) {
		double seconds;

		bench_need(t->ops->gather(t->meter, &gather, BENCH_LISTS, &seconds),
		           "gathering from a table");
		if (turn >= t->b->warmups)
			bench_add(&times, seconds / BENCH_LISTS);
	}
	return times;
}

static void plain_gather(void *ctx, unsigned turn)
{
	const struct table *t = ctx;
	const uint64_t *ids = t->ids + turn % BENCH_LISTS * t->count;

	bench_cuda(bench_kernel_rows(t->out, t->rows, t->row_bytes, t->row_bytes, ids, t->count,
	                             t->b->sm_count, t->b->stream),
	           "gathering with a plain kernel");
}

static void check_out(const struct table *t, const uint64_t *ids)
{
	uint64_t wrong = 0, *wrong_at = bench_device_alloc(sizeof(wrong));

	bench_upload(wrong_at, &wrong, sizeof(wrong));
	bench_cuda(bench_kernel_compare(t->out, t->row_bytes, ids, t->count, SEED, wrong_at,
	                                t->b->sm_count, t->b->stream),
	           "comparing rows on the GPU");
	bench_cuda(cudaStreamSynchronize(t->b->stream), "comparing rows on the GPU");
	bench_cuda(cudaMemcpy(&wrong, wrong_at, sizeof(wrong), cudaMemcpyDeviceToHost),
	           "copying a count to the host");
	bench_cuda(cudaFree(wrong_at), "freeing");
	if (wrong)
		bench_die("a table of %llu bytes: %llu words of %llu rows of %u bytes are wrong",
		          (unsigned long long)t->bytes, (unsigned long long)wrong,
		          (unsigned long long)t->count, t->row_bytes);
}

/* Gathers list 0 and compares its rows. The meter is given one list only, so that it gathers this
 * one. */
static uint64_t verify(const struct table *t)
{
	struct rung__meter_gather gather = gather_of(t);
	double seconds;

	gather.list_count = 1;
	bench_poison(t->out, t->count * t->row_bytes);
	bench_need(t->ops->gather(t->meter, &gather, 1, &seconds), "gathering from a table");
	check_out(t, t->ids);
	return t->count;
}

static void one_width(struct table *t)
{
	struct bench_times times, plain;
	double bytes;

	if (t->row_bytes % 8)
		bench_die("--row-bytes: %u; rows of a table need a multiple of 8 bytes",
		          t->row_bytes);
	t->count = t->b->batch_bytes / t->row_bytes;
	t->out = bench_device_alloc(t->count * t->row_bytes);
	draw_ids(t);
	times = time_gathers(t);
	bench_time_stream(t->b, plain_gather, t, &plain);
	check_out(t, t->ids + (t->b->warmups + t->b->samples - 1) % BENCH_LISTS * t->count);
	out_begin("table");
	out_u64("table_bytes", t->bytes);
	out_u64("row_bytes", t->row_bytes);
	out_u64("rows", t->count);
	out_u64("verified_rows", verify(t));
	out_times("seconds", &times);
	out_real("rows_per_s", (double)t->count / bench_median(&times));
	out_object("plain_kernel");
	out_times("seconds", &plain);
	out_real("rows_per_s", (double)t->count / bench_median(&plain));
	out_end();
	bytes = 2 * (double)t->count * t->row_bytes;
	out_ratio(bytes / bench_median(&times), t->b->ceilings.device_copy, "at_least", 0.85);
	out_end();
	bench_cuda(cudaFree(t->ids), "freeing");
	bench_cuda(cudaFree(t->out), "freeing");
}

static void out_skipped(const struct table *t, const char *why)
{
	out_begin("table");
	out_u64("table_bytes", t->bytes);
	out_text("skipped", why);
	out_end();
}

/* The batch, its ids and a margin must fit in addition to the table. */
static int has_room(const struct table *t)
{
	size_t free_bytes, total_bytes;

	bench_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "querying free memory");
	return t->bytes <= free_bytes && free_bytes - t->bytes >= t->b->batch_bytes * 2;
}

static void one_table(struct table *t)
{
	if (t->bytes < t->b->batch_bytes) {
		out_skipped(t, "smaller than a batch");
		return;
	}
	if (!has_room(t)) {
		out_skipped(t, "the GPU has no room for it and a batch");
		return;
	}
	t->rows = bench_device_alloc(t->bytes);
	bench_cuda(bench_kernel_fill(t->rows, t->bytes, SEED, t->b->sm_count, t->b->stream),
	           "filling a table");
	bench_cuda(cudaStreamSynchronize(t->b->stream), "filling a table");
	for (unsigned w = 0; w < t->b->width_count; w++) {
		t->row_bytes = t->b->widths[w];
		one_width(t);
	}
	bench_cuda(cudaFree(t->rows), "freeing");
}

void bench_table(struct bench *b)
{
	const struct rung__device_ops *device = rung__device_find(RUNG_DEVICE_CUDA);
	struct table table = { .b = b, .ops = device->meter };

	bench_need(table.ops->open(b->gpu, &table.meter), "opening the meter");
	for (unsigned i = 0; i < b->table_count; i++) {
		table.bytes = b->tables[i] / 16 * 16;
		one_table(&table);
	}
	table.ops->close(table.meter);
}
