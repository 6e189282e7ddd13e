/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The functions of OpenBLAS that the trainer calls. They are loaded when it starts and not linked:
 * OpenBLAS starts threads and reserves address space for them as soon as it is loaded, and its
 * loading never returns if an address space limit prevents that. No other subcommand needs it.
 */
#ifndef RUNG_TRAIN_BLAS_H
#define RUNG_TRAIN_BLAS_H

#include <cblas.h>

struct train_blas {
	__typeof__(cblas_sgemm) *sgemm;
	__typeof__(openblas_set_num_threads) *set_num_threads;
};

/** Set by train_blas_load(). */
extern struct train_blas train_blas;

/** Load the functions, once per process. @return NULL, or the reason of a failure */
const char *train_blas_load(void);

#endif
