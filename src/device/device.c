/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that this build has, and the properties of a GPU. */
#include <assert.h>

#include "device/device.h"
#include "registry/registry.h"
#include "rung_config.h"

static const char *const names[] = {
	[RUNG_DEVICE_CPU] = "cpu", [RUNG_DEVICE_CUDA] = "cuda", [RUNG_DEVICE_AUTO] = "auto"
};

const char *rung_device_name(enum rung_device device)
{
	return (unsigned)device < RUNG__ARRAY_LEN(names) ? names[device] : NULL;
}

const struct rung__device_ops *rung__device_find(enum rung_device device)
{
	const struct rung__device_ops *ops =
		device == RUNG_DEVICE_CUDA ? rung__registry_cuda() : NULL;

	if (!ops)
		rung__fail(RUNG_E_NOSUP, "device %s is not built in: %s", rung_device_name(device),
		           RUNG_WHY_CUDA);
	/* device and library are built together, and no function of the table is optional */
	assert(!ops || (ops->abi == RUNG__DEVICE_ABI && ops->size == sizeof(*ops)));
	return ops;
}

int rung_gpu_info(int gpu, struct rung_gpu_info *info_out)
{
	const struct rung__device_ops *ops = rung__device_find(RUNG_DEVICE_CUDA);
	struct rung_gpu_info info = { .size = sizeof(info) };
	int rc;

	if (!ops)
		return RUNG_E_NOSUP;
	rc = gpu < 0 ? ops->current() : gpu; /* negative: the current GPU of this thread */
	if (rc < 0)
		return rc;
	rc = ops->gpu_info(rc, &info);
	return rc < 0 ? rc : rung__opts_copy_out(info_out, &info, sizeof(info), "rung_gpu_info");
}
