/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point for libFuzzer. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	return fuzz_try(data, bytes) == FUZZ_UNTRIED ? -1 : 0;
}
