/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers of random rows, by tier. The rows of a batch are distinct and the lists alternate, so
 * that rows come from memory and not from the GPU's cache. The counters of the tiers must confirm
 * where the rows were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct gather {
	const struct bench *b;
	const struct bench_data *data;
	struct rung_store *store;
	const struct bench_lists *lists;
	unsigned char *out;
	uint64_t stride;
};

static void gather(void *ctx, unsigned turn)
{
	struct gather *g = ctx;

	bench_gather(g->b, g->store, g->lists->device[turn % BENCH_LISTS], g->lists->count, g->out,
	             g->stride);
}

static void out_head(const char *benchmark, const struct gather *g, const char *tier)
{
	out_begin(benchmark);
	out_text("tier", tier);
	out_u64("row_bytes", g->data->row_bytes);
	out_u64("out_stride", g->stride);
	out_u64("aligned", ((uintptr_t)g->out | g->stride | g->data->row_bytes) % 16 == 0);
	out_u64("rows", g->lists->count);
}

/* The counter of a tier must equal the rows requested from it so far. */
static void check_counted(const struct bench_store *store, const char *tier, uint64_t rows)
{
	uint64_t counted = bench_hits(store, tier);

	if (counted != rows)
		bench_die("tier '%s' counted %llu rows, not %llu", tier,
		          (unsigned long long)counted, (unsigned long long)rows);
	out_u64("counted_rows", counted);
}

/* Measures one tier alone. `traffic` is how often each byte crosses the path that the ceiling
 * measured: twice (read and written) in GPU memory, once over the link. `figure` is the target; 0:
 * none. */
static void one_tier(struct gather *g, const struct bench_store *store, const char *tier,
                     int shared, double traffic, double ceiling, double figure)
{
	uint64_t before = bench_hits(store, tier);
	struct bench_times times;

	bench_time_stream(g->b, gather, g, &times);
	out_head("gather", g, tier);
	out_u64("shared", (uint64_t)shared);
	out_u64("verified_rows",
	        bench_verify(g->b, g->data, g->store, g->lists, g->out, g->stride));
	check_counted(store, tier, before + (g->b->warmups + g->b->samples + 1) * g->lists->count);
	out_times("seconds", &times);
	out_real("rows_per_s", (double)g->lists->count / bench_median(&times));
	out_ratio((double)g->lists->count * g->data->row_bytes * traffic / bench_median(&times),
	          ceiling, figure > 0 ? "at_least" : NULL, figure);
	out_end();
}

static uint64_t rows_of(uint64_t bytes, const struct bench_data *data, uint64_t range)
{
	uint64_t rows = bytes / data->row_bytes;

	return rows < range ? rows : range;
}

/* Opens a store with all rows in one tier. `out_shift` bytes misalign the output and its rows. */
static void gather_from(const struct bench *b, const struct bench_data *data, const char *tier,
                        const struct bench_place *place, uint64_t batch_bytes, unsigned out_shift)
{
	const int link = strcmp(tier, "host") == 0;
	/* no target for unaligned output, peers and shared memory */
	const int aimed = !out_shift && strcmp(tier, "peer") != 0 && !place->share_path;
	const double ceiling = link ? b->ceilings.link_kernel : b->ceilings.device_copy;
	struct bench_lists lists;
	struct bench_store store;
	struct gather g = {
		.b = b, .data = data, .lists = &lists, .stride = data->row_bytes + out_shift
	};
	unsigned char *memory;

	bench_lists_make(b, 0, data->row_count, rows_of(batch_bytes, data, data->row_count),
	                 &lists);
	memory = bench_device_alloc(lists.count * g.stride + out_shift);
	bench_store_open(b, data, place, &store);
	g.store = store.store;
	g.out = memory + out_shift;
	one_tier(&g, &store, tier, place->share_path != NULL, link ? 1 : 2, ceiling,
	         !aimed ? 0
	         : link ? 0.95
	                : 0.85);
	bench_store_close(&store);
	bench_cuda(cudaFree(memory), "freeing");
	bench_lists_free(&lists);
}

/* ---- batches of rows from two tiers ---- */

/* A batch of rows from both tiers, and its two parts alone, in the same order. */
struct mix {
	struct bench_lists both, gpu, host;
};

static void mix_make(const struct bench *b, uint64_t gpu_rows, uint64_t host_rows, uint64_t range,
                     struct mix *mix)
{
	mix->both.count = gpu_rows + host_rows;
	bench_lists_make(b, 0, range, gpu_rows, &mix->gpu);
	bench_lists_make(b, range, range, host_rows, &mix->host);
	for (unsigned l = 0; l < BENCH_LISTS; l++) {
		uint64_t gpu = 0, host = 0;

		mix->both.ranks[l] = bench_alloc(mix->both.count * 8);
		/* each remaining row is equally likely to be next */
		for (uint64_t i = 0; i < mix->both.count; i++) {
			uint64_t left = mix->both.count - i;

			mix->both.ranks[l][i] =
				bench_draw(b->seed + 9 + l, i) % left < gpu_rows - gpu
					? mix->gpu.ranks[l][gpu++]
					: mix->host.ranks[l][host++];
		}
	}
	bench_lists_to_device(&mix->both);
}

static void mix_free(struct mix *mix)
{
	bench_lists_free(&mix->both);
	bench_lists_free(&mix->gpu);
	bench_lists_free(&mix->host);
}

static void mixed_share(struct gather *g, const struct bench_store *store, double share)
{
	uint64_t rows = rows_of(g->b->link_bytes, g->data, g->data->row_count / 2);
	uint64_t host_rows = (uint64_t)((double)rows * share) + 1, gpu_rows = rows - host_rows;
	uint64_t gpu_before = bench_hits(store, "gpu"), host_before = bench_hits(store, "host");
	uint64_t turns = g->b->warmups + g->b->samples;
	struct bench_times both, gpu, host;
	struct mix mix;

	mix_make(g->b, gpu_rows, host_rows, g->data->row_count / 2, &mix);
	g->lists = &mix.gpu;
	bench_time_stream(g->b, gather, g, &gpu);
	g->lists = &mix.host;
	bench_time_stream(g->b, gather, g, &host);
	g->lists = &mix.both;
	bench_time_stream(g->b, gather, g, &both);
	out_head("mixed", g, "gpu+host");
	out_real("host_share", (double)host_rows / (double)rows);
	out_u64("verified_rows",
	        bench_verify(g->b, g->data, g->store, g->lists, g->out, g->stride));
	out_object("gpu_part");
	check_counted(store, "gpu", gpu_before + (2 * turns + 1) * gpu_rows);
	out_times("seconds", &gpu);
	out_end();
	out_object("host_part");
	check_counted(store, "host", host_before + (2 * turns + 1) * host_rows);
	out_times("seconds", &host);
	out_end();
	out_times("seconds", &both);
	out_ratio(bench_median(&both),
	          bench_median(&gpu) > bench_median(&host) ? bench_median(&gpu)
	                                                   : bench_median(&host),
	          "at_most", 1.1);
	out_end();
	mix_free(&mix);
}

static void mixed(const struct bench *b, const struct bench_data *data, struct bench_place place)
{
	/* at 2.5 % both parts take about equally long if the link has 1/40 of the memory's
	 * bandwidth */
	static const double shares[] = { 0.5, 0.1, 0.025 };
	struct bench_store store;
	struct gather g = { .b = b, .data = data, .stride = data->row_bytes };

	place.gpu_rows = data->row_count / 2;
	place.host_bytes = RUNG_BYTES_MAX;
	bench_store_open(b, data, &place, &store);
	g.store = store.store;
	g.out = bench_device_alloc(b->link_bytes + data->row_bytes);
	for (unsigned s = 0; s < sizeof(shares) / sizeof(*shares); s++)
		mixed_share(&g, &store, shares[s]);
	bench_cuda(cudaFree(g.out), "freeing");
	bench_store_close(&store);
}

/* Measured separately, because shared memory has huge pages only if the kernel is configured for
 * them, unlike private memory. */
static void shared_host(const struct bench *b, const struct bench_data *data,
                        struct bench_place place)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/store", b->folder);
	place.share_path = path;
	gather_from(b, data, "host", &place, b->link_bytes, 0);
}

void bench_gathers(struct bench *b)
{
	for (unsigned w = 0; w < b->width_count; w++) {
		struct bench_place place = { .device = RUNG_DEVICE_CUDA,
			                     .host_bytes = RUNG_BYTES_MAX,
			                     .requests_max = 4 };
		struct bench_place on_gpu = place, on_peers = place;
		struct bench_data data;

		bench_data_open(b, b->widths[w], 0, &data);
		place.batch_rows_max = on_gpu.batch_rows_max = on_peers.batch_rows_max =
			(uint32_t)(b->batch_bytes / data.row_bytes + 1);
		on_gpu.gpu_rows = data.row_count;
		on_peers.peer_rows = data.row_count;
		gather_from(b, &data, "gpu", &on_gpu, b->batch_bytes, 0);
		if (data.row_bytes % 128 != 0) { /* also output that is not 16-byte aligned */
			gather_from(b, &data, "gpu", &on_gpu, b->batch_bytes, 4);
			gather_from(b, &data, "host", &place, b->link_bytes, 4);
		}
		gather_from(b, &data, "peer", &on_peers, b->batch_bytes, 0);
		gather_from(b, &data, "host", &place, b->link_bytes, 0);
		shared_host(b, &data, place);
		mixed(b, &data, place);
		bench_data_close(&data);
	}
}
