/* SPDX-License-Identifier: Apache-2.0 */
/** Measuring GPUs: which there are (measure_gpus.c), shared by the matrices (measure_gpu.c). */
#ifndef RUNG_NUMA_MEASURE_GPU_H
#define RUNG_NUMA_MEASURE_GPU_H

#include "measure.h"
#include "device/meter.h"

struct rung__measured_gpu {
	int number;                /* CUDA's; -1: it does not show it */
	int position;              /* in the topology; -1: it is not there */
	const char *bus_id;        /* NULL: not known */
	struct rung__meter *meter; /* NULL: not available, and the reason */
	const char *why;
};

/** First those that CUDA shows, by its numbers, then the others. */
struct rung__measure_gpus {
	const struct rung__meter_ops *ops; /* NULL: none has a meter */
	struct rung__measured_gpu *list;   /* [count] */
	size_t count;
};

/** @param why_out  NULL, or why no GPU has a meter. @return 0, RUNG_E_NOMEM */
int rung__measure_open_gpus(struct rung__measuring *m, struct rung__measure_gpus *gpus_out,
                            const char **why_out);
void rung__measure_close_gpus(struct rung__measure_gpus *gpus);

/** A result for each GPU without a meter, or one that reports a machine without GPUs. @param why
 * from opening */
int rung__measure_absent_gpus(struct rung__measuring *m, enum rung_numa_matrix matrix,
                              const struct rung__measure_gpus *gpus, const char *why);

/** CUDA's number of a GPU with a meter, for pinning memory, which is then pinned for all; -1:
 * none. */
int rung__measure_gpu_number(const struct rung__measure_gpus *gpus);

#endif
