/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Code shared by the benchmark programs in this folder, which use only the public headers of rung.
 * A step that fails ends the program with a message, because a partial measurement is useless.
 */
#ifndef RUNG_BENCH_COMMON_H
#define RUNG_BENCH_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/rung.h"

enum { BENCH_DONE = 0, BENCH_FAILED = 1, BENCH_USAGE = 2 };

#define BENCH_PAGE 4096u

/** Name of the program for its messages; set it first. */
extern const char *bench_name;

__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/** If rc is an error of the library, end the program with the library's message. `what` is the name
 * of the step. */
void bench_need(int rc, const char *what);

double bench_now(void); /* seconds */
double bench_cpu(void); /* user and system seconds of all threads of the process */

/** Zeroed memory, touched, in huge pages if available. It is never freed. */
void *bench_map(uint64_t bytes);

/** 64 random bits derived from seed and place (splitmix64). */
uint64_t bench_draw(uint64_t seed, uint64_t place);

/** Parses fanouts such as "25,10". @return the number of hops; a mistake ends the program */
uint32_t bench_fanouts(const char *text, uint32_t fanouts[RUNG_HOPS_MAX]);

/** Shuffles the items, depending only on the seed (Fisher, Yates). */
void bench_shuffle(uint64_t *items, uint64_t count, uint64_t seed);

/** Parses a number; a mistake ends the program. */
uint64_t bench_number(const char *text);

/** The features file of a dataset that has only one. */
struct bench_features {
	char *path;           /* free() it */
	uint64_t data_offset; /* of row 0 */
	uint64_t row_bytes, row_stride;
	uint64_t row_count;
};

void bench_features_find(const struct rung_dataset *ds, struct bench_features *features_out);

/**
 * A plan that keeps exactly the first `host_rows` ranks in host memory and a cold-row cache of
 * about `cache_rows` (0: none). It searches for the budget with this result. Free the plan with
 * rung_plan_destroy().
 */
struct rung_plan *bench_plan(const struct rung_dataset *ds, uint64_t host_rows, uint64_t cache_rows,
                             uint32_t depth);

#endif
