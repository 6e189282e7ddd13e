/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Controls for tests of the simulated GPUs in cuda_runtime_api.h, and queries. Functions are named
 * as in CUDA, kernel launches "cudaLaunchKernel". A name that the simulator does not know ends the
 * program. Threads: any, at any time.
 *
 * The program ends if a kernel accesses memory out of bounds, a copy uses unregistered memory or
 * crosses the boundary of two registrations, a destroyed handle is used, or CUDA is called after
 * exit handlers have unloaded the runtime. The simulator cannot reproduce operations that overlap
 * (each runs in one piece), calls that a real driver refuses, or time.
 *
 * A test program links the runtime and kernels/ as objects in front of librung.a
 * (rung_add_sim_test_program()), so that the real ones are not linked. For tests in Python,
 * librung_sim.so is the library on this runtime; there python/tests/standin/ stands in for torch's
 * streams and caching allocator, as torch documents them.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported by librung_sim.so for tests in Python */

/**
 * The nth call of `function` from now (1: the next) does nothing and returns `err`, which may be
 * cudaSuccess. At most one per function is pending; nth 0 cancels it.
 */
void sim_fail(const char *function, unsigned nth, cudaError_t err);

/**
 * The nth call of `function` from now (1: the next) first waits until all streams are empty, as a
 * driver may when it loads something lazily; nth 0 cancels it.
 */
void sim_drain(const char *function, unsigned nth);

/**
 * As after an error that leaves the GPUs unusable: queued work is dropped, waits end, and every
 * later call returns `err`, except for the names and texts of errors. Calls that free, unregister,
 * close or destroy still count for sim_live().
 */
void sim_break(cudaError_t err);

/** Calls of `function` so far in this process, including failed ones. */
unsigned long sim_calls(const char *function);

/** Hold the GPUs before their next operation. The running operation has ended when this returns,
 * unless it is a host function. */
void sim_hold(bool hold);

/** @return whether a GPU has a context: created by a call that needs one while the GPU was current,
 * by cudaSetDevice or by cuDevicePrimaryCtxRetain */
bool sim_has_context(int gpu);

/**
 * The effect of the first launch of a kernel with lazy module loading: waits for all work of the
 * current GPU, with the context's lock held. Counted by sim_calls("cuModuleLoadData").
 */
cudaError_t sim_load(void);

/**
 * @return the number of device allocations, pinned allocations, registrations, opened IPC handles,
 * streams, events and graphs that exist
 */
size_t sim_live(void);

/* The default priority, 0, is not the lowest here, so that a stream without a priority is
 * detected. */
#define SIM_PRIORITY_LEAST    1
#define SIM_PRIORITY_GREATEST (-5)

/** @return the number of streams with this priority */
size_t sim_streams(int priority);

/** Print one line for each object that sim_live() counts. */
void sim_leaks(FILE *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
