/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the benchmark programs in this folder share. They use rung through its public headers alone.
 * A step that fails ends the program with a sentence: half a measurement is none.
 */
#ifndef RUNG_BENCH_COMMON_H
#define RUNG_BENCH_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/rung.h"

enum { BENCH_DONE = 0, BENCH_FAILED = 1, BENCH_USAGE = 2 };

#define BENCH_PAGE 4096u

/** Whose message it is; set first. */
extern const char *bench_name;

__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/** End the program with the library's text when a call of it failed; `what` was being done. */
void bench_need(int rc, const char *what);

double bench_now(void); /* seconds */
double bench_cpu(void); /* user and system seconds of all threads of the process */

/** Memory in huge pages where the kernel has them, zeroed, touched; stays until the program
 * ends. */
void *bench_map(uint64_t bytes);

/** 64 random bits that follow from seed and place (splitmix64). */
uint64_t bench_draw(uint64_t seed, uint64_t place);

/** "25,10" @return how many hops, or the end */
uint32_t bench_fanouts(const char *text, uint32_t fanouts[RUNG_HOPS_MAX]);

/** An order that follows from the seed (Fisher, Yates). */
void bench_shuffle(uint64_t *items, uint64_t count, uint64_t seed);

/** A number, or the end. */
uint64_t bench_number(const char *text);

/** The only file of features of a dataset: its path (free() it), where row 0 begins, bytes from row
 * to row. */
struct bench_features {
	char *path;
	uint64_t data_offset;
	uint64_t row_bytes, row_stride;
	uint64_t row_count;
};

void bench_features_find(const struct rung_dataset *ds, struct bench_features *features_out);

/**
 * A plan that keeps exactly the first `host_rows` ranks in host memory and a cold-row cache of
 * about `cache_rows` (0: none). Looks for the budget that does so. Free it with
 * rung_plan_destroy().
 */
struct rung_plan *bench_plan(const struct rung_dataset *ds, uint64_t host_rows, uint64_t cache_rows,
                             uint32_t depth);

#endif
