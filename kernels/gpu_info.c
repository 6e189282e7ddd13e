/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs there are, and what they can reach. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "place.h"

int rung__gpu_enter(int gpu, int *before_out)
{
	int rc = cuda_status(cudaGetDevice(before_out), "asking which GPU is current");

	if (rc == 0 && *before_out != gpu)
		rc = cuda_status(cudaSetDevice(gpu), "making a GPU current");
	return rc;
}

void rung__gpu_leave(int before)
{
	(void)cudaSetDevice(before);   /* it was current before: that it cannot be again is said by the caller's next call */
}

/* The first question to CUDA: without a driver this is where it says so. */
static int check_gpu(int gpu)
{
	int count, rc = cuda_status(cudaGetDeviceCount(&count), "looking for GPUs");

	if (rc < 0)
		return rc;
	if (gpu < 0 || gpu >= count)
		return rung__fail(RUNG_E_NODEV, "cuda: there is no GPU %d: CUDA shows %d to this process (CUDA_VISIBLE_DEVICES)", gpu, count);
	return 0;
}

int rung__gpu_current(void)
{
	int gpu, rc = check_gpu(0);

	if (rc == 0)
		rc = cuda_status(cudaGetDevice(&gpu), "asking which GPU is current");
	return rc < 0 ? rc : gpu;
}

/* -1 where the kernel does not say, or there is one node only. */
static int node_of(const char *bus_id)
{
	char path[512];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/numa_node", rung__machine_root, bus_id);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node;
}

static int memory_of(int gpu, struct rung_gpu_info *info)
{
	size_t free_bytes = 0, total_bytes = 0;
	int before, rc = rung__gpu_enter(gpu, &before);

	if (rc < 0)
		return rc;
	rc = cuda_status(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for a GPU's free memory");
	rung__gpu_leave(before);
	info->free_bytes = free_bytes;
	info->total_bytes = total_bytes;
	return rc;
}

int rung__gpu_info(int gpu, struct rung_gpu_info *info_out)
{
	struct rung_gpu_info info = { .size = sizeof(info) };
	struct cudaDeviceProp prop;
	int rc = check_gpu(gpu);

	if (rc == 0)
		rc = cuda_status(cudaGetDeviceProperties(&prop, gpu), "asking for a GPU's name");
	if (rc == 0)
		rc = cuda_status(cudaDeviceGetPCIBusId(info.bus_id, (int)sizeof(info.bus_id), gpu), "asking for a GPU's address");
	if (rc == 0)
		rc = memory_of(gpu, &info);
	if (rc < 0)
		return rc;
	snprintf(info.name, sizeof(info.name), "%.*s", (int)sizeof(info.name) - 1, prop.name);
	for (char *c = info.bus_id; *c; c++)   /* as sysfs has it */
		*c = (char)tolower((unsigned char)*c);
	info.node = node_of(info.bus_id);
	*info_out = info;
	return 0;
}

int rung__gpu_can_read(int gpu, int peer)
{
	int can = 0, rc = check_gpu(gpu);

	if (rc == 0)
		rc = check_gpu(peer);
	if (rc == 0)
		rc = cuda_status(cudaDeviceCanAccessPeer(&can, gpu, peer), "asking whether GPUs reach each other");
	return rc < 0 ? rc : can;
}
