/* SPDX-License-Identifier: Apache-2.0 */
/** Fields of each kind of result, for all output formats: tables used by the writers. */
#ifndef RUNG_TOOL_NUMA_RESULTS_H
#define RUNG_TOOL_NUMA_RESULTS_H

#include <stddef.h>

#include "numa/numa.h"

#define NUMA_AT(member) offsetof(struct rung_numa_result, member)

/* ---- fields: JSON and CSV ---- */

enum numa_form {
	NUMA_WORDS, /**< what `word` returns */
	NUMA_TEXT,  /**< const char * */
	NUMA_NODE,  /**< int; negative: absent */
	NUMA_U32,   /**< 0: absent, unless `zero` */
	NUMA_U64,   /**< the same */
	NUMA_REAL,  /**< double */
	NUMA_VALUE  /**< struct rung_numa_value */
};

enum numa_zero {
	NUMA_ZERO_ABSENT = 0,
	NUMA_ZERO_JSON,    /**< a number in JSON, absent in CSV */
	NUMA_ZERO_THREADS, /**< the same, but a number in CSV if threads apply */
	NUMA_ZERO_NUMBER
};

/** A field of the results of some matrices. */
struct numa_field {
	const char *key;
	uint32_t matrices; /**< 0: in lists only */
	enum numa_form form;
	size_t offset;
	enum numa_zero zero;
	const char *(*word)(const struct rung_numa_result *result);
};
extern const struct numa_field numa_fields[]; /**< in the order of JSON, up to a NULL key */

/** The content of a field of a result. */
struct numa_datum {
	enum { NUMA_NOTHING, NUMA_WORD, NUMA_NUMBER, NUMA_DOUBLE } is;
	const char *word;
	uint64_t number;
	double real;
};

/** Field of a result, by `length` bytes of its key; NULL: it has none. */
const struct numa_field *numa_field(enum rung_numa_matrix matrix, const char *key, size_t length);

/** For values: the median. */
struct numa_datum numa_datum(const struct numa_field *field, const struct rung_numa_result *result);

/** An entry's key in a list, and the field with its value. `kind`: of the result of that kind. */
struct numa_list_key {
	const char *key, *field, *kind;
};

/** A list in JSON, with an entry of medians for each result of a kind. */
struct numa_list {
	const char *key; /**< of several lists with one key, one list is made */
	enum rung_numa_matrix matrix;
	const char *kind; /**< NULL: any */
	int absent_too;
	const struct numa_list_key *keys; /**< up to a NULL key */
};
extern const struct numa_list numa_lists[]; /**< up to a NULL key */

/* ---- tables ---- */

enum numa_cell {
	NUMA_CELL_NODE, /**< int; this one and GPUs are at the left */
	NUMA_CELL_GPU,
	NUMA_CELL_TO_GPU,
	NUMA_CELL_COUNT, /**< uint32_t */
	NUMA_CELL_BYTES, /**< uint64_t */
	NUMA_CELL_REAL,  /**< double, times `factor`, by `format` */
	NUMA_CELL_RATE,  /**< struct rung_numa_value of bytes a second, as the next two */
	NUMA_CELL_PER_S,
	NUMA_CELL_SPREAD,
	NUMA_CELL_OTHER,  /**< rate of the result that is alike, but of kind `format` */
	NUMA_CELL_SPREADS /**< the largest spread of those before it in the line */
};

struct numa_column {
	const char *heading;
	enum numa_cell cell;
	size_t offset;
	const char *format;
	double factor;
};

/** A table with a line for each result of a kind. */
struct numa_table {
	enum rung_numa_matrix matrix;
	const char *kind; /**< NULL: any */
	int absent_too;
	const char *title;
	const struct numa_column *columns; /**< up to a NULL heading; NULL: a table per drive */
};
extern const struct numa_table numa_tables[]; /**< up to a NULL title */

/* ---- heat maps ---- */

enum numa_axis { NUMA_CPUS, NUMA_MEMORY, NUMA_GPUS, NUMA_FROM_GPUS, NUMA_TO_GPUS };

/** Maps of a matrix, one for each kind and size of a row. */
struct numa_map {
	enum rung_numa_matrix matrix;
	const char *kind;  /**< NULL: any */
	const char *title; /**< %s: the kind, or the size of a row */
	enum numa_axis rows, columns;
	size_t value;
	int is_latency;
};
extern const struct numa_map numa_maps[]; /**< up to a NULL title */

/* ---- finding ---- */

/** Nonzero where both are equal, or NULL. */
int numa_alike(const char *a, const char *b);

/** Nonzero for a result of a matrix and a kind, NULL: any, that has values or may be absent. */
int numa_is_of(const struct rung_numa_result *result, enum rung_numa_matrix matrix,
               const char *kind, int absent_too);

/** Result with matrix, kind, nodes, GPUs, row_bytes, level and all_cores of `like`; NULL: none. */
const struct rung_numa_result *numa_find(const struct numa_measured *measured,
                                         const struct rung_numa_result *like);

/** A member by its offset. */
static inline const void *numa_at(const struct rung_numa_result *result, size_t offset)
{
	return (const char *)result + offset;
}

/**
 * @param depth_count_out  how many results from `first` on are reads of its drive of its size
 * @return how many are reads of its drive, by its node
 */
size_t numa_count_reads(const struct numa_measured *measured, size_t first,
                        size_t *depth_count_out);

/** "GPU0" as in the topology, its bus id where it is not there, "-" where neither is known. */
const char *numa_gpu_text(char text[TOOL_TEXT_BYTES], int gpu, const char *bus_id);

#endif
