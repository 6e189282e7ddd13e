/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Unchecked values of a JSON file. The first wrong one is reported, with its place
 * in the file; later ones are not. A missing key is as null, because older versions have fewer
 * keys.
 */
#ifndef RUNG_TOOL_NUMA_LOAD_H
#define RUNG_TOOL_NUMA_LOAD_H

#include "numa/numa.h"

#define NUMA_NUMBER_MAX 1e18 /**< of all numbers, so that sums of them are exact enough */
#define NUMA_U64_MAX    UINT64_C(1000000000000000000)

struct numa_load {
	const char *name, *path;
	struct numa_profile *profile;
	char where[64]; /**< "results[17]." */
	int code;       /**< TOOL_DONE up to the first wrong value */
};

/** Report a wrong value. */
void numa_load_wrong(struct numa_load *load, const char *key, const char *what);

/** The values that follow are in entry `idx` of a list. */
void numa_load_at(struct numa_load *load, const char *list, size_t idx);

/** Zeroed memory that lives as long as the profile; NULL after a failure, which is reported. */
void *numa_load_block(struct numa_load *load, size_t count, size_t bytes);

/** An object or an array; NULL if it is missing. @param required  nonzero: that is wrong */
json_t *numa_load_part(struct numa_load *load, json_t *object, const char *key, json_type type,
                       int required);

/** A number from 0 to NUMA_NUMBER_MAX; NaN for null. */
double numa_load_real(struct numa_load *load, json_t *object, const char *key);

/** @param absent  the result for null */
uint64_t numa_load_u64(struct numa_load *load, json_t *object, const char *key, uint64_t absent,
                       uint64_t most);
uint32_t numa_load_u32(struct numa_load *load, json_t *object, const char *key);

/** The number of a node, or the position of a GPU; -1 for null. */
int numa_load_small(struct numa_load *load, json_t *object, const char *key);

/** 1, 0, or -1 for null. */
int numa_load_flag(struct numa_load *load, json_t *object, const char *key);

/** A text without control characters; NULL for null. */
const char *numa_load_text(struct numa_load *load, json_t *object, const char *key);

/** A list such as "0-3,8", ascending. */
struct rung_id_list numa_load_list(struct numa_load *load, json_t *object, const char *key);

/** The number of entries of an array, at most `most`; NULL has none. */
uint32_t numa_load_count(struct numa_load *load, json_t *list, const char *key, size_t most);

/** Load the keys of --topology. */
void numa_load_topology(struct numa_load *load, json_t *root);

#endif
