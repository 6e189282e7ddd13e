/* SPDX-License-Identifier: Apache-2.0 */
/** Shared by the fuzz targets. Each target is one file with fuzz_one(); README.md describes how
 * they are run. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/** Ends the program on failure, so that the fuzzer keeps the input. */
#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__,           \
			        #condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define FUZZ_UNTRIED 1 /* the input is too short or too long for a test */

/** Parse one input, and check the result. @return the parser's status, or FUZZ_UNTRIED */
int fuzz_one(const uint8_t *data, size_t bytes);

/** Longest input that this target tries, in bytes. */
extern const size_t fuzz_bytes_max;

/** Most positions of a seed that the replay damages, chosen so that it takes about a second. */
extern const size_t fuzz_places_max;

/** fuzz_one(), and a check that a failure has a message, which must not pass control characters of
 * the input to a terminal. */
int fuzz_try(const uint8_t *data, size_t bytes);

/** The target's private folder, in memory if possible. It is removed when the program ends
 * normally. */
const char *fuzz_folder(void);

/** Write a file in that folder, replacing its contents. @return its path, valid until the next call
 * for the same `slot` (0 to 3) */
const char *fuzz_file(unsigned slot, const char *name, const void *data, size_t bytes);

#endif
