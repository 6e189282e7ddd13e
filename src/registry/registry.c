/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions that io/ and kernels/ provide. */

#include "registry/registry.h"
#include "rung_config.h"

/* NULL in a build of the core alone, which has no io/ */
#if RUNG_CORE_ONLY
extern const struct rung__reader_ops rung__file_reader __attribute__((weak));
#else
extern const struct rung__reader_ops rung__file_reader;
#endif

/*
 * Without CUDA this symbol is not defined, so its address is NULL. Tests link the device of the
 * simulated runtime, which defines it in a build without CUDA too.
 */
#if RUNG_HAVE_CUDA
extern const struct rung__device_ops rung__cuda_device;
#else
extern const struct rung__device_ops rung__cuda_device __attribute__((weak));
#endif

/* Through a volatile pointer, because a compiler may assume that the address of an object is never
 * NULL. */
const struct rung__reader_ops *rung__registry_reader(void)
{
	const struct rung__reader_ops *volatile ops = &rung__file_reader;

	return ops;
}

const struct rung__device_ops *rung__registry_cuda(void)
{
#if RUNG_HAVE_CUDA
	return &rung__cuda_device;
#else
	const struct rung__device_ops *volatile ops = &rung__cuda_device;

	return ops;
#endif
}
