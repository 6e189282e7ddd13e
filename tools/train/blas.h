/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The functions of OpenBLAS that the trainer calls. They are loaded when it starts and not linked:
 * OpenBLAS starts threads and reserves address space for them as soon as it is loaded, and its
 * loading never returns if an address space limit prevents that. No other subcommand needs it.
 */
#ifndef RUNG_TRAIN_BLAS_H
#define RUNG_TRAIN_BLAS_H

#include <stddef.h>

/* As in cblas.h, which OpenBLAS installs under names that differ between systems. */
enum { CblasRowMajor = 101, CblasNoTrans = 111, CblasTrans = 112 };

struct train_blas {
	void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
	              const float *a, int lda, const float *b, int ldb, float beta, float *c,
	              int ldc);
	void (*set_num_threads)(int count);
};

/** Set by train_blas_load(). */
extern struct train_blas train_blas;

/** Bytes of address space that loading needs and a limit (ulimit -v) denies; 0: enough is free. */
size_t train_blas_space_missing(void);

/** Load the functions, once per process. Never returns if address space is missing.
 * @return NULL, or the reason of a failure */
const char *train_blas_load(void);

#endif
