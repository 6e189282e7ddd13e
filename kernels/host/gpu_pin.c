/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering host memory with CUDA (pinning), which makes it addressable for kernels.
 *
 * Memory is registered in pieces of RUNG__REGISTER_BYTES, so that a failure can report how many
 * bytes were pinned. Each registration is listed in the device, so that close can undo those that
 * callers have left.
 */
#include "host/gpu.h"

/* Failures are ignored, because the GPU does not use the memory any more. */
static void unregister(unsigned char *memory, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += RUNG__REGISTER_BYTES)
		(void)cudaHostUnregister(memory + at);
	(void)cudaGetLastError();
}

/* All or nothing. */
static int register_all(const char *what, unsigned char *memory, uint64_t bytes, unsigned flags)
{
	for (uint64_t at = 0; at < bytes; at += RUNG__REGISTER_BYTES) {
		uint64_t part = RUNG__MIN(RUNG__REGISTER_BYTES, bytes - at);
		cudaError_t err = cudaHostRegister(memory + at, (size_t)part, flags);

		if (err != cudaSuccess) {
			(void)cudaGetLastError();
			unregister(memory, at);
			if ((flags & cudaHostRegisterReadOnly) && err == cudaErrorNotSupported)
				return rung__fail(RUNG_E_NOSUP,
				                  "cuda: registering %s: this GPU or driver cannot "
				                  "register read-only memory, which shared "
				                  "stores use; open the store without share_path",
				                  what);
			return rung__fail(
				cuda_status_of(err),
				"cuda: registering %s: %" PRIu64 " of %" PRIu64
				" bytes were pinned before it failed: %s (%s); use a smaller host "
				"budget, or raise the limit of locked memory",
				what, at, bytes, cudaGetErrorString(err), cudaGetErrorName(err));
		}
	}
	return 0;
}

int rung__gpu_pin(struct rung__device *device, const char *what, void *memory, uint64_t bytes,
                  bool sealed)
{
	/* portable: for all GPUs. Sealed memory is mapped without write permission, which CUDA
	 * refuses to register unless it is declared */
	unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped |
	                 (sealed ? cudaHostRegisterReadOnly : 0u);
	struct gpu_pin *pin = rung__zalloc(sizeof(*pin));
	int before, rc;

	if (!pin)
		return rung__fail(RUNG_E_NOMEM, "cuda: out of host memory");
	rc = rung__gpu_enter(device->gpu, &before);
	if (rc == 0) {
		rc = register_all(what, memory, bytes, flags);
		rung__gpu_leave(before);
	}
	if (rc < 0) {
		rung__free(pin);
		return rc;
	}
	pthread_mutex_lock(&device->pins_lock);
	*pin = (struct gpu_pin){ .memory = memory, .bytes = bytes };
	rung__queue_push_first(&device->pins, &pin->link);
	pthread_mutex_unlock(&device->pins_lock);
	return 0;
}

void rung__gpu_unpin(struct rung__device *device, void *memory)
{
	struct gpu_pin *pin = NULL;
	int before;

	pthread_mutex_lock(&device->pins_lock);
	RUNG__QUEUE_EACH(each, &device->pins, struct gpu_pin, link)
	{
		pin = each;
		if (each->memory == memory)
			break;
		pin = NULL;
	}
	if (pin)
		rung__queue_remove(&device->pins, &pin->link);
	pthread_mutex_unlock(&device->pins_lock);
	if (!pin) /* pinning it had failed */
		return;
	(void)rung__gpu_enter(device->gpu, &before);
	if (before != RUNG__GPU_EXITING)
		unregister(pin->memory, pin->bytes);
	rung__gpu_leave(before);
	rung__free(pin);
}
