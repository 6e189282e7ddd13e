/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a test does to the simulated GPUs of cuda_runtime_api.h, and asks of them. Functions are named as CUDA names them, kernel
 * launches "cudaLaunchKernel"; a name that the simulator does not have ends the program. Threads: any, at any time.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The nth call of `function` from now (1: the next) does nothing and returns `err`. One such wish a function; nth 0 takes it back. */
void sim_fail(const char *function, unsigned nth, cudaError_t err);

/**
 * As after an error that leaves the GPUs unusable: work that is queued is dropped, waiting ends, every later call returns `err`,
 * except for names and texts of errors. Calls that free, unregister, close or destroy still count for sim_live().
 */
void sim_break(cudaError_t err);

/** Calls of `function` so far in this process, failed ones too. */
unsigned long sim_calls(const char *function);

/** Hold the GPUs before their next operation; the one that runs has ended when this returns, unless it is a host function. */
void sim_hold(bool hold);

/** Device allocations, pinned allocations, registrations, opened IPC handles, streams and events that are there now. */
size_t sim_live(void);

/** A line for each of them. */
void sim_leaks(FILE *out);

#ifdef __cplusplus
}
#endif
#endif
