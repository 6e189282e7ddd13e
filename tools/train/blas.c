/* SPDX-License-Identifier: Apache-2.0 */
/* Loading OpenBLAS at run time; blas.h has the reason. */
#include "blas.h"

#include <dlfcn.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rung_config.h"

/* OpenBLAS 0.3.21 reserves 128 MiB for each CPU, and a thread needs its stack and heap */
#define THREAD_SPACE ((size_t)192 << 20)

struct train_blas train_blas;

/* Reserving that much is the test: it fails if a limit of address space is lower, which
 * getrlimit() cannot tell without the space that is in use. */
size_t train_blas_space_missing(void)
{
	const size_t bytes = ((size_t)sysconf(_SC_NPROCESSORS_ONLN) + 2) * THREAD_SPACE;
	void *space =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return space != MAP_FAILED && munmap(space, bytes) == 0 ? 0 : bytes;
}

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
