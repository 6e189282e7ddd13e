/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's memory: the two arrays of a graph as lines of 128 bytes, the first of them
 * interleaved over the GPUs, the others in host memory that kernels read over the link; and
 * batches, each with memory for the largest possible one.
 *
 * Lines are loaded and viewed like rows of 128 bytes, with the code for rows.
 */
#include <string.h>

#include "host/gpu.h"
#include "tier/load.h"
#include "sampler_launch.h"

#define LINE_BYTES 128u

/* The lines of one array: the first ones are in GPU memory, the others in host memory. */
struct array_memory {
	void *gpu[RUNG_GPUS_MAX]; /* the share of each GPU in the first lines */
	unsigned char *host;      /* the other lines, pinned; NULL: none */
	uint64_t host_bytes;
};

struct rung__device_sampler {
	struct rung__device *device;
	struct rung__cuda_sampler cuda;
	struct array_memory indptr, indices;
	unsigned block_count;     /* bound of the grids */
	uint64_t workspace_bytes; /* per batch */
};

struct rung__device_batch {
	struct rung__device_sampler *sampler;
	struct rung__cuda_sample sample;
	cudaEvent_t done;  /* after the batch, on its stream */
	void *report_page; /* pinned: the kernels write the report there */
	uint64_t report_bytes;
};

/* ---- the graph ---- */

/* Loads the lines that are not on the GPUs into pinned host memory. */
static int open_host_lines(struct rung__device *device, const struct rung__features *file,
                           uint64_t first, uint64_t lines, struct array_memory *memory)
{
	uint64_t begin = file->layout.data_offset + first * LINE_BYTES;
	struct rung__row_loader loader;
	int rc;

	memory->host_bytes = rung__align_up(lines * LINE_BYTES, RUNG__PAGE_BYTES);
	memory->host = rung__map_pages(memory->host_bytes);
	if (!memory->host)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: out of host memory for %" PRIu64 " bytes of the graph",
		                  file->files[0].path, memory->host_bytes);
	rc = rung__row_loader_open(file, &loader);
	if (rc < 0)
		return rc;
	/* the last line may be longer than the file */
	rc = rung__row_loader_read(
		&loader, 0, begin,
		RUNG__MIN(lines * LINE_BYTES, file->layout.file_bytes[0] - begin), memory->host);
	rung__row_loader_close(&loader);
	return rc < 0 ? rc
	              : rung__gpu_pin(device, "the graph", memory->host, memory->host_bytes, false);
}

/* Loads an array and sets its views. The caller closes `memory`, also after a failure. */
static int open_array(struct rung__device *device, const struct rung__graph_array *array,
                      struct rung__cuda_array *cuda, struct array_memory *memory)
{
	uint64_t lines = rung__cuda_lines(array->item_count, array->item_bytes);
	struct rung__ranks on_gpu = { 0, RUNG__MIN(array->gpu_lines, lines) };
	struct rung__features file = *array->file;
	void *host;
	int view, rc = 0;

	file.layout.row_bytes = file.layout.row_stride = LINE_BYTES; /* a line is a row */
	if (on_gpu.row_count > 0)
		rc = rung__gpu_alloc_shares(device, "lines of the graph", on_gpu.row_count,
		                            LINE_BYTES, 1, memory->gpu);
	if (rc == 0)
		rc = rung__gpu_load(device, &file, &on_gpu, memory->gpu, device->gpu_count);
	if (rc == 0 && on_gpu.row_count < lines)
		rc = open_host_lines(device, &file, on_gpu.row_count, lines - on_gpu.row_count,
		                     memory);
	if (rc < 0)
		return rc;
	host = memory->host;
	*cuda = (struct rung__cuda_array){ .item_bytes = array->item_bytes };
	rung__gpu_add_view(cuda->views, &cuda->view_count, memory->gpu, device->gpu_count,
	                   LINE_BYTES, on_gpu.row_count);
	view = rung__gpu_add_view(cuda->views, &cuda->view_count, &host, 1, LINE_BYTES,
	                          lines - on_gpu.row_count);
	if (view >= 0)
		cuda->views[view].over_link = 1;
	return 0;
}

static void close_array(struct rung__device *device, struct array_memory *memory)
{
	for (uint32_t g = 0; g < device->gpu_count; g++)
		rung__gpu_release(device->gpus[g], memory->gpu[g]);
	if (memory->host)
		rung__gpu_unpin(device, memory->host);
	rung__unmap_pages(memory->host, memory->host_bytes);
}

/* The worst case, limited by the caller's numbers. The capacity must not decrease from hop to
 * hop. */
static int set_capacity(struct rung__cuda_sampler *cuda, const struct rung__sampler_args *args)
{
	struct rung__cuda_sample_capacity *capacity = &cuda->capacity;
	int rc = rung__cuda_sample_capacity_max(cuda->graph.vertex_count, cuda->graph.edge_count,
	                                        cuda->fanouts, cuda->hop_count,
	                                        args->seed_count_max, capacity);

	if (rc < 0)
		return rc;
	for (uint32_t hop = 0; hop < cuda->hop_count; hop++) {
		if (args->vertex_count_max > 0)
			capacity->vertex_counts[hop + 1] =
				RUNG__MAX(capacity->vertex_counts[0],
			                  RUNG__MIN(capacity->vertex_counts[hop + 1],
			                            args->vertex_count_max));
		if (args->edge_count_max > 0)
			capacity->edge_counts[hop] =
				RUNG__MIN(capacity->edge_counts[hop], args->edge_count_max);
	}
	return 0;
}

int rung__gpu_sampler_open(struct rung__device *device, const struct rung__sampler_args *args,
                           struct rung__device_sampler **sampler_out)
{
	struct rung__device_sampler *sampler = rung__zalloc(sizeof(*sampler));
	struct rung__cuda_sampler *cuda;
	int before, rc;

	if (!sampler)
		return rung__fail(RUNG_E_NOMEM, "cuda: out of host memory");
	sampler->device = device;
	cuda = &sampler->cuda;
	cuda->graph.vertex_count = args->indptr.item_count - 1;
	cuda->graph.edge_count = args->indices.item_count;
	cuda->hop_count = args->hop_count;
	cuda->seed = args->seed;
	memcpy(cuda->fanouts, args->fanouts, args->hop_count * sizeof(*args->fanouts));
	rc = set_capacity(cuda, args);
	if (rc == 0)
		rc = rung__gpu_enter(device->gpu, &before);
	if (rc < 0)
		goto free_sampler;
	rc = open_array(device, &args->indptr, &cuda->graph.indptr, &sampler->indptr);
	if (rc == 0)
		rc = open_array(device, &args->indices, &cuda->graph.indices, &sampler->indices);
	if (rc == 0)
		rc = rung__cuda_sampler_workspace(cuda, &sampler->workspace_bytes);
	if (rc == 0)
		rc = rung__cuda_sampler_blocks(&sampler->block_count);
	rung__gpu_leave(before);
	if (rc == 0) {
		*sampler_out = sampler;
		return 0;
	}
	close_array(device, &sampler->indptr);
	close_array(device, &sampler->indices);
free_sampler:
	rung__free(sampler);
	return rc;
}

void rung__gpu_sampler_close(struct rung__device_sampler *sampler)
{
	close_array(sampler->device, &sampler->indptr);
	close_array(sampler->device, &sampler->indices);
	rung__free(sampler);
}

uint64_t rung__gpu_sampler_vertices_max(const struct rung__device_sampler *sampler)
{
	return sampler->cuda.capacity.vertex_counts[sampler->cuda.hop_count];
}

/* ---- batches ---- */

/* Allocates memory of a batch. Does nothing if *rc is a failure already, and sets *rc. */
static void *alloc(const struct rung__device_sampler *sampler, uint64_t count, uint64_t item_bytes,
                   int *rc)
{
	void *memory = NULL;
	uint64_t bytes;

	if (!rung__mul(count, item_bytes, &bytes))
		bytes = UINT64_MAX / 2; /* more than any GPU has, so the allocation reports it */
	if (*rc == 0)
		*rc = rung__gpu_alloc(sampler->device->gpu, "a batch of sampled vertices",
		                      bytes ? bytes : 1, &memory);
	return memory;
}

/* For the largest batch that the capacity allows, so that a launch allocates nothing. */
static int alloc_outputs(const struct rung__device_sampler *sampler,
                         struct rung__cuda_sample *sample)
{
	const struct rung__cuda_sample_capacity *capacity = &sampler->cuda.capacity;
	const uint64_t *vertex_counts = capacity->vertex_counts;
	const uint32_t hops = sampler->cuda.hop_count;
	int rc = 0;

	sample->vertices = alloc(sampler, vertex_counts[hops], sizeof(uint64_t), &rc);
	for (uint32_t hop = 0; hop < hops; hop++) {
		sample->indptr[hop] = alloc(sampler, vertex_counts[hop] + 1, sizeof(uint64_t), &rc);
		sample->indices[hop] =
			alloc(sampler, capacity->edge_counts[hop], sizeof(uint32_t), &rc);
	}
	sample->workspace = alloc(sampler, sampler->workspace_bytes, 1, &rc);
	sample->workspace_bytes = sampler->workspace_bytes;
	return rc;
}

void rung__gpu_batch_close(struct rung__device_batch *batch)
{
	struct rung__device *device = batch->sampler->device;
	int before;

	/* also after a failed open; NULL members are accepted */
	(void)rung__gpu_enter(device->gpu, &before);
	if (batch->done && before != RUNG__GPU_EXITING)
		(void)cudaEventDestroy(batch->done);
	rung__gpu_release(device->gpu, batch->sample.vertices);
	rung__gpu_release(device->gpu, batch->sample.workspace);
	for (uint32_t hop = 0; hop < RUNG_HOPS_MAX; hop++) {
		rung__gpu_release(device->gpu, batch->sample.indptr[hop]);
		rung__gpu_release(device->gpu, batch->sample.indices[hop]);
	}
	if (batch->report_page)
		rung__gpu_unpin(device, batch->report_page);
	rung__gpu_leave(before);
	rung__unmap_pages(batch->report_page, batch->report_bytes);
	rung__free(batch);
}

int rung__gpu_batch_open(struct rung__device_sampler *sampler,
                         struct rung__device_batch **batch_out)
{
	struct rung__device *device = sampler->device;
	struct rung__device_batch *batch = rung__zalloc(sizeof(*batch));
	int before, rc;

	if (!batch)
		return rung__fail(RUNG_E_NOMEM, "cuda: out of host memory");
	batch->sampler = sampler;
	batch->report_bytes = rung__align_up(sizeof(*batch->sample.report), RUNG__PAGE_BYTES);
	batch->report_page = rung__map_pages(batch->report_bytes);
	batch->sample.report = batch->report_page;
	rc = batch->report_page ? rung__gpu_enter(device->gpu, &before)
	                        : rung__fail(RUNG_E_NOMEM,
	                                     "cuda: out of host memory for the report of a batch");
	if (rc == 0) {
		rc = rung__gpu_pin(device, "the report of a batch", batch->report_page,
		                   batch->report_bytes, false);
		if (rc == 0)
			rc = rung__gpu_make_event(&batch->done, cudaEventBlockingSync);
		if (rc == 0)
			rc = alloc_outputs(sampler, &batch->sample);
		rung__gpu_leave(before);
	}
	if (rc < 0) {
		rung__gpu_batch_close(batch);
		return rc;
	}
	*batch_out = batch;
	return 0;
}

int rung__gpu_sample(struct rung__device_batch *batch, const uint64_t *seeds, uint64_t seed_count,
                     uint64_t batch_key, struct CUstream_st *stream)
{
	struct rung__device_sampler *sampler = batch->sampler;
	struct rung__device *device = sampler->device;
	int before, rc = rung__gpu_begin(device, "sampling", &stream, "seeds", seeds, &before);

	if (rc < 0)
		return rc;
	batch->sample.seeds = seeds;
	batch->sample.seed_count = seed_count;
	batch->sample.batch_key = batch_key;
	/* a report of the previous batch must not be mistaken for that of this one */
	batch->sample.report->outcome = RUNG__CUDA_SAMPLE_NOT_YET;
	rc = rung__cuda_sample_launch(&sampler->cuda, &batch->sample, sampler->block_count, stream);
	if (rc == 0)
		rc = cuda_status(cudaEventRecord(batch->done, stream),
		                 "recording the end of a batch");
	return rung__gpu_end(device, stream, rc, before);
}

/* The report is complete when the event has passed. It is checked by rung__cuda_sample_status(). */
int rung__gpu_sampled(struct rung__device_batch *batch, bool block,
                      struct rung__sampled *sampled_out)
{
	const struct rung__cuda_sample_report *report = batch->sample.report;
	int rc = rung__gpu_has_passed(batch->sampler->device, batch->done, block, "sampling");

	if (rc <= 0)
		return rc;
	rc = rung__cuda_sample_status(&batch->sampler->cuda, report);
	if (rc < 0)
		return rc;
	sampled_out->vertices = batch->sample.vertices;
	sampled_out->vertex_count = report->vertex_counts[batch->sampler->cuda.hop_count];
	for (uint32_t hop = 0; hop < batch->sampler->cuda.hop_count; hop++)
		sampled_out->blocks[hop] = (struct rung_block){
			.dst_count = report->vertex_counts[hop],
			.src_count = report->vertex_counts[hop + 1],
			.edge_count = report->edge_counts[hop],
			.indptr = batch->sample.indptr[hop],
			.indices = batch->sample.indices[hop],
		};
	return 1;
}
