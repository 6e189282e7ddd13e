/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan's device: which GPU gathers, which GPUs share rows with it, and how much of their memory
 * rung may use. It is chosen before the tiers, because without CUDA the tiers "gpu" and "peer" do
 * not exist. With RUNG_DEVICE_AUTO a machine without GPUs, or a build without CUDA, is not an
 * error: the plan continues on the CPU, and keeps the message as the reason.
 */
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

#define SPARE_BYTES (1ull << 30) /* left for training unless the caller sets a GPU budget */

/* The GPUs that were requested, or the calling thread's current GPU. They are not checked yet. */
static int choose_gpus(struct rung_plan *plan, const struct rung__device_ops *ops,
                       const struct rung_plan_opts *opts)
{
	if (opts->gpus && (opts->gpu_count == 0 || opts->gpu_count > RUNG_GPUS_MAX))
		return rung__fail(RUNG_E_INVAL, "plan: %u GPUs; give 1 to %d", opts->gpu_count,
		                  RUNG_GPUS_MAX);
	if (!opts->gpus) {
		int current = ops->current();

		if (current < 0)
			return current;
		plan->gpus[0] = current;
		plan->device.gpu_count = 1;
		return 0;
	}
	memcpy(plan->gpus, opts->gpus, opts->gpu_count * sizeof(*plan->gpus));
	plan->device.gpu_count = opts->gpu_count;
	return 0;
}

/*
 * Keep only the first GPU if one GPU cannot read the memory of another. Shared rows are interleaved
 * over all GPUs, and every GPU that gathers reads from all of them, so one pair without a link
 * rules out sharing.
 */
static int fold_without_link(struct rung_plan *plan, const struct rung__device_ops *ops)
{
	for (uint32_t i = 0; i < plan->device.gpu_count; i++) {
		for (uint32_t k = 0; k < plan->device.gpu_count; k++) {
			int rc = plan->gpus[i] == plan->gpus[k]
			                 ? 1
			                 : ops->can_read(plan->gpus[i], plan->gpus[k]);

			if (rc < 0)
				return rc;
			if (rc == 0) {
				snprintf(plan->device_why, sizeof(plan->device_why),
				         "GPU %d cannot read the memory of GPU %d: no rows are "
				         "shared, GPU %d is used alone",
				         plan->gpus[i], plan->gpus[k], plan->gpus[0]);
				plan->device.gpu_count = 1;
				return 0;
			}
		}
	}
	return 0;
}

/*
 * Free memory of the GPU that has the least, minus `spare`. One budget applies to all GPUs, because
 * rows are interleaved equally. A GPU that is listed several times divides its memory among its
 * entries.
 */
static int free_of_each(const struct rung_plan *plan, const struct rung__device_ops *ops,
                        uint64_t spare, uint64_t *bytes_out)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < plan->device.gpu_count; i++) {
		struct rung_gpu_info info;
		uint64_t times = 0;
		int rc = ops->gpu_info(plan->gpus[i], &info);

		if (rc < 0)
			return rc;
		for (uint32_t k = 0; k < plan->device.gpu_count; k++)
			times += plan->gpus[k] == plan->gpus[i];
		least = RUNG__MIN(least,
		                  (info.free_bytes - RUNG__MIN(info.free_bytes, spare)) / times);
	}
	*bytes_out = least;
	return 0;
}

/*
 * Choose GPUs and their budget.
 * @return 0, RUNG_E_NOSUP in a build without CUDA, RUNG_E_NODEV without a GPU, or another error of
 *          the device
 */
static int choose_cuda(struct rung_plan *plan, const struct rung_plan_opts *opts,
                       uint64_t *gpu_bytes_out)
{
	const struct rung__device_ops *ops = rung__device_find(RUNG_DEVICE_CUDA);
	uint64_t free_bytes = 0;
	int rc = ops ? choose_gpus(plan, ops, opts) : RUNG_E_NOSUP;

	if (rc == 0)
		rc = fold_without_link(plan, ops);
	if (rc == 0) /* also checks that the GPUs exist */
		rc = free_of_each(plan, ops, SPARE_BYTES, &free_bytes);
	if (rc < 0)
		return rc;
	plan->device.device = RUNG_DEVICE_CUDA;
	*gpu_bytes_out = opts->gpu_bytes == 0                 ? free_bytes
	                 : opts->gpu_bytes == RUNG_BYTES_NONE ? 0
	                                                      : opts->gpu_bytes;
	return 0;
}

int rung__plan_choose_device(struct rung_plan *plan, const struct rung_plan_opts *opts,
                             uint64_t *gpu_bytes_out)
{
	int rc = 0;

	plan->device = (struct rung_plan_device){ .device = RUNG_DEVICE_CPU,
		                                  .why = plan->device_why,
		                                  .gpus = plan->gpus };
	*gpu_bytes_out = 0;
	if (!rung_device_name(opts->device))
		return rung__fail(
			RUNG_E_INVAL,
			"plan: device %d is not a valid value; use RUNG_DEVICE_CPU, _CUDA or _AUTO",
			(int)opts->device);
	if (opts->device != RUNG_DEVICE_CPU)
		rc = choose_cuda(plan, opts, gpu_bytes_out);
	/* other errors are reported even with AUTO: a GPU exists but cannot be used as requested */
	if (rc < 0 && opts->device == RUNG_DEVICE_AUTO &&
	    (rc == RUNG_E_NODEV || rc == RUNG_E_NOSUP)) {
		snprintf(plan->device_why, sizeof(plan->device_why), "%s", rung_last_error());
		plan->device.gpu_count = 0;
		rc = 0;
	}
	return rc;
}
