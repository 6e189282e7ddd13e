/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of the GPU and its link, with which the results of gathers are compared. */
#include <stdlib.h>

#include "bench.h"
#include "kernels.h"

/* `from` holds BENCH_LISTS buffers, used in turn, so that no copy finds its source in the cache. */
struct copy {
	const struct bench *b;
	unsigned char *from, *to;
	uint64_t bytes;
};

static const unsigned char *from_of(const struct copy *c, unsigned turn)
{
	return c->from + turn % BENCH_LISTS * c->bytes;
}

static void copy_on_device(void *ctx, unsigned turn)
{
	struct copy *c = ctx;

	bench_cuda(cudaMemcpyAsync(c->to, from_of(c, turn), c->bytes, cudaMemcpyDeviceToDevice,
	                           c->b->stream),
	           "copying on the GPU");
}

static void copy_by_kernel(void *ctx, unsigned turn)
{
	struct copy *c = ctx;

	bench_cuda(
		bench_kernel_copy(c->to, from_of(c, turn), c->bytes, c->b->sm_count, c->b->stream),
		"copying with a kernel");
}

static void copy_to_device(void *ctx, unsigned turn)
{
	struct copy *c = ctx;

	bench_cuda(cudaMemcpyAsync(c->to, from_of(c, turn), c->bytes, cudaMemcpyHostToDevice,
	                           c->b->stream),
	           "copying to the GPU");
}

static void fill(uint64_t *words, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		words[i] = bench_draw(1, i);
}

/* Compares the last copy with the buffer of its turn. */
static void check_copy(const struct copy *c, const uint64_t *source, const char *what)
{
	uint64_t *got = bench_alloc(c->bytes);
	uint64_t first = (c->b->warmups + c->b->samples - 1) % BENCH_LISTS * (c->bytes / 8);

	bench_cuda(cudaMemcpy(got, c->to, c->bytes, cudaMemcpyDeviceToHost), "copying to the host");
	for (uint64_t i = 0; i < c->bytes / 8; i++)
		if (got[i] != source[first + i])
			bench_die("%s: word %llu of the copy is wrong", what,
			          (unsigned long long)i);
	free(got);
	bench_poison(c->to, c->bytes);
}

/* `times_bytes` is 2 if reads and writes share the memory, 1 over the link. @return bytes per
 * second */
static double measure(const struct copy *c, bench_work_fn work, const char *what,
                      unsigned times_bytes, const uint64_t *source)
{
	struct bench_times times;
	double rate;

	bench_time_stream(c->b, work, (void *)c, &times);
	check_copy(c, source, what);
	rate = (double)c->bytes * times_bytes / bench_median(&times);
	out_object(what);
	out_u64("bytes", c->bytes);
	out_real("bytes_per_s", rate);
	out_times("seconds", &times);
	out_end();
	return rate;
}

static void device_copies(struct bench *b)
{
	/* bench_kernel_copy() copies pieces of 16 bytes */
	struct copy c = { .b = b, .bytes = b->batch_bytes / 16 * 16 };
	uint64_t *source = bench_alloc(c.bytes * BENCH_LISTS);

	fill(source, c.bytes * BENCH_LISTS / 8);
	c.from = bench_device_alloc(c.bytes * BENCH_LISTS);
	c.to = bench_device_alloc(c.bytes);
	bench_upload(c.from, source, c.bytes * BENCH_LISTS);
	b->ceilings.device_copy = measure(&c, copy_on_device, "device_copy", 2, source);
	measure(&c, copy_by_kernel, "device_copy_by_kernel", 2, source);
	bench_cuda(cudaFree(c.from), "freeing");
	bench_cuda(cudaFree(c.to), "freeing");
	free(source);
}

static void link_copies(struct bench *b)
{
	struct copy c = { .b = b, .bytes = b->link_bytes / 16 * 16 };

	c.from = bench_pinned_alloc(c.bytes * BENCH_LISTS);
	fill((uint64_t *)c.from, c.bytes * BENCH_LISTS / 8);
	c.to = bench_device_alloc(c.bytes);
	b->ceilings.link_kernel =
		measure(&c, copy_by_kernel, "link_copy_by_kernel", 1, (uint64_t *)c.from);
	b->ceilings.link_copy = measure(&c, copy_to_device, "link_copy", 1, (uint64_t *)c.from);
	bench_cuda(cudaFreeHost(c.from), "freeing");
	bench_cuda(cudaFree(c.to), "freeing");
}

void bench_ceilings(struct bench *b)
{
	if (b->ceilings.device_copy > 0) /* measured already, for another part */
		return;
	out_begin("ceilings");
	device_copies(b);
	link_copies(b);
	out_end();
}
