/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Loaders of a store on simulated GPUs, and the caller's work on a stream, which reads their
 * batches and can be held.
 */
#ifndef SUPPORT_GPU_LOADER_FIXTURE_H
#define SUPPORT_GPU_LOADER_FIXTURE_H

#include "loader/state.h"
#include "dataset.h"
#include "loader_fixture.h"
#include "sim.h"

#define POOL           4u /* batches whose rows have memory before any is used again: gathers + 2 */
#define ALL            (ROWS * WIDTH * 2)
#define BATCH_ROWS_MAX (BATCH * 5 * 4)

typedef int (*wait_value_fn)(cudaStream_t stream, unsigned long long at, uint32_t value,
                             unsigned flags);

/* The caller's work on a stream. It starts when the word is set, and copies rows. */
static struct {
	uint32_t *word;        /* pinned */
	unsigned char *copies; /* pinned: [BATCHES][BATCH_ROWS_MAX * WIDTH] */
	uint64_t *ranks;       /* pinned: [BATCHES][BATCH_ROWS_MAX], of batches on the GPU */
	cudaStream_t stream;   /* not ordered with the legacy stream */
} user;

static inline void close_all(void)
{
	cr_assert_eq(cudaStreamDestroy(user.stream), cudaSuccess);
	cr_assert_eq(cudaFreeHost(user.word), cudaSuccess);
	cr_assert_eq(cudaFreeHost(user.copies), cudaSuccess);
	cr_assert_eq(cudaFreeHost(user.ranks), cudaSuccess);
	close_store();
	if (sim_live() > 0) {
		sim_leaks(stderr);
		cr_assert_fail("CUDA objects leaked");
	}
}

static inline void open_all(uint64_t host_bytes)
{
	open_store(host_bytes, (struct rung_store_opts){ .batch_rows_max = 1u << 14 });
	cr_assert_eq(cudaHostAlloc((void **)&user.word, 64, cudaHostAllocMapped), cudaSuccess);
	cr_assert_eq(cudaHostAlloc((void **)&user.copies, (size_t)BATCHES * BATCH_ROWS_MAX * WIDTH,
	                           cudaHostAllocMapped),
	             cudaSuccess);
	cr_assert_eq(cudaHostAlloc((void **)&user.ranks, (size_t)BATCHES * BATCH_ROWS_MAX * 8,
	                           cudaHostAllocMapped),
	             cudaSuccess);
	cr_assert_eq(cudaStreamCreateWithFlags(&user.stream, cudaStreamNonBlocking), cudaSuccess);
	*user.word = 0;
	memset(user.copies, 0x11, (size_t)BATCHES * BATCH_ROWS_MAX * WIDTH);
}

/* From now on, work that is submitted to the stream waits until let_go(). */
static inline void hold(cudaStream_t stream)
{
	enum cudaDriverEntryPointQueryResult found;
	void *function = NULL;
	wait_value_fn wait_value;

	cr_assert_eq(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000,
	                                              cudaEnableDefault, &found),
	             cudaSuccess);
	memcpy(&wait_value, &function, sizeof(function));
	__atomic_store_n(user.word, 0, __ATOMIC_RELEASE);
	cr_assert_eq(wait_value(stream, (unsigned long long)(uintptr_t)user.word, 1, 0), 0);
}

static inline void let_go(void)
{
	__atomic_store_n(user.word, 1, __ATOMIC_RELEASE);
}

static inline unsigned char *copy_of(uint64_t idx)
{
	return user.copies + idx * BATCH_ROWS_MAX * WIDTH;
}

/* As in training: work that reads the rows is ordered after them, and the batch is put while that
 * work is still pending. */
static inline void use_and_put(struct rung_loader *loader, const struct rung_loader_batch *batch,
                               cudaStream_t stream)
{
	cr_assert_leq(batch->rank_count, BATCH_ROWS_MAX);
	if (batch->request)
		cr_assert_eq(rung_request_wait_stream(batch->request, stream), 0, "%s",
		             rung_last_error());
	cr_assert_eq(cudaMemcpyAsync(copy_of(batch->batch_idx), batch->rows,
	                             batch->rank_count * WIDTH, cudaMemcpyDeviceToHost, stream),
	             cudaSuccess);
	if (batch->on_gpu)
		cr_assert_eq(cudaMemcpyAsync(user.ranks + batch->batch_idx * BATCH_ROWS_MAX,
		                             batch->ranks, batch->rank_count * 8,
		                             cudaMemcpyDeviceToHost, stream),
		             cudaSuccess);
	rung_loader_put(loader, batch, stream);
}

static inline void check_copy(uint64_t idx)
{
	unsigned char row[WIDTH];
	uint64_t count;
	const uint64_t *ranks = rung_batch_vertices(expected[idx], &count);

	if (samples_on_gpu())
		cr_assert_eq(memcmp(user.ranks + idx * BATCH_ROWS_MAX, ranks, count * 8), 0,
		             "batch %" PRIu64, idx);
	for (uint64_t i = 0; i < count; i++) {
		support_row(f.vertex_of_rank[ranks[i]], WIDTH, row);
		cr_assert_eq(memcmp(row, copy_of(idx) + i * WIDTH, WIDTH), 0,
		             "batch %" PRIu64 ", row %" PRIu64, idx, i);
	}
}

static inline void check_copies(void)
{
	for (uint64_t b = 0; b < BATCHES; b++)
		check_copy(b);
}

/* The whole pass is submitted to the caller's stream before anything waits for it; with
 * RUNG_SIM_LAZY nothing has run by then. */
static inline void run_unwaited(struct rung_loader *loader, cudaStream_t stream)
{
	begin(loader, whole_pass());
	for (uint64_t b = 0; b < BATCHES; b++)
		use_and_put(loader, next(loader), stream);
	check_end(loader);
	cr_assert_eq(cudaStreamSynchronize(stream), cudaSuccess);
	check_copies();
}

#endif
