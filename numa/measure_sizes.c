/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the sizes of rows, arrays, a gather's table and a GPU's table.
 *
 * Arrays are several times as large as the largest last-level cache of any node, because each
 * node's CPUs access the memory of all nodes. On a node with less memory, arrays are as large as
 * fit. Their values are then partly those of a cache, and each result states both its size and the
 * advised size.
 */
#include <stdlib.h>

#include "measure.h"

#define CACHES              4u /* size of an array, in multiples of the last-level cache */
#define CACHES_MIN          2u /* the advised minimum, which is also the size with opts.quick */
#define CACHE_BYTES_UNKNOWN (32u << 20)
/* minimum bytes of an array per core: more than a gather keeps cached */
#define CORE_BYTES (16u << 20)
/* with smaller arrays the start of threads would be measured */
#define ARRAY_BYTES_MIN (16u << 20)
#define ARRAY_ROWS_MIN  64u /* a gather's threads take blocks of 64 rows */
/* size of the table of a gather: as large as in training */
#define TABLE_BYTES       (2ull << 30)
#define TABLE_BYTES_QUICK (512ull << 20)
#define ROWS_QUICK        4u /* number of standard rows with quick */
/* as in nvbandwidth: several times the size of any GPU's cache */
#define GPU_TABLE_BYTES       (512u << 20)
#define GPU_TABLE_BYTES_QUICK (64u << 20)
#define GPU_TABLE_BYTES_MIN   ARRAY_BYTES_MIN
#define GPU_BATCH_BYTES       (256u << 20) /* size of a large batch in training */
#define GPU_BATCH_BYTES_QUICK (16u << 20)
#define GPU_BATCH_ROWS        (1u << 20)
#define GPU_BATCH_ROWS_QUICK  (1u << 16)

/* ---- rows ---- */

static int by_bytes(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void rung__measure_add_once(uint32_t *list, size_t *count, uint32_t value)
{
	for (size_t i = 0; i < *count; i++) {
		if (list[i] == value)
			return;
	}
	list[(*count)++] = value;
}

/* The standard rows and the requested ones, ascending: rows[0] is the smallest. */
static void choose_rows(struct rung__measuring *m)
{
	/* with quick the first ROWS_QUICK, which span the whole range */
	static const uint32_t standard[RUNG__MEASURE_ROWS] = {
		64, 256, 1024, 4096, 128, 512, 2048
	};
	const size_t standard_count = m->opts.quick ? ROWS_QUICK : RUNG__MEASURE_ROWS;

	for (size_t i = 0; i < standard_count; i++)
		rung__measure_add_once(m->rows, &m->row_count, standard[i]);
	for (size_t i = 0; i < m->opts.row_count; i++)
		rung__measure_add_once(m->rows, &m->row_count, m->opts.row_bytes[i]);
	qsort(m->rows, m->row_count, sizeof(m->rows[0]), by_bytes);
}

/* ---- arrays ---- */

uint64_t rung__measure_ids_bytes(const struct rung__measuring *m, uint64_t array_bytes)
{
	return rung__align_up(array_bytes / m->rows[0] * sizeof(uint64_t),
	                      RUNG__MEASURE_HUGE_BYTES);
}

/* The largest array for which `available` has room: for the array, two more as a table, and the ids
 * of its rows. One huge page is left for rounding up the ids. 0: nothing fits. */
static uint64_t array_that_fits(const struct rung__measuring *m, uint64_t available)
{
	const uint64_t row_bytes = m->rows[0], of_a_row = 3 * row_bytes + sizeof(uint64_t);

	if (available < RUNG__MEASURE_HUGE_BYTES)
		return 0;
	return rung__align_down((available - RUNG__MEASURE_HUGE_BYTES) / of_a_row * row_bytes,
	                        RUNG__MEASURE_HUGE_BYTES);
}

/* Choose array_bytes of each node, and the advised size. The same size is the aim on all nodes: any
 * node's CPUs, with their caches, may work on the array. */
static void choose_arrays(struct rung__measuring *m)
{
	const uint64_t rows_min = (uint64_t)ARRAY_ROWS_MIN * m->rows[m->row_count - 1];
	const uint64_t least =
		rung__align_up(RUNG__MAX(ARRAY_BYTES_MIN, rows_min), RUNG__MEASURE_HUGE_BYTES);
	uint64_t cache = 0, cores = 1, aim;

	for (size_t i = 0; i < m->node_count; i++) {
		cache = RUNG__MAX(cache, m->nodes[i].cache_bytes);
		cores = RUNG__MAX(cores, m->nodes[i].core_count);
	}
	cache = cache ? cache : CACHE_BYTES_UNKNOWN;
	m->array_bytes_advised = rung__align_up(RUNG__MAX(CACHES_MIN * cache, cores * CORE_BYTES),
	                                        RUNG__MEASURE_HUGE_BYTES);
	m->array_bytes_advised = RUNG__MAX(m->array_bytes_advised, least);
	aim = m->array_bytes_advised;
	if (!m->opts.quick)
		aim = RUNG__MAX(aim, rung__align_up(CACHES * cache, RUNG__MEASURE_HUGE_BYTES));
	for (size_t i = 0; i < m->node_count; i++) {
		const uint64_t fits = array_that_fits(m, rung__measure_available(m, i));

		/* a node with too little memory for the least array fails when it is allocated */

		m->nodes[i].array_bytes = RUNG__MAX(RUNG__MIN(aim, fits), least);
	}
}

/*
 * Tables of gathers use the memory that the arrays leave. Nodes whose arrays have the advised size
 * get tables of one size, so that their values are comparable; no table is smaller than two arrays.
 */
static void choose_tables(struct rung__measuring *m)
{
	uint64_t common = m->opts.quick ? TABLE_BYTES_QUICK : TABLE_BYTES;

	for (size_t i = 0; i < m->node_count; i++) {
		struct rung__measure_node *node = &m->nodes[i];
		const uint64_t others =
			node->array_bytes + rung__measure_ids_bytes(m, node->array_bytes);
		const uint64_t available = rung__measure_available(m, i);

		node->table_bytes = available > others ? rung__align_down(available - others,
		                                                          RUNG__MEASURE_HUGE_BYTES)
		                                       : 0;
		if (node->node->has_memory && node->array_bytes >= m->array_bytes_advised &&
		    node->table_bytes >= 2 * node->array_bytes)
			common = RUNG__MIN(common, node->table_bytes);
	}
	for (size_t i = 0; i < m->node_count; i++) {
		struct rung__measure_node *node = &m->nodes[i];

		node->table_bytes =
			RUNG__MAX(RUNG__MIN(common, node->table_bytes), 2 * node->array_bytes);
	}
}

/*
 * A GPU reads host memory through the CPUs' caches, so its table is larger than these. One size for
 * all nodes that can hold the smallest table: the largest that fits each of them.
 */
static void choose_gpu_sizes(struct rung__measuring *m)
{
	const struct rung__measure_gpu_sizes sizes = { GPU_TABLE_BYTES, GPU_BATCH_BYTES,
		                                       GPU_BATCH_ROWS };
	const struct rung__measure_gpu_sizes quick = { GPU_TABLE_BYTES_QUICK, GPU_BATCH_BYTES_QUICK,
		                                       GPU_BATCH_ROWS_QUICK };

	m->gpu_sizes = m->opts.quick ? quick : sizes;
	m->gpu_table_bytes_advised = RUNG__MAX(m->gpu_sizes.table_bytes, m->array_bytes_advised);
	m->gpu_sizes.table_bytes = m->gpu_table_bytes_advised;
	for (size_t i = 0; i < m->node_count; i++) {
		const uint64_t available =
			rung__align_down(rung__measure_available(m, i), RUNG__MEASURE_HUGE_BYTES);

		if (m->nodes[i].node->has_memory && available >= GPU_TABLE_BYTES_MIN)
			m->gpu_sizes.table_bytes = RUNG__MIN(m->gpu_sizes.table_bytes, available);
	}
}

void rung__measure_sizes(struct rung__measuring *m)
{
	choose_rows(m);
	choose_arrays(m);
	choose_tables(m);
	choose_gpu_sizes(m);
}
