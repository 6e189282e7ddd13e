/* SPDX-License-Identifier: Apache-2.0 */
/* Loading OpenBLAS at run time; blas.h has the reason. */
#include "blas.h"

#include <dlfcn.h>
#include <stddef.h>

#include "rung_config.h"

struct train_blas train_blas;

const char *train_blas_load(void)
{
	/* never closed, because threads of the library run its code */
	void *library = dlopen(RUNG_BLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	*(void **)&train_blas.sgemm = dlsym(library, "cblas_sgemm");
	*(void **)&train_blas.set_num_threads = dlsym(library, "openblas_set_num_threads");
	return train_blas.sgemm && train_blas.set_num_threads ? NULL
	                                                      : RUNG_BLAS_LIBRARY
	               ": is not OpenBLAS with CBLAS";
}
