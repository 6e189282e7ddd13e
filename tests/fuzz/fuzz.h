/* SPDX-License-Identifier: Apache-2.0 */
/** What the fuzz targets share. Each target is one file with fuzz_one(); README.md says how they
 * are run. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/** Ends the program: the fuzzer keeps the input that brought it here. */
#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__,          \
			        #condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define FUZZ_UNTRIED 1 /* the input is too short, or too long, to say anything */

/** Parse one input, and check what must hold of what comes out. @return the parser's status, or
 * FUZZ_UNTRIED */
int fuzz_one(const uint8_t *data, size_t bytes);

/** Most bytes that this target tries. */
extern const size_t fuzz_bytes_max;

/** Most places of a seed that the replay spoils: so that it takes a second or so. */
extern const size_t fuzz_places_max;

/** fuzz_one(), and that a failure has a sentence in which nothing of the input can speak to a
 * terminal. */
int fuzz_try(const uint8_t *data, size_t bytes);

/** A folder of the target's own, in memory where that is possible; it is removed when the program
 * ends by itself. */
const char *fuzz_folder(void);

/** Write the only contents of a file in that folder. @return its path, good until the next call for
 * the same `slot` (0 to 3) */
const char *fuzz_file(unsigned slot, const char *name, const void *data, size_t bytes);

#endif
