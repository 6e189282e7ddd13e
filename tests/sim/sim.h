/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a test does to the simulated GPUs of cuda_runtime_api.h, and asks of them. Functions are
 * named as CUDA names them, kernel launches "cudaLaunchKernel"; a name that the simulator does not
 * have ends the program. Threads: any, at any time.
 *
 * Device memory that a kernel leaves, a copy from memory that is not registered or across the
 * border of two registrations, a destroyed handle, and a call after exit handlers have unloaded the
 * runtime end the program. What the simulator cannot show: operations that overlap (each is done in
 * one piece), what a real driver refuses, time.
 *
 * A test program has the runtime and kernels/ as objects in front of librung.a
 * (rung_add_sim_test_program()), so the real ones are not linked. librung_sim.so is the library on
 * it, for tests in Python; there python/tests/standin/ stands in for torch: its streams and its
 * caching allocator, by torch's documentation.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* of the library for tests in Python */

/**
 * The nth call of `function` from now (1: the next) does nothing and returns `err`, which may be
 * cudaSuccess. One such wish a function; nth 0 takes it back.
 */
void sim_fail(const char *function, unsigned nth, cudaError_t err);

/**
 * The nth call of `function` from now (1: the next) first waits until nothing is on any stream, as
 * a driver does that loads what it needs lazily; nth 0 takes it back.
 */
void sim_drain(const char *function, unsigned nth);

/**
 * As after an error that leaves the GPUs unusable: work that is queued is dropped, waiting ends,
 * every later call returns `err`, except for names and texts of errors. Calls that free,
 * unregister, close or destroy still count for sim_live().
 */
void sim_break(cudaError_t err);

/** Calls of `function` so far in this process, failed ones too. */
unsigned long sim_calls(const char *function);

/** Hold the GPUs before their next operation; the one that runs has ended when this returns, unless
 * it is a host function. */
void sim_hold(bool hold);

/** Has a GPU a context: by a call that needs one, made while it was current, by set or retain? */
bool sim_has_context(int gpu);

/**
 * What the first launch of a kernel does where modules are loaded as they are used: wait for all
 * work of the current GPU, with the lock of the context held. sim_calls("cuModuleLoadData") counts.
 */
cudaError_t sim_load(void);

/**
 * Device allocations, pinned allocations, registrations, opened IPC handles, streams, events and
 * graphs that are there now.
 */
size_t sim_live(void);

/* The default, 0, is not the lowest here, so that a stream without a priority is seen. */
#define SIM_PRIORITY_LEAST    1
#define SIM_PRIORITY_GREATEST (-5)

/** Streams of that priority that are there now. */
size_t sim_streams(int priority);

/** A line for each of them. */
void sim_leaks(FILE *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
