/* SPDX-License-Identifier: Apache-2.0 */
/* The meter of the device "cuda", on simulated GPUs: the copies and gathers that it times are
 * really done. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "rung/rung.h"
#include "sim.h"

static void nothing_is_left(void)
{
	if (sim_live() > 0) {
		sim_leaks(stderr);
		abort();
	}
}

TestSuite(gpu_meter, .fini = nothing_is_left);

enum { ROWS = 256, BYTES = 256, PICKED = 70 };

/* Gathers each list of ids and checks the rows. */
static void gather_lists(struct rung__meter *meter, const struct rung__meter_gather *gather,
                         const uint64_t *ids)
{
	const struct rung__meter_ops *ops = rung__device_find(RUNG_DEVICE_CUDA)->meter;
	const unsigned char *rows = gather->table;
	unsigned char got[PICKED * BYTES];
	double seconds = 0;

	for (int list = 0; list < 2; list++) {
		cr_assert_eq(ops->gather(meter, gather, 1, &seconds), 0, "%s", rung_last_error());
		cr_assert_gt(seconds, 0);
		cr_assert_eq(cudaMemcpy(got, gather->out, sizeof(got), cudaMemcpyDeviceToHost),
		             cudaSuccess);
		for (int i = 0; i < PICKED; i++)
			cr_assert_arr_eq(got + i * BYTES, rows + ids[list * PICKED + i] * BYTES,
			                 BYTES, "list %d, row %d", list, i);
	}
}

Test(gpu_meter, timed_copies_and_gathers_are_done)
{
	const struct rung__meter_ops *ops = rung__device_find(RUNG_DEVICE_CUDA)->meter;
	uint64_t ids[2 * PICKED], bytes = (uint64_t)ROWS * BYTES;
	struct rung__meter_gather gather = { .table_rows = ROWS,
		                             .row_bytes = BYTES,
		                             .over_link = 1,
		                             .row_count = PICKED,
		                             .list_count = 2 };
	unsigned char *host = rung__map_pages(bytes);
	struct rung__meter_copy copy = { .bytes = bytes };
	struct rung__meter *meter;
	const char *gpus = getenv("RUNG_SIM_GPUS");
	void *ids_on_gpu, *buffer;
	double seconds = 0;

	for (uint64_t i = 0; i < bytes; i++)
		host[i] = (unsigned char)rung__mix64(i);
	for (uint64_t i = 0; i < 2 * PICKED; i++)
		ids[i] = rung__mix64(i + 99) % ROWS;
	cr_assert_eq(ops->count(), gpus ? atoi(gpus) : 1);
	cr_assert_eq(ops->open(0, &meter), 0, "%s", rung_last_error());
	cr_assert_eq(ops->pin(0, host, bytes), 0);
	cr_assert_eq(ops->alloc(0, bytes, &buffer), 0);
	cr_assert_eq(ops->alloc(0, sizeof(ids), &ids_on_gpu), 0);
	cr_assert_eq(ops->put(0, ids_on_gpu, ids, sizeof(ids)), 0);
	gather.table = host;
	gather.ids = ids_on_gpu;
	gather.out = buffer;
	gather_lists(meter, &gather, ids);
	copy.to = buffer;
	copy.from = host;
	/* more copies than are enqueued on a stream at a time */
	cr_assert_eq(ops->copy(meter, &copy, 1, 130, &seconds), 0, "%s", rung_last_error());
	memset(host, 0, bytes);
	copy.to = host;
	copy.from = buffer;
	cr_assert_eq(ops->copy(meter, &copy, 1, 1, &seconds), 0, "%s", rung_last_error());
	for (uint64_t i = 0; i < bytes; i++)
		cr_assert_eq(host[i], (unsigned char)rung__mix64(i));
	ids[0] = ROWS; /* an invalid row */
	cr_assert_eq(ops->put(0, ids_on_gpu, ids, sizeof(ids)), 0);
	cr_assert_eq(ops->gather(meter, &gather, 1, &seconds), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), "a gather found 69 of 70 rows"), "%s",
	          rung_last_error());
	ops->release(0, ids_on_gpu);
	ops->release(0, buffer);
	ops->unpin(0, host);
	ops->close(meter);
	rung__unmap_pages(host, bytes);
}

/* The first copy, and one of the timed copies, wait for the streams to drain. */
Test(gpu_meter, a_driver_that_waits_for_its_queues_causes_no_deadlock)
{
	const struct rung__meter_ops *ops = rung__device_find(RUNG_DEVICE_CUDA)->meter;
	struct rung__meter_copy copies[2] = { { .bytes = 4096 }, { .bytes = 4096 } };
	unsigned char *host = rung__map_pages(8192);
	struct rung__meter *meter;
	void *buffer;
	double seconds;

	cr_assert_eq(ops->open(0, &meter), 0, "%s", rung_last_error());
	cr_assert_eq(ops->pin(0, host, 8192), 0);
	cr_assert_eq(ops->alloc(0, 8192, &buffer), 0);
	for (int i = 0; i < 2; i++) {
		copies[i].to = (unsigned char *)buffer + 4096 * i;
		copies[i].from = host + 4096 * i;
	}
	sim_drain("cudaMemcpyAsync", 1);
	cr_assert_eq(ops->copy(meter, copies, 1, 3, &seconds), 0, "%s", rung_last_error());
	sim_drain("cudaMemcpyAsync", 2); /* the first copy on the other stream */
	cr_assert_eq(ops->copy(meter, copies, 2, 3, &seconds), 0, "%s", rung_last_error());
	sim_drain("cudaMemcpyAsync", 3);
	cr_assert_eq(ops->copy(meter, copies, 1, 3, &seconds), RUNG_E_TIMEDOUT);
	cr_assert(strstr(rung_last_error(), "not queued on a blocked stream within 5 s"), "%s",
	          rung_last_error());
	cr_assert_eq(ops->copy(meter, copies, 1, 3, &seconds), 0, "%s", rung_last_error());
	ops->release(0, buffer);
	ops->unpin(0, host);
	ops->close(meter);
	rung__unmap_pages(host, 8192);
}
