/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the bytes that a GPU gathers with those that the CPU device gathers from the same
 * dataset, for every mix of tiers, dtype of ids, id space, width and stride. The datasets are
 * small, so that it also runs under a memory checker. Bytes between the rows must not be written.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define COLD_SLOTS_BYTES (UINT64_C(256) << 10)

/* Shares of the rows in eighths; the remaining rows are in the file. */
struct check_mix {
	const char *name;
	unsigned gpu, peer, host;
};

static const struct check_mix mixes[] = {
	{ "gpu", 8, 0, 0 },       { "peer", 0, 8, 0 },          { "host", 0, 0, 8 },
	{ "nvme", 0, 0, 0 },      { "gpu+host", 4, 0, 4 },      { "gpu+nvme", 4, 0, 0 },
	{ "host+nvme", 0, 0, 4 }, { "gpu+peer+host", 2, 3, 3 }, { "gpu+peer+host+nvme", 1, 3, 2 },
};

static const enum rung_dtype dtypes[] = { RUNG_I32, RUNG_U32, RUNG_I64, RUNG_U64 };

struct check {
	struct bench *b;
	const struct bench_data *data;
	struct bench_store cpu, gpu;
	uint64_t count;
	uint64_t *ids;
	void *narrow, *device_ids;     /* the ids in the dtype of the case */
	unsigned char *expected, *got; /* host memory */
	unsigned char *out;            /* device memory */
	uint64_t cases, rows;
};

static struct rung_ids list_of(const struct check *c, enum rung_dtype dtype,
                               enum rung_id_space space)
{
	uint64_t width = dtype == RUNG_I64 || dtype == RUNG_U64 ? 8 : 4;

	for (uint64_t i = 0; i < c->count; i++) /* little endian: the low half is stored first */
		memcpy((char *)c->narrow + i * width, &c->ids[i], width);
	bench_upload(c->device_ids, c->narrow, c->count * width);
	return (struct rung_ids){ c->narrow, c->count, dtype, space };
}

static void draw_ids(const struct check *c, uint64_t seed)
{
	for (uint64_t i = 0; i < c->count; i++) {
		uint64_t draw = bench_draw(seed, i);

		/* a quarter of the ids are repeated ones */
		c->ids[i] = draw % 4 == 0 && i ? c->ids[(draw >> 2) % i]
		                               : (draw >> 2) % c->data->row_count;
	}
}

static void one_case(struct check *c, const char *mix, enum rung_dtype dtype,
                     enum rung_id_space space, uint64_t gap)
{
	uint64_t stride = c->data->row_bytes + gap, bytes = c->count * stride;
	struct rung_ids ids;

	draw_ids(c, c->b->seed + 100 + c->cases);
	ids = list_of(c, dtype, space);
	memset(c->expected, BENCH_POISON, bytes);
	bench_need(rung_gather(c->cpu.store, &ids, c->expected, stride), "gathering on the CPU");
	bench_poison(c->out, bytes);
	ids.data = c->device_ids;
	bench_need(rung_gather(c->gpu.store, &ids, c->out, stride), "gathering on the GPU");
	bench_cuda(cudaMemcpy(c->got, c->out, bytes, cudaMemcpyDeviceToHost),
	           "copying the rows to the host");
	if (memcmp(c->got, c->expected, bytes) != 0)
		bench_die("%s: rows of %u bytes, ids %s %s, stride %llu: GPU and CPU differ", mix,
		          c->data->row_bytes, rung_dtype_name(dtype),
		          space == RUNG_RANKS ? "ranks" : "vertices", (unsigned long long)stride);
	c->cases++;
	c->rows += c->count;
}

/* A tier has hits exactly if it holds rows, and the hits add up to all gathered rows. */
static void check_tiers(const struct check *c, const char *mix)
{
	struct rung_store_stats stats = bench_stats(&c->gpu);
	uint64_t hits = 0;

	for (uint32_t i = 0; i < stats.tier_count; i++) {
		const struct rung_plan_tier *tier = bench_tier(&c->gpu, stats.tiers[i].name);

		if ((tier->row_count == 0) != (stats.tiers[i].hits == 0))
			bench_die("%s: tier '%s' holds %llu rows and counted %llu", mix, tier->name,
			          (unsigned long long)tier->row_count,
			          (unsigned long long)stats.tiers[i].hits);
		hits += stats.tiers[i].hits;
	}
	if (hits != c->count * 8) /* the cases of one mix: four dtypes, two id spaces */
		bench_die("%s: %llu rows counted, not %llu", mix, (unsigned long long)hits,
		          (unsigned long long)c->count * 8);
}

static void one_mix(struct check *c, const struct check_mix *mix)
{
	uint64_t rows = c->data->row_count, bytes = rows * c->data->row_stride;
	struct bench_place place = { .device = RUNG_DEVICE_CUDA,
		                     .batch_rows_max = (uint32_t)c->count,
		                     .vertex_ids = 1 };
	int all = mix->gpu + mix->peer + mix->host == 8;

	place.gpu_rows = rows * mix->gpu / 8;
	place.peer_rows = all && mix->host == 0 ? rows - place.gpu_rows : rows * mix->peer / 8;
	if (mix->peer == 0)
		place.peer_rows = 0;
	/* an eighth more, for the slots. With room for all remaining rows in the host tier, there
	 * would be neither slots nor cold rows */
	place.host_bytes =
		all ? RUNG_BYTES_MAX : bytes * mix->host / 8 + (mix->host ? bytes / 8 : 0);
	if (place.host_bytes < COLD_SLOTS_BYTES)
		place.host_bytes = COLD_SLOTS_BYTES;
	bench_store_open(c->b, c->data, &place, &c->gpu);
	for (unsigned d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++) {
		one_case(c, mix->name, dtypes[d], RUNG_RANKS, d == 1 ? 16 : 0);
		one_case(c, mix->name, dtypes[d], RUNG_VERTICES, d == 2 ? 3 : 0);
	}
	check_tiers(c, mix->name);
	bench_store_close(&c->gpu);
}

static void check_width(struct bench *b, uint32_t row_bytes, struct check *c)
{
	struct bench_place on_cpu = { .device = RUNG_DEVICE_CPU,
		                      .host_bytes = RUNG_BYTES_MAX,
		                      .vertex_ids = 1 };
	struct bench_data data;
	uint64_t rows = b->size / row_bytes;

	bench_data_open(b, row_bytes, rows < b->check_rows ? rows : b->check_rows, &data);
	c->data = &data;
	c->count = data.row_count;
	on_cpu.batch_rows_max = (uint32_t)c->count;
	bench_store_open(b, &data, &on_cpu, &c->cpu);
	c->ids = bench_alloc(c->count * 8);
	c->narrow = bench_alloc(c->count * 8);
	c->device_ids = bench_device_alloc(c->count * 8);
	c->expected = bench_alloc(c->count * (row_bytes + 16));
	c->got = bench_alloc(c->count * (row_bytes + 16));
	c->out = bench_device_alloc(c->count * (row_bytes + 16));
	for (unsigned m = 0; m < sizeof(mixes) / sizeof(*mixes); m++)
		one_mix(c, &mixes[m]);
	bench_store_close(&c->cpu);
	bench_cuda(cudaFree(c->device_ids), "freeing");
	bench_cuda(cudaFree(c->out), "freeing");
	free(c->ids);
	free(c->narrow);
	free(c->expected);
	free(c->got);
	bench_data_close(&data);
}

void bench_check(struct bench *b)
{
	/* not multiples of 16 bytes: rows are copied in pieces of 4 bytes and of 1 byte */
	static const uint32_t odd[] = { 100, 1201 };
	struct check c = { .b = b };

	for (unsigned w = 0; w < b->width_count; w++)
		check_width(b, b->widths[w], &c);
	for (unsigned w = 0; w < sizeof(odd) / sizeof(*odd); w++)
		check_width(b, odd[w], &c);
	out_begin("check");
	out_u64("mixes", sizeof(mixes) / sizeof(*mixes));
	out_u64("cases", c.cases);
	out_u64("compared_rows", c.rows);
	out_u64("wrong_rows", 0); /* a wrong row has ended the program */
	out_end();
}
