/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows from host memory, gathered with rung's gather kernel and without it. The alternatives are:
 * the CPU gathers into page-locked memory and the batch is copied (by rung's CPU store, and by a
 * loop over OpenMP threads); a plain kernel reads pinned memory over the link; a plain kernel reads
 * managed memory that is advised to stay on the host and is mapped for the GPU. All times are by
 * the host's clock, from the call until the rows are on the GPU: gathers by the CPU have no other
 * clock.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "kernels.h"

struct baseline {
	const struct bench *b;
	const struct bench_data *data;
	const struct bench_lists *lists;
	struct bench_store cpu, gpu;
	unsigned char *table;   /* pinned: all rows in rank order */
	unsigned char *managed; /* managed memory: the first managed_rows of the table */
	uint64_t managed_rows;
	struct bench_lists managed_lists;
	unsigned char *batch; /* pinned: the CPU's gathers write here */
	unsigned char *out;   /* device memory */
};

static const uint64_t *ranks_of(const struct baseline *base, unsigned turn)
{
	return base->lists->ranks[turn % BENCH_LISTS];
}

static void send(const struct baseline *base)
{
	bench_cuda(cudaMemcpyAsync(base->out, base->batch,
	                           base->lists->count * base->data->row_bytes,
	                           cudaMemcpyHostToDevice, base->b->stream),
	           "copying a batch to the GPU");
}

static void cpu_store_and_copy(void *ctx, unsigned turn)
{
	struct baseline *base = ctx;
	struct rung_ids ids = { ranks_of(base, turn), base->lists->count, RUNG_U64, RUNG_RANKS };

	bench_need(rung_gather(base->cpu.store, &ids, base->batch, 0), "gathering on the CPU");
	send(base);
}

static void cpu_threads_and_copy(void *ctx, unsigned turn)
{
	struct baseline *base = ctx;
	const uint64_t *ranks = ranks_of(base, turn);
	const size_t row_bytes = base->data->row_bytes;

#pragma omp parallel for schedule(static)
	for (uint64_t i = 0; i < base->lists->count; i++)
		memcpy(base->batch + i * row_bytes, base->table + ranks[i] * row_bytes, row_bytes);
	send(base);
}

static void zero_copy(void *ctx, unsigned turn)
{
	struct baseline *base = ctx;

	bench_cuda(bench_kernel_rows(base->out, base->table, base->data->row_bytes,
	                             base->data->row_bytes, base->lists->device[turn % BENCH_LISTS],
	                             base->lists->count, base->b->sm_count, base->b->stream),
	           "gathering with a plain kernel");
}

static void managed(void *ctx, unsigned turn)
{
	struct baseline *base = ctx;

	bench_cuda(bench_kernel_rows(base->out, base->managed, base->data->row_bytes,
	                             base->data->row_bytes,
	                             base->managed_lists.device[turn % BENCH_LISTS],
	                             base->managed_lists.count, base->b->sm_count, base->b->stream),
	           "gathering from managed memory");
}

static void rung_host(void *ctx, unsigned turn)
{
	struct baseline *base = ctx;

	bench_gather(base->b, base->gpu.store, base->lists->device[turn % BENCH_LISTS],
	             base->lists->count, base->out, base->data->row_bytes);
}

/* ---- the measurements ---- */

/* Times one variant and checks the output of its last turn. @return rows per second */
static double measure(const struct baseline *base, const char *way, bench_work_fn work,
                      const struct bench_lists *lists)
{
	unsigned last = (base->b->warmups + base->b->samples - 1) % BENCH_LISTS;
	struct bench_times times;
	double rate;

	bench_poison(base->out, lists->count * base->data->row_bytes);
	bench_time_host(base->b, work, (void *)base, &times);
	bench_verify_output(base->data, lists->ranks[last], lists->count, base->out,
	                    base->data->row_bytes);
	rate = (double)lists->count / bench_median(&times);
	out_object(way);
	out_u64("rows", lists->count);
	out_u64("verified_rows", lists->count);
	out_times("seconds", &times);
	out_real("rows_per_s", rate);
	out_real("bytes_per_s", rate * base->data->row_bytes);
	out_end();
	return rate;
}

static void load_table(struct baseline *base)
{
	uint64_t *all = bench_alloc(base->data->row_count * 8);
	struct rung_ids ids = { all, base->data->row_count, RUNG_U64, RUNG_RANKS };

	for (uint64_t i = 0; i < base->data->row_count; i++)
		all[i] = i;
	base->table = bench_pinned_alloc(base->data->row_count * base->data->row_bytes);
	bench_need(rung_gather(base->cpu.store, &ids, base->table, 0), "reading all rows");
	free(all);
}

static cudaError_t advise(void *memory, uint64_t bytes, enum cudaMemoryAdvise advice,
                          int gpu_or_host)
{
#if CUDART_VERSION >= 13000
	struct cudaMemLocation location = { gpu_or_host < 0 ? cudaMemLocationTypeHost
		                                            : cudaMemLocationTypeDevice,
		                            gpu_or_host < 0 ? 0 : gpu_or_host };

	return cudaMemAdvise(memory, bytes, advice, location);
#else
	return cudaMemAdvise(memory, bytes, advice,
	                     gpu_or_host < 0 ? cudaCpuDeviceId : gpu_or_host);
#endif
}

/* Copies the first rows into managed memory. @return "" or why it was skipped */
static const char *load_managed(struct baseline *base)
{
	uint64_t row_bytes = base->data->row_bytes, bytes;
	size_t free_bytes, total_bytes;
	int concurrent = 0;
	void *memory = NULL;

	bench_cuda(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess,
	                                  base->b->gpu),
	           "querying the GPU's attributes");
	bench_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "querying free memory");
	base->managed_rows = base->b->managed_bytes / row_bytes;
	if (base->managed_rows > base->data->row_count)
		base->managed_rows = base->data->row_count;
	bytes = base->managed_rows * row_bytes;
	if (base->managed_rows == 0)
		return "not requested";
	if (!concurrent)
		return "the GPU and the host cannot use managed memory at the same time here";
	/* far below the size at which the driver starts to migrate pages */
	if (bytes > free_bytes / 4)
		return "larger than a quarter of the GPU's free memory";
	bench_cuda(cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal),
	           "allocating managed memory");
	bench_cuda(advise(memory, bytes, cudaMemAdviseSetPreferredLocation, -1),
	           "advising the driver on managed memory");
	bench_cuda(advise(memory, bytes, cudaMemAdviseSetAccessedBy, base->b->gpu),
	           "advising the driver on managed memory");
	memcpy(memory, base->table, bytes);
	base->managed = memory;
	bench_lists_make(base->b, 0, base->managed_rows,
	                 base->lists->count < base->managed_rows ? base->lists->count
	                                                         : base->managed_rows,
	                 &base->managed_lists);
	return "";
}

static void measure_managed(struct baseline *base)
{
	const char *why = load_managed(base);

	if (*why) {
		out_text("managed_skipped", why);
		return;
	}
	measure(base, "managed", managed, &base->managed_lists);
	bench_lists_free(&base->managed_lists);
	bench_cuda(cudaFree(base->managed), "freeing");
}

static void measure_all(struct baseline *base)
{
	double cpu, threads, ours;

	out_begin("baselines");
	out_u64("row_bytes", base->data->row_bytes);
	cpu = measure(base, "cpu_store_and_copy", cpu_store_and_copy, base->lists);
	threads = measure(base, "cpu_threads_and_copy", cpu_threads_and_copy, base->lists);
	measure(base, "zero_copy", zero_copy, base->lists);
	measure_managed(base);
	ours = measure(base, "rung_host", rung_host, base->lists);
	out_ratio(ours, threads > cpu ? threads : cpu, "at_least", 2);
	out_end();
}

void bench_baselines(struct bench *b)
{
	for (unsigned w = 0; w < b->width_count; w++) {
		struct bench_place place = { .device = RUNG_DEVICE_CPU,
			                     .host_bytes = RUNG_BYTES_MAX,
			                     .requests_max = 4 };
		struct bench_data data;
		struct bench_lists lists;
		struct baseline base = { .b = b, .data = &data, .lists = &lists };
		uint64_t rows = b->link_bytes / b->widths[w];

		if (b->widths[w] % 4 != 0) /* the plain kernel copies at least 4 bytes at a time */
			continue;
		bench_data_open(b, b->widths[w], 0, &data);
		bench_lists_make(b, 0, data.row_count,
		                 rows < data.row_count ? rows : data.row_count, &lists);
		place.batch_rows_max = (uint32_t)lists.count;
		bench_store_open(b, &data, &place, &base.cpu);
		place.device = RUNG_DEVICE_CUDA;
		bench_store_open(b, &data, &place, &base.gpu);
		base.batch = bench_pinned_alloc(lists.count * data.row_bytes);
		base.out = bench_device_alloc(lists.count * data.row_bytes);
		load_table(&base);
		measure_all(&base);
		bench_cuda(cudaFree(base.out), "freeing");
		bench_cuda(cudaFreeHost(base.batch), "freeing");
		bench_cuda(cudaFreeHost(base.table), "freeing");
		bench_store_close(&base.cpu);
		bench_store_close(&base.gpu);
		bench_lists_free(&lists);
		bench_data_close(&data);
	}
}
