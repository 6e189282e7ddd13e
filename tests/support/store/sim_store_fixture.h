/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A store on simulated GPUs, and gathers that request the same rows of it. RUNG_TEST_DEVICE selects
 * the tiers, as in the contract tests.
 */
#ifndef SUPPORT_SIM_STORE_FIXTURE_H
#define SUPPORT_SIM_STORE_FIXTURE_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "dataset.h"
#include "sim.h"
#include "store_fixture.h"

#define ROWS  2000
#define WIDTH 400
#define ASKED 600

static struct store_fixture f;
static uint64_t ids[ASKED];
static struct rung_ids list; /* the ids, in memory of the store */

static inline void open_store_of(struct rung_store_opts opts, uint64_t memory_bytes)
{
	opts.size = sizeof(opts);
	opts.batch_rows_max = 1000;
	fixture_open(&f, ROWS, WIDTH, memory_bytes, &opts, NULL);
	fixture_random_ids(&f, ids, ASKED, 5);
	list = fixture_ids(&f, ids, ASKED, RUNG_U64, RUNG_RANKS);
}

/* @param hits  a kernel can reach every row, so no call waits */
static inline void open_store(bool hits)
{
	open_store_of((struct rung_store_opts){ .requests_max = 4 },
	              hits ? RUNG_BYTES_MAX : ROWS * WIDTH / 4);
}

/* Open the store with cold rows. */
static inline void set_up(void)
{
	open_store_of((struct rung_store_opts){ .requests_max = 3, .vertex_ids = 1 },
	              ROWS * WIDTH / 4);
}

static inline void tear_down(void)
{
	fixture_close(&f);
	if (sim_live() > 0) {
		sim_leaks(stderr);
		abort();
	}
}

/* A skipped test runs no tear-down; its store ends with the process. */
#define SKIP(why)                                                                                  \
	do {                                                                                       \
		support_remove(f.parent);                                                          \
		cr_skip_test(why);                                                                 \
	} while (0)

/* From now on no submitted work runs on a GPU. */
static inline void hold(void)
{
	if (getenv("CUDA_LAUNCH_BLOCKING"))
		SKIP("CUDA_LAUNCH_BLOCKING: launches would wait for ever");
	sim_hold(true);
}

static inline void gather_is_right(void)
{
	fixture_gather_and_check(&f, ids, ASKED);
}

static inline struct rung_request *submit(void *out, struct CUstream_st *stream)
{
	struct rung_request *request = NULL;

	cr_assert_eq(rung_gather_submit(f.store, &list, out, 0, stream, &request), 0, "%s",
	             rung_last_error());
	return request;
}

static inline void put_rows(struct rung_request *request, unsigned char *out)
{
	cr_assert_eq(rung_request_wait(request, -1), 0, "%s", rung_last_error());
	rung_request_put(request);
	fixture_check(&f, ids, ASKED, out, WIDTH);
}

static inline cudaStream_t new_stream(unsigned flags)
{
	cudaStream_t stream;

	cr_assert_eq(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
	return stream;
}

#endif
