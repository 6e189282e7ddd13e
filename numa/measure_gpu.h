/* SPDX-License-Identifier: Apache-2.0 */
/** Measuring GPUs: the list of GPUs (measure_gpus.c), which the matrices (measure_gpu.c) share. */
#ifndef RUNG_NUMA_MEASURE_GPU_H
#define RUNG_NUMA_MEASURE_GPU_H

#include "measure.h"
#include "device/meter.h"

/** A GPU that CUDA, the topology or both show. */
struct rung__measured_gpu {
	int number; /* CUDA's number; -1: CUDA does not show the GPU */
	/* position in the topology; -1: the GPU is not in the topology */
	int position;
	const char *bus_id;        /* NULL: unknown; owned by the report */
	struct rung__meter *meter; /* NULL: not available; why has the reason */
	const char *why;           /* owned by the report */
};

/** All GPUs: first the ones that CUDA shows, by its numbers, then the others. */
struct rung__measure_gpus {
	const struct rung__meter_ops *ops; /* NULL: none has a meter */
	struct rung__measured_gpu *list;   /* [count] */
	size_t count;
};

/** List the GPUs and open a meter for each that can be measured. A GPU that cannot be measured is
 * in the list with the reason.
 * @param why_out  set to NULL, or to the reason why CUDA has no GPU at all
 * @return 0, RUNG_E_NOMEM */
int rung__measure_open_gpus(struct rung__measuring *m, struct rung__measure_gpus *gpus_out,
                            const char **why_out);
/** Close the meters and free the list. */
void rung__measure_close_gpus(struct rung__measure_gpus *gpus);

/** Add an absent result for each GPU without a meter; on a machine without GPUs add one result
 * without a GPU. @param why  from rung__measure_open_gpus() */
int rung__measure_absent_gpus(struct rung__measuring *m, enum rung_numa_matrix matrix,
                              const struct rung__measure_gpus *gpus, const char *why);

/** CUDA's number of the first GPU with a meter; -1: none. Memory pinned through it is pinned for
 * all GPUs. */
int rung__measure_gpu_number(const struct rung__measure_gpus *gpus);

#endif
