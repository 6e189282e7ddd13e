/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fields of each kind of result, for all output formats: tables used by the writers. Kinds of
 * results differ in their fields; with these tables the writers need no code for single kinds.
 */
#ifndef RUNG_TOOL_NUMA_RESULTS_H
#define RUNG_TOOL_NUMA_RESULTS_H

#include <stddef.h>

#include "numa/numa.h"

/** Costs of preparing memory, which are details unless nothing else is measured. */
#define NUMA_COSTS ((uint32_t)(RUNG_NUMA_TOUCH | RUNG_NUMA_REGISTER))

#define NUMA_AT(member) offsetof(struct rung_numa_result, member)

/* ---- fields: JSON and CSV ---- */

/** Type of the member of struct rung_numa_result that a field contains. */
enum numa_form {
	NUMA_WORDS, /**< no member: a word computed by the function `word` */
	NUMA_TEXT,  /**< const char * */
	NUMA_NODE,  /**< int; negative: absent */
	NUMA_U32,   /**< uint32_t; 0: absent, unless `zero` */
	NUMA_U64,   /**< uint64_t; 0: absent, unless `zero` */
	NUMA_REAL,  /**< double; NaN: absent */
	NUMA_VALUE  /**< struct rung_numa_value */
};

/** Meaning of a 0 in an integer field. */
enum numa_zero {
	NUMA_ZERO_ABSENT = 0,
	NUMA_ZERO_JSON,    /**< a number in JSON, absent in CSV */
	NUMA_ZERO_THREADS, /**< as ZERO_JSON, but also a number in CSV if threads apply */
	NUMA_ZERO_NUMBER   /**< a number in both */
};

/** A field of the results of some matrices. */
struct numa_field {
	const char *key;   /**< in JSON, and the heading in CSV */
	uint32_t matrices; /**< sum of enum rung_numa_matrix; 0: in lists only */
	enum numa_form form;
	size_t offset;       /**< of the member in struct rung_numa_result */
	enum numa_zero zero; /**< U32 and U64 only */
	const char *(*word)(const struct rung_numa_result *result); /**< WORDS only */
};
extern const struct numa_field numa_fields[]; /**< in the order of JSON, up to a NULL key */

/** The content of a field of a result. */
struct numa_datum {
	/** which of the members below is set; NOTHING: the field is absent */
	enum { NUMA_NOTHING, NUMA_WORD, NUMA_NUMBER, NUMA_DOUBLE } is;
	const char *word;
	uint64_t number;
	double real;
};

/** The field of a matrix whose key is the first `length` bytes of `key`; NULL: it has none. */
const struct numa_field *numa_field(enum rung_numa_matrix matrix, const char *key, size_t length);

/** The content of a field; for a NUMA_VALUE, its median. */
struct numa_datum numa_datum(const struct numa_field *field, const struct rung_numa_result *result);

/** A key of each entry of a list, and the field that has its value. If `kind` is not NULL, the
 * value comes from the result that differs from the entry's result only in having that kind. */
struct numa_list_key {
	const char *key, *field, *kind;
};

/** A list in JSON, with an entry of medians for each result of a kind. */
struct numa_list {
	const char *key; /**< lists with the same key are joined to one list */
	enum rung_numa_matrix matrix;
	const char *kind;                 /**< NULL: any */
	int absent_too;                   /**< nonzero: absent results have entries, too */
	const struct numa_list_key *keys; /**< up to a NULL key */
};
extern const struct numa_list numa_lists[]; /**< up to a NULL key */

/* ---- tables ---- */

/** Content of a column. The first three, which name places, are aligned at the left. */
enum numa_cell {
	NUMA_CELL_NODE,   /**< int; negative: none */
	NUMA_CELL_GPU,    /**< the members gpu and gpu_bus_id; `offset` is not used */
	NUMA_CELL_TO_GPU, /**< the members to_gpu and to_gpu_bus_id */
	NUMA_CELL_COUNT,  /**< uint32_t */
	NUMA_CELL_BYTES,  /**< uint64_t */
	NUMA_CELL_REAL,   /**< double, times `factor`, printed with `format` */
	NUMA_CELL_RATE,   /**< struct rung_numa_value: median, in bytes per second */
	NUMA_CELL_PER_S,  /**< struct rung_numa_value: median, in rows or reads per second */
	NUMA_CELL_SPREAD, /**< struct rung_numa_value: spread, in percent */
	NUMA_CELL_OTHER, /**< rate of the result that differs only in its kind, which is `format` */
	NUMA_CELL_SPREADS /**< the largest spread of the OTHER cells to the left */
};

struct numa_column {
	const char *heading;
	enum numa_cell cell;
	size_t offset;      /**< of the member in struct rung_numa_result */
	const char *format; /**< REAL: of printf(); OTHER: a kind */
	double factor;      /**< REAL only */
};

/** A table with a line for each result of a kind. */
struct numa_table {
	enum rung_numa_matrix matrix;
	const char *kind; /**< NULL: any */
	int absent_too;   /**< as in struct numa_list */
	const char *title;
	const struct numa_column *columns; /**< up to a NULL heading; NULL: a table per drive */
};
extern const struct numa_table numa_tables[]; /**< up to a NULL title */

/* ---- matrices ---- */

/** Rows or columns: nodes with CPUs, nodes with memory, or GPUs. */
enum numa_axis { NUMA_CPUS, NUMA_MEMORY, NUMA_GPUS, NUMA_FROM_GPUS, NUMA_TO_GPUS };

/** Matrices in one unit, which are printed below each other. */
struct numa_section {
	uint32_t matrices; /**< sum of enum rung_numa_matrix */
	int all_cores;     /**< as in struct rung_numa_result; -1: any */
	enum numa_axis rows, columns;
	int is_latency; /**< nonzero: in ns, and less is better; 0: in bytes per second */
	const char *title;
	const char *picture; /**< shorter title */
};
extern const struct numa_section numa_sections[]; /**< up to a NULL title */

/** The results of a section that are not absent. Lines and columns have the name of a result. */
struct numa_grid {
	const struct numa_section *section;
	const struct rung_numa_result **lines; /**< [line_count] sorted by metric, then by row */
	size_t line_count;
	const struct rung_numa_result **columns; /**< [column_count] */
	size_t column_count;
	const struct rung_numa_result **cells; /**< [line_count x column_count]; NULL: absent */
};

/** @return 0, or -1 without memory; free the grid in both cases */
int numa_grid_fill(struct numa_grid *grid, const struct numa_measured *measured,
                   const struct numa_section *section);
void numa_grid_free(struct numa_grid *grid);

/** Nonzero if both results are of one matrix, kind and row size. */
int numa_is_same_metric(const struct rung_numa_result *a, const struct rung_numa_result *b);

/** Nonzero if "all cores" are a single thread everywhere, so that both kinds of results are the
 * same measurement. */
int numa_one_thread(const struct numa_measured *measured);

/* Texts, written to `text` and returned. */

/** Three digits: "9.51", "34.2", "181". */
const char *numa_digits(char text[TOOL_TEXT_BYTES], double number);
/** The metric of a result: "read", "gather 1 KiB", "idle latency". */
const char *numa_label(char text[TOOL_TEXT_BYTES], const struct rung_numa_result *result);
/** The name of its position on an axis: "node 0", "GPU1". */
const char *numa_axis_text(char text[TOOL_TEXT_BYTES], const struct rung_numa_result *result,
                           enum numa_axis axis);

/* ---- finding ---- */

/** The value that a result is judged by: a latency, seconds per GiB, or bytes per second. */
const struct rung_numa_value *numa_main_value(const struct rung_numa_result *result);

/** Nonzero if both texts are equal, or both are NULL. */
int numa_alike(const char *a, const char *b);

/** Nonzero if a result belongs to a matrix and a kind (NULL: any) and is not absent, or is allowed
 * to be absent. */
int numa_is_of(const struct rung_numa_result *result, enum rung_numa_matrix matrix,
               const char *kind, int absent_too);

/** The result with the same matrix, kind, nodes, GPUs, row_bytes, level and all_cores as `like`;
 * NULL: none. */
const struct rung_numa_result *numa_find(const struct numa_measured *measured,
                                         const struct rung_numa_result *like);

/** A member of a result, by its offset. */
static inline const void *numa_at(const struct rung_numa_result *result, size_t offset)
{
	return (const char *)result + offset;
}

/**
 * Count the results from position `first` on that are reads of the same drive by the same node:
 * they are consecutive, by size and then by queue depth.
 * @param depth_count_out  the number of reads with the size of the first one
 * @return the total
 */
size_t numa_count_reads(const struct numa_measured *measured, size_t first,
                        size_t *depth_count_out);

/** "GPU0" as in the topology, its bus id if the topology does not have it, "-" if neither is
 * known. */
const char *numa_gpu_text(char text[TOOL_TEXT_BYTES], int gpu, const char *bus_id);

#endif
