/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading GPU memory from a file through two pinned buffers: while one is copied to the GPUs, the
 * next rows are read into the other. Rows that are interleaved over GPUs are copied to each GPU
 * with one strided copy per buffer. Runs on the thread that opens the device.
 */
#include "host/gpu.h"
#include "tier/load.h"

#define BUFFER_BYTES (8ull << 20) /* one copy: large compared with the cost of starting it */
#define BUFFERS      2u

struct load {
	struct rung__device *device;
	const struct rung__layout *layout;
	void *const *bases; /* one per GPU */
	uint32_t base_count;
	struct rung__row_loader loader;
	unsigned char *buffers; /* BUFFERS of buffer_bytes */
	uint64_t buffer_bytes;
	uint64_t rows_max;           /* rows per buffer */
	cudaEvent_t copied[BUFFERS]; /* passes when the buffer may be overwritten */
};

/* The buffers fit in one registration unless rows are wider than BUFFER_BYTES. Buffers then have
 * one row each, so only the copy of a single row can cross a border. */
_Static_assert(BUFFERS *(BUFFER_BYTES + 2 * RUNG__PAGE_BYTES) <= RUNG__REGISTER_BYTES,
               "strided copies are not split at the borders of registrations");

/* One copy per registration that contains some of the bytes: CUDA refuses copies across borders. */
static cudaError_t copy_bytes(const struct load *load, unsigned char *to, const unsigned char *from,
                              uint64_t bytes)
{
	uint64_t at = (uint64_t)(from - load->buffers);
	cudaError_t err = cudaSuccess;

	for (uint64_t done = 0; done < bytes && err == cudaSuccess;) {
		uint64_t left = RUNG__REGISTER_BYTES - (at + done) % RUNG__REGISTER_BYTES;
		uint64_t part = RUNG__MIN(bytes - done, left);

		err = cudaMemcpyAsync(to + done, from + done, (size_t)part, cudaMemcpyHostToDevice,
		                      load->device->stream);
		done += part;
	}
	return err;
}

/* Copies rows i, i + 1, ...: every base_count-th of them to each GPU, as a matrix whose pitch is
 * base_count rows. The last row is copied without its padding, because the file may end at
 * row_bytes. */
static cudaError_t copy(const struct load *load, uint64_t i, uint64_t rows,
                        const unsigned char *from)
{
	uint64_t stride = load->layout->row_stride, row_bytes = load->layout->row_bytes,
		 bases = load->base_count;
	cudaError_t err = cudaSuccess;

	if (bases == 1 || rows == 1)
		return copy_bytes(load,
		                  (unsigned char *)load->bases[i % bases] + i / bases * stride,
		                  from, (rows - 1) * stride + row_bytes);
	for (uint64_t k = 0; k < RUNG__MIN(bases, rows) && err == cudaSuccess; k++) {
		unsigned char *to =
			(unsigned char *)load->bases[(i + k) % bases] + (i + k) / bases * stride;

		err = cudaMemcpy2DAsync(to, (size_t)stride, from + k * stride,
		                        (size_t)(bases * stride), (size_t)row_bytes,
		                        (size_t)((rows - k + bases - 1) / bases),
		                        cudaMemcpyHostToDevice, load->device->stream);
	}
	return err;
}

/* Reads ranks first, first + 1, ... into a buffer. They begin at the same offset in a page as in
 * the file, so that a direct read needs no copy. @param from_out where they begin in the buffer */
static int read_rows(const struct load *load, uint64_t first, uint64_t rows, unsigned char *buffer,
                     const unsigned char **from_out)
{
	unsigned char *to = buffer + rung__row_offset(load->layout, first) % RUNG__PAGE_BYTES;

	*from_out = to;
	return rung__row_loader_rows(&load->loader, first, rows, to);
}

static int load_all(const struct load *load, const struct rung__ranks *ranks)
{
	unsigned turn = 0;

	for (uint64_t i = 0; i < ranks->row_count;
	     i += load->rows_max, turn = (turn + 1) % BUFFERS) {
		uint64_t rows = RUNG__MIN(load->rows_max, ranks->row_count - i);
		unsigned char *buffer = load->buffers + turn * load->buffer_bytes;
		const unsigned char *from = NULL;
		/* wait for the copy of the previous rows; an event that was never recorded counts
		 * as passed */
		int rc = cuda_status(cudaEventSynchronize(load->copied[turn]), "copying to a GPU");

		if (rc == 0)
			rc = read_rows(load, ranks->rank_first + i, rows, buffer, &from);
		if (rc == 0)
			rc = cuda_status(copy(load, i, rows, from), "copying to a GPU");
		if (rc == 0)
			rc = cuda_status(cudaEventRecord(load->copied[turn], load->device->stream),
			                 "copying to a GPU");
		if (rc < 0)
			return rc;
	}
	return cuda_status(cudaStreamSynchronize(load->device->stream), "copying to a GPU");
}

static int open_load(struct load *load, const struct rung__features *file)
{
	uint64_t stride = load->layout->row_stride;
	int rc = rung__row_loader_open(file, &load->loader);

	if (rc < 0)
		return rc;
	load->rows_max = RUNG__MAX(BUFFER_BYTES / stride, 1u);
	/* rows can begin and end inside pages */
	load->buffer_bytes =
		rung__align_up(load->rows_max * stride, RUNG__PAGE_BYTES) + 2 * RUNG__PAGE_BYTES;
	load->buffers = rung__map_pages(BUFFERS * load->buffer_bytes);
	if (!load->buffers)
		return rung__fail(RUNG_E_NOMEM,
		                  "cuda: out of host memory for %u load buffers of %" PRIu64
		                  " bytes",
		                  BUFFERS, load->buffer_bytes);
	rc = rung__gpu_pin(load->device, "the load buffers", load->buffers,
	                   BUFFERS * load->buffer_bytes, false);
	for (unsigned b = 0; b < BUFFERS && rc == 0; b++)
		rc = rung__gpu_make_event(&load->copied[b], cudaEventBlockingSync);
	return rc;
}

/* Also after a failed open_load(): the members that it has not reached are NULL. */
static void close_load(struct load *load, bool failed)
{
	if (failed)
		/* a copy may still read from a buffer */
		(void)cudaStreamSynchronize(load->device->stream);
	for (unsigned b = 0; b < BUFFERS; b++) {
		if (load->copied[b])
			(void)cudaEventDestroy(load->copied[b]);
	}
	if (load->buffers)
		rung__gpu_unpin(load->device, load->buffers);
	rung__unmap_pages(load->buffers, BUFFERS * load->buffer_bytes);
	if (load->loader.bounce)
		rung__row_loader_close(&load->loader);
}

int rung__gpu_load(struct rung__device *device, const struct rung__features *file,
                   const struct rung__ranks *ranks, void *const *bases, uint32_t base_count)
{
	struct load load = {
		.device = device, .layout = &file->layout, .bases = bases, .base_count = base_count
	};
	int rc;

	if (ranks->row_count == 0)
		return 0;
	rc = open_load(&load, file);
	if (rc == 0)
		rc = load_all(&load, ranks);
	close_load(&load, rc < 0);
	return rc;
}
