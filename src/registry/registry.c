/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions that io/ and kernels/ provide. */

#include "registry/registry.h"
#include "rung_config.h"

/* of the core alone it is NULL */
#if RUNG_CORE_ONLY
extern const struct rung__reader_ops rung__file_reader __attribute__((weak));
#else
extern const struct rung__reader_ops rung__file_reader;
#endif

/*
 * Without CUDA nothing defines it, so it is NULL; the tests link a simulated one, which serves in
 * either build.
 */
#if RUNG_HAVE_CUDA
extern const struct rung__device_ops rung__cuda_device;
#else
extern const struct rung__device_ops rung__cuda_device __attribute__((weak));
#endif

/* Through a pointer, because a compiler assumes that the address of a function is never NULL. */
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
