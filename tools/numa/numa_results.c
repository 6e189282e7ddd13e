/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of numa_results.h: fields of each kind of result, lists in JSON, tables and heat maps;
 * and functions that find results. docs/PROFILE.md defines each key.
 */
#include <math.h>
#include <string.h>

#include "numa/numa_results.h"

static const char *matrix_of(const struct rung_numa_result *result)
{
	return rung_numa_matrix_name(result->matrix);
}

/* The tier that a GPU gathers from, named as in a plan. */
static const char *rung_of(const struct rung_numa_result *result)
{
	if (result->matrix == RUNG_NUMA_GPU)
		return "host";
	return numa_alike(result->gpu_bus_id, result->to_gpu_bus_id) ? "gpu" : "peer";
}

static const char *cores_of(const struct rung_numa_result *result)
{
	return result->all_cores < 0 ? NULL : result->all_cores ? "all" : "one";
}

/* Initialisers for the members of a field that follow `matrices`: type, offset, zero, word. */
#define WORDS(function)   NUMA_WORDS, 0, 0, function
#define TEXT(member)      NUMA_TEXT, NUMA_AT(member), 0, NULL
#define NODE(member)      NUMA_NODE, NUMA_AT(member), 0, NULL
#define U32(member, zero) NUMA_U32, NUMA_AT(member), zero, NULL
#define U64(member, zero) NUMA_U64, NUMA_AT(member), zero, NULL
#define DOUBLE(member)    NUMA_REAL, NUMA_AT(member), 0, NULL
#define VALUE(member)     NUMA_VALUE, NUMA_AT(member), 0, NULL
#define GPUS              (RUNG_NUMA_GPU | RUNG_NUMA_PEER)
#define COSTS             (RUNG_NUMA_TOUCH | RUNG_NUMA_REGISTER)

/* In the order of the JSON objects. A key such as row_bytes has several rows if a 0 means different
 * things in different matrices: a number in some, an absent value in others. */
const struct numa_field numa_fields[] = {
	{ "matrix", RUNG_NUMA_ALL, WORDS(matrix_of) },
	{ "kind", RUNG_NUMA_ALL, TEXT(kind) },
	{ "cpu_node", RUNG_NUMA_ALL, NODE(cpu_node) },
	{ "memory_node", RUNG_NUMA_ALL, NODE(memory_node) },
	{ "cores", RUNG_NUMA_ALL, WORDS(cores_of) },
	{ "threads", RUNG_NUMA_ALL, U32(threads, NUMA_ZERO_THREADS) },
	{ "buffer_bytes", RUNG_NUMA_ALL, U64(buffer_bytes, 0) },
	{ "advised_bytes", RUNG_NUMA_ALL, U64(advised_bytes, 0) },
	{ "placement_share", RUNG_NUMA_ALL, DOUBLE(placement_share) },
	{ "huge_share", RUNG_NUMA_ALL, DOUBLE(huge_share) },
	{ "absent", RUNG_NUMA_ALL, TEXT(absent) },
	{ "level", RUNG_NUMA_LOADED, U32(level, NUMA_ZERO_NUMBER) },
	{ "row_bytes", RUNG_NUMA_GATHER, U64(row_bytes, NUMA_ZERO_JSON) },
	{ "of_copy", RUNG_NUMA_GATHER, DOUBLE(of_copy) },
	{ "rows_in_flight", RUNG_NUMA_GATHER, DOUBLE(rows_in_flight) },
	{ "lines_in_flight", RUNG_NUMA_GATHER, DOUBLE(lines_in_flight) },
	{ "gpu", GPUS, NODE(gpu) },
	{ "gpu_bus_id", GPUS, TEXT(gpu_bus_id) },
	{ "to_gpu", RUNG_NUMA_PEER, NODE(to_gpu) },
	{ "to_gpu_bus_id", RUNG_NUMA_PEER, TEXT(to_gpu_bus_id) },
	{ "from", 0, WORDS(rung_of) },
	{ "drive", RUNG_NUMA_NVME, TEXT(drive) },
	{ "file", RUNG_NUMA_NVME, TEXT(file) },
	{ "row_bytes", GPUS | RUNG_NUMA_NVME, U64(row_bytes, 0) },
	{ "queue_depth", RUNG_NUMA_NVME, U32(queue_depth, 0) },
	{ "engine", RUNG_NUMA_NVME, TEXT(engine) },
	{ "page_bytes", COSTS, U64(page_bytes, NUMA_ZERO_JSON) },
	{ "bytes_per_s", RUNG_NUMA_ALL, VALUE(bytes_per_s) },
	{ "reads_per_s", RUNG_NUMA_NVME, VALUE(per_s) },
	{ "rows_per_s", RUNG_NUMA_ALL & ~RUNG_NUMA_NVME, VALUE(per_s) },
	{ "latency_ns", RUNG_NUMA_ALL, VALUE(latency_ns) },
	{ "seconds_per_gib", RUNG_NUMA_ALL, VALUE(seconds_per_gib) },
	{ 0 },
};

const struct numa_field *numa_field(enum rung_numa_matrix matrix, const char *key, size_t length)
{
	for (const struct numa_field *field = numa_fields; field->key; field++) {
		if ((!field->matrices || (field->matrices & matrix)) &&
		    strlen(field->key) == length && strncmp(field->key, key, length) == 0)
			return field;
	}
	return NULL;
}

struct numa_datum numa_datum(const struct numa_field *field, const struct rung_numa_result *result)
{
	const void *at = numa_at(result, field->offset);
	struct numa_datum datum = { 0 };

	switch (field->form) {
	case NUMA_WORDS:
	case NUMA_TEXT:
		datum.word = field->word ? field->word(result) : *(const char *const *)at;
		datum.is = datum.word ? NUMA_WORD : NUMA_NOTHING;
		break;
	case NUMA_NODE:
		datum.number = (uint64_t) * (const int *)at;
		datum.is = *(const int *)at < 0 ? NUMA_NOTHING : NUMA_NUMBER;
		break;
	case NUMA_U32:
	case NUMA_U64:
		datum.number =
			field->form == NUMA_U32 ? *(const uint32_t *)at : *(const uint64_t *)at;
		datum.is = datum.number || field->zero ? NUMA_NUMBER : NUMA_NOTHING;
		break;
	case NUMA_REAL:
	case NUMA_VALUE:
		datum.real = field->form == NUMA_REAL
		                     ? *(const double *)at
		                     : ((const struct rung_numa_value *)at)->median;
		datum.is = isfinite(datum.real) ? NUMA_DOUBLE : NUMA_NOTHING;
		break;
	}
	return datum;
}

/* ---- lists ---- */

#define KEYS (const struct numa_list_key[])
/* a key with the name of its field */
#define SAME(field)                                                                                \
	{                                                                                          \
		field, field, NULL                                                                 \
	}

const struct numa_list numa_lists[] = {
	{ "nvme_read", RUNG_NUMA_NVME, NULL, 0,
	  KEYS{ SAME("drive"),
	        SAME("file"),
	        SAME("cpu_node"),
	        SAME("row_bytes"),
	        SAME("queue_depth"),
	        SAME("engine"),
	        SAME("reads_per_s"),
	        SAME("bytes_per_s"),
	        { 0 } } },
	/* one entry per GPU and node, with the rates of three kinds. Each to_gpu result has an
	 * entry, even if it is absent: the two other rates may still exist. */
	{ "gpu_copy", RUNG_NUMA_GPU, "to_gpu", 1,
	  KEYS{ SAME("gpu"),
	        SAME("gpu_bus_id"),
	        SAME("memory_node"),
	        { "to_gpu_bytes_per_s", "bytes_per_s", "to_gpu" },
	        { "from_gpu_bytes_per_s", "bytes_per_s", "from_gpu" },
	        { "both_bytes_per_s", "bytes_per_s", "both" },
	        { 0 } } },
	{ "gpu_peer", RUNG_NUMA_PEER, "copy", 0,
	  KEYS{ { "from_gpu", "gpu", NULL },
	        { "from_gpu_bus_id", "gpu_bus_id", NULL },
	        SAME("to_gpu"),
	        SAME("to_gpu_bus_id"),
	        SAME("bytes_per_s"),
	        { 0 } } },
	{ "gpu_gather", RUNG_NUMA_GPU, "gather", 0,
	  KEYS{ SAME("gpu"),
	        SAME("gpu_bus_id"),
	        SAME("from"),
	        SAME("memory_node"),
	        { "from_gpu", "to_gpu", NULL },
	        { "from_gpu_bus_id", "to_gpu_bus_id", NULL },
	        SAME("row_bytes"),
	        SAME("rows_per_s"),
	        SAME("bytes_per_s"),
	        { 0 } } },
	/* more entries of the list above, for gathers between GPUs: the member to_gpu is the GPU
	 * that gathers, and the member gpu is the one whose memory it reads */
	{ "gpu_gather", RUNG_NUMA_PEER, "gather", 0,
	  KEYS{ { "gpu", "to_gpu", NULL },
	        { "gpu_bus_id", "to_gpu_bus_id", NULL },
	        SAME("from"),
	        SAME("memory_node"),
	        { "from_gpu", "gpu", NULL },
	        { "from_gpu_bus_id", "gpu_bus_id", NULL },
	        SAME("row_bytes"),
	        SAME("rows_per_s"),
	        SAME("bytes_per_s"),
	        { 0 } } },
	{ 0 },
};

/* ---- tables ---- */

/* Columns that several tables have. */
#define CPUS                                                                                       \
	{                                                                                          \
		"CPUs", NUMA_CELL_NODE, NUMA_AT(cpu_node), NULL, 0                                 \
	}
#define MEMORY                                                                                     \
	{                                                                                          \
		"memory", NUMA_CELL_NODE, NUMA_AT(memory_node), NULL, 0                            \
	}
#define THREADS(heading)                                                                           \
	{                                                                                          \
		heading, NUMA_CELL_COUNT, NUMA_AT(threads), NULL, 0                                \
	}
#define ROW                                                                                        \
	{                                                                                          \
		"row", NUMA_CELL_BYTES, NUMA_AT(row_bytes), NULL, 0                                \
	}
#define PER_S                                                                                      \
	{                                                                                          \
		"rows/s", NUMA_CELL_PER_S, NUMA_AT(per_s), NULL, 0                                 \
	}
#define RATE(heading)                                                                              \
	{                                                                                          \
		heading, NUMA_CELL_RATE, NUMA_AT(bytes_per_s), NULL, 0                             \
	}
#define OTHER(heading, kind)                                                                       \
	{                                                                                          \
		heading, NUMA_CELL_OTHER, NUMA_AT(bytes_per_s), kind, 0                            \
	}
#define SPREADS(heading)                                                                           \
	{                                                                                          \
		heading, NUMA_CELL_SPREADS, 0, NULL, 0                                             \
	}
#define SPREAD(member)                                                                             \
	{                                                                                          \
		"+-", NUMA_CELL_SPREAD, NUMA_AT(member), NULL, 0                                   \
	}
#define REAL(heading, member, format, factor)                                                      \
	{                                                                                          \
		heading, NUMA_CELL_REAL, NUMA_AT(member), format, factor                           \
	}
#define SHARE(heading, member) REAL(heading, member, "%.0f %%", 100)
#define COLUMNS                (const struct numa_column[])

static const struct numa_column cost_columns[] = {
	MEMORY,
	{ "pages", NUMA_CELL_BYTES, NUMA_AT(page_bytes), NULL, 0 },
	THREADS("threads"),
	REAL("a GiB takes", seconds_per_gib.median, "%.1f ms", 1000),
	SPREAD(seconds_per_gib),
	{ 0 },
};

/* If a line shows several kinds, the table has a line per result of one kind, and OTHER columns for
 * the rates of the other kinds. */
const struct numa_table numa_tables[] = {
	{ RUNG_NUMA_BANDWIDTH, "read", 0,
	  "bandwidth, bytes counted as STREAM does (a copy of n bytes is 2 n)",
	  COLUMNS{ CPUS,
	           MEMORY,
	           THREADS("threads"),
	           OTHER("read", "read"),
	           OTHER("write", "write"),
	           OTHER("copy", "copy"),
	           OTHER("triad", "triad"),
	           SPREADS("+-"),
	           SHARE("there", placement_share),
	           { 0 } } },
	{ RUNG_NUMA_LATENCY, NULL, 0, "latency of one dependent load, nothing else running",
	  COLUMNS{ CPUS,
	           MEMORY,
	           REAL("latency", latency_ns.median, "%.1f ns", 1),
	           REAL("least", latency_ns.min, "%.1f", 1),
	           REAL("most", latency_ns.max, "%.1f", 1),
	           SHARE("huge pages", huge_share),
	           { 0 } } },
	{ RUNG_NUMA_LOADED, NULL, 0, "latency of one core's dependent loads while others read",
	  COLUMNS{ CPUS,
	           MEMORY,
	           THREADS("cores that read"),
	           RATE("they read"),
	           REAL("latency", latency_ns.median, "%.1f ns", 1),
	           SPREAD(latency_ns),
	           { 0 } } },
	{ RUNG_NUMA_GATHER, NULL, 0,
	  "rows gathered from random places, counted as a copy; in flight: rows per second and "
	  "thread x\nidle latency (a thread prefetches 8 KiB, at most 16 or 32 rows, and a core "
	  "waits "
	  "for some tens of\nlines of 64 bytes at a time, which limits small rows)",
	  COLUMNS{ CPUS,
	           MEMORY,
	           ROW,
	           THREADS("threads"),
	           PER_S,
	           RATE("bandwidth"),
	           REAL("of copy", of_copy, "%.2f", 1),
	           SPREAD(bytes_per_s),
	           REAL("rows in flight", rows_in_flight, "%.1f", 1),
	           REAL("lines in flight", lines_in_flight, "%.1f", 1),
	           { 0 } } },
	{ RUNG_NUMA_GPU, "to_gpu", 1,
	  "pinned memory and GPUs: copy engines, and a kernel that reads it in sequence; bytes "
	  "that cross the link, both directions added",
	  COLUMNS{ { "GPU", NUMA_CELL_GPU, 0, NULL, 0 },
	           MEMORY,
	           OTHER("to the GPU", "to_gpu"),
	           OTHER("from it", "from_gpu"),
	           OTHER("both at once", "both"),
	           OTHER("read by a kernel", "read"),
	           SPREADS("+- at most"),
	           SHARE("on node", placement_share),
	           { 0 } } },
	{ RUNG_NUMA_GPU, "gather", 0,
	  "rows that a GPU gathers from random places of pinned memory, counted once",
	  COLUMNS{ { "GPU", NUMA_CELL_GPU, 0, NULL, 0 },
	           MEMORY,
	           ROW,
	           PER_S,
	           RATE("bandwidth"),
	           SPREAD(bytes_per_s),
	           { 0 } } },
	{ RUNG_NUMA_PEER, "copy", 0,
	  "copies between GPUs, by the destination; from a GPU to itself, memory of that GPU is "
	  "read and written",
	  COLUMNS{ { "from", NUMA_CELL_GPU, 0, NULL, 0 },
	           { "to", NUMA_CELL_TO_GPU, 0, NULL, 0 },
	           RATE("copy"),
	           SPREAD(bytes_per_s),
	           { 0 } } },
	{ RUNG_NUMA_PEER, "gather", 0,
	  "rows that a GPU gathers from random places of a GPU's memory, counted once",
	  COLUMNS{ { "GPU", NUMA_CELL_TO_GPU, 0, NULL, 0 },
	           { "memory", NUMA_CELL_GPU, 0, NULL, 0 },
	           ROW,
	           PER_S,
	           RATE("bandwidth"),
	           SPREAD(bytes_per_s),
	           { 0 } } },
	{ RUNG_NUMA_NVME, NULL, 0, "1000 random reads per second", NULL },
	{ RUNG_NUMA_TOUCH, NULL, 0, "first touch of fresh memory", cost_columns },
	{ RUNG_NUMA_REGISTER, NULL, 0, "registering memory with io_uring", cost_columns },
	{ 0 },
};

/* ---- finding ---- */

const struct rung_numa_value *numa_main_value(const struct rung_numa_result *result)
{
	if (result->matrix & (RUNG_NUMA_LATENCY | RUNG_NUMA_LOADED))
		return &result->latency_ns;
	return result->matrix & COSTS ? &result->seconds_per_gib : &result->bytes_per_s;
}

int numa_alike(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

int numa_is_of(const struct rung_numa_result *result, enum rung_numa_matrix matrix,
               const char *kind, int absent_too)
{
	return result->matrix == matrix && (absent_too || !result->absent) &&
	       (!kind || numa_alike(result->kind, kind));
}

const struct rung_numa_result *numa_find(const struct numa_measured *measured,
                                         const struct rung_numa_result *like)
{
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if (result->matrix == like->matrix && numa_alike(result->kind, like->kind) &&
		    result->cpu_node == like->cpu_node &&
		    result->memory_node == like->memory_node &&
		    result->row_bytes == like->row_bytes && result->level == like->level &&
		    result->all_cores == like->all_cores &&
		    numa_alike(result->gpu_bus_id, like->gpu_bus_id) &&
		    numa_alike(result->to_gpu_bus_id, like->to_gpu_bus_id))
			return result;
	}
	return NULL;
}

const struct rung_numa_result *numa_result(const struct numa_measured *measured, size_t idx)
{
	if (!measured->loaded)
		return rung_numa_report_result(measured->report, idx);
	return idx < measured->info.result_count ? &measured->loaded[idx] : NULL;
}

int numa_any_value(const struct numa_measured *measured, uint32_t matrices)
{
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if ((result->matrix & matrices) && !result->absent)
			return 1;
	}
	return 0;
}

size_t numa_count_reads(const struct numa_measured *measured, size_t first, size_t *depth_count_out)
{
	const struct rung_numa_result *begin = numa_result(measured, first);
	const struct rung_numa_result *result;
	size_t count = 0;

	*depth_count_out = 0;
	/* depth_count grows only while it equals `count`, that is, until the first result of
	 * another size */
	while ((result = numa_result(measured, first + count)) != NULL &&
	       numa_is_of(result, begin->matrix, NULL, 0) && result->cpu_node == begin->cpu_node &&
	       strcmp(result->file, begin->file) == 0) {
		if (*depth_count_out == count && result->row_bytes == begin->row_bytes)
			++*depth_count_out;
		count++;
	}
	return count;
}

const char *numa_gpu_text(char text[TOOL_TEXT_BYTES], int gpu, const char *bus_id)
{
	if (gpu >= 0)
		snprintf(text, TOOL_TEXT_BYTES, "GPU%d", gpu);
	else
		snprintf(text, TOOL_TEXT_BYTES, "%s", bus_id ? bus_id : "-");
	return text;
}
