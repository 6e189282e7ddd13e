/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs to measure: those that CUDA shows, each with a meter, and those of the topology that
 * CUDA does not show, each with a reason.
 *
 * CUDA and the topology number GPUs differently, so GPUs are matched by bus id. A failure of CUDA
 * is a property of the machine and becomes the reason of absent values; only a lack of host memory
 * ends the call.
 */
#include <string.h>

#include "device/device.h"
#include "measure_gpu.h"

/* Position of a GPU in the topology, by its bus id; -1: the kernel does not show it. */
static int position_of(const struct rung_topology *topology, const char *bus_id)
{
	struct rung_topology_info info = { .size = sizeof(info) };

	rung_topology_info(topology, &info);
	for (uint32_t i = 0; i < info.gpu_count; i++) {
		const struct rung_topology_device *device = rung_topology_device(topology, i);

		if (device->bus_id && strcmp(device->bus_id, bus_id) == 0)
			return (int)i;
	}
	return -1;
}

/* Add a GPU that CUDA shows. It is in the list before anything can fail, so that a meter is closed
 * by rung__measure_close_gpus() in any case. */
static int open_gpu(struct rung__measuring *m, struct rung__measure_gpus *gpus,
                    const struct rung__device_ops *device, int number)
{
	struct rung__measured_gpu *gpu = &gpus->list[gpus->count];
	struct rung_gpu_info info = { .size = sizeof(info) };
	int rc = device->gpu_info(number, &info);

	*gpu = (struct rung__measured_gpu){ .number = number, .position = -1 };
	gpus->count++;
	if (rc < 0)
		/* RUNG_E_NOMEM is a lack of GPU memory here, which must not end the call */
		return rung__measure_why(m, rc == RUNG_E_NOMEM ? RUNG_E_NODEV : rc, &gpu->why);
	gpu->bus_id = rung__measure_text(m, "%s", info.bus_id);
	if (!gpu->bus_id)
		return rung__measure_out_of_memory();
	gpu->position = position_of(m->topology, info.bus_id);
	rc = gpus->ops->open(number, &gpu->meter);
	if (rc < 0)
		rc = rung__measure_why(m, rc, &gpu->why);
	if (rc == 0 && gpu->why) /* other GPUs may have the same reason */
		gpu->why = rung__measure_text(m, "GPU %d (%s): %s", number, gpu->bus_id, gpu->why);
	/* no meter and no reason: the text of the reason could not be allocated */
	return rc == 0 && !gpu->meter && !gpu->why ? rung__measure_out_of_memory() : rc;
}

/* Add the GPUs of the topology that CUDA does not show. @param why  reason why CUDA shows no GPU;
 * NULL: it shows others, and hides these by request (CUDA_VISIBLE_DEVICES) or does not support
 * them */
static int add_others(struct rung__measuring *m, struct rung__measure_gpus *gpus, const char *why)
{
	struct rung_topology_info info = { .size = sizeof(info) };
	const size_t shown = gpus->count; /* only entries of GPUs that CUDA shows can match */

	rung_topology_info(m->topology, &info);
	for (uint32_t i = 0; i < info.gpu_count; i++) {
		const struct rung_topology_device *device = rung_topology_device(m->topology, i);
		struct rung__measured_gpu *gpu = &gpus->list[gpus->count];
		size_t at = 0;

		while (at < shown && gpus->list[at].position != (int)i)
			at++;
		if (at < shown)
			continue;
		*gpu = (struct rung__measured_gpu){
			.number = -1,
			.position = (int)i,
			.bus_id =
				device->bus_id ? rung__measure_text(m, "%s", device->bus_id) : NULL
		};
		gpu->why = why ? why
		               : rung__measure_text(
					 m, "CUDA does not show %s to this process (driver %s)",
					 device->name, device->driver ? device->driver : "none");
		if (!gpu->why || (device->bus_id && !gpu->bus_id))
			return rung__measure_out_of_memory();
		gpus->count++;
	}
	return 0;
}

void rung__measure_close_gpus(struct rung__measure_gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++) {
		if (gpus->list[i].meter)
			gpus->ops->close(gpus->list[i].meter);
	}
	rung__free(gpus->list);
}

int rung__measure_open_gpus(struct rung__measuring *m, struct rung__measure_gpus *gpus_out,
                            const char **why_out)
{
	const struct rung__device_ops *device = rung__device_find(RUNG_DEVICE_CUDA);
	struct rung_topology_info info = { .size = sizeof(info) };
	struct rung__measure_gpus gpus = { .ops = device ? device->meter : NULL };
	/* without a device or a driver the last error is the reason */
	int count = gpus.ops ? gpus.ops->count() : RUNG_E_NOSUP, rc = 0;
	const char *why = NULL;

	rung_topology_info(m->topology, &info);
	if (count < 0) {
		why = rung__measure_text(m, info.gpu_count ? "%s" : "no GPU (%s)",
		                         rung_last_error());
		count = 0;
		rc = why ? 0 : rung__measure_out_of_memory();
	}
	/* enough even if CUDA and the topology have no GPU in common */
	gpus.list = rung__zalloc_array((uint64_t)count + info.gpu_count, sizeof(*gpus.list));
	if (!gpus.list)
		rc = rung__measure_out_of_memory();
	for (int i = 0; i < count && rc == 0; i++)
		rc = open_gpu(m, &gpus, device, i);
	if (rc == 0)
		rc = add_others(m, &gpus, why);
	if (rc < 0) {
		rung__measure_close_gpus(&gpus);
		return rc;
	}
	*gpus_out = gpus;
	*why_out = why;
	return 0;
}

int rung__measure_absent_gpus(struct rung__measuring *m, enum rung_numa_matrix matrix,
                              const struct rung__measure_gpus *gpus, const char *why)
{
	struct rung_numa_result like = rung__measure_blank(matrix);
	int rc = 0;

	if (gpus->count == 0)
		return rung__measure_absent(m, &like, 0, why ? why : "no GPU");
	for (size_t i = 0; i < gpus->count && rc == 0; i++) {
		const struct rung__measured_gpu *gpu = &gpus->list[i];

		like.gpu = gpu->position;
		like.gpu_bus_id = gpu->bus_id;
		/* the group that its first measured pair would have */
		if (!gpu->meter)
			rc = rung__measure_absent(m, &like, (uint32_t)(i * gpus->count), gpu->why);
	}
	return rc;
}

int rung__measure_gpu_number(const struct rung__measure_gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++) {
		if (gpus->list[i].meter)
			return gpus->list[i].number;
	}
	return -1;
}
