/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Measuring memory, GPUs and drives: the common part of the matrices. A struct rung__measuring is
 * the state of one call of rung_numa_measure().
 *
 * Each matrix has a function that adds its results, present or absent. Memory is allocated on one
 * node at a time, so a matrix has an outer loop over memory nodes and an inner loop over CPU nodes;
 * measure_run.c sorts the results by node afterwards.
 *
 * A team (measure_team.c) consists of one thread per core of a node, or of a single thread. The
 * threads are pinned and begin together; the measured time is that of the slowest. As in the store,
 * memory (measure_memory.c) is requested on its node and touched there, and its location is
 * queried. If it is on another node, the values are absent, with the reason, like all values that
 * cannot be measured. A failure ends the call only if it is not a property of the machine.
 *
 * The measured code is that of the library: gathers run src/gather/gather.c and kernels/gather.cu,
 * and reads use the store's reader with its engines. One thread opens, uses and closes the reader,
 * because the store, too, reads on the thread that created the ring.
 *
 * A GPU is identified by its bus id, because CUDA's numbers and the topology's positions may
 * differ. Memory of a node is registered once for all GPUs; GPU memory is allocated for one pair at
 * a time. If CUDA refuses an operation, the values are absent and its message is the reason. Timing
 * blocks a stream while work is queued; if the stream is not released within 5 s, a dedicated
 * thread releases it. With CUDA_LAUNCH_BLOCKING set, a stream cannot be blocked, so the values are
 * absent as well.
 */
#ifndef RUNG_NUMA_MEASURE_H
#define RUNG_NUMA_MEASURE_H

#include "topology/sysfs.h"

#define RUNG__MEASURE_LINE_BYTES 64u
#define RUNG__MEASURE_HUGE_BYTES (2u << 20)
#define RUNG__MEASURE_DEPTH_MAX  128u /* maximum number of reads in flight */
/* maximum number of additional row sizes, or of queue depths, in a request */
#define RUNG__MEASURE_ROWS_MAX 64u
/* name of a value for the progress, cut if longer */
#define RUNG__MEASURE_STEP_BYTES 64u
#define RUNG__MEASURE_ROWS       7u /* number of standard row sizes */

/* ---- threads ---- */

/** Threads that stay on their CPUs and sleep until there is work. */
struct rung__team;

/** A thread's share of a team's work, repeated `passes` times. `rank` is the thread's number, below
 * `count`, the number of threads. */
typedef void (*rung__work_fn)(void *ctx, uint32_t rank, uint32_t count, uint64_t passes);

/** Start a thread on each CPU; `cpus` must stay valid until the team is stopped. @return 0,
 * RUNG_E_NOSUP (threads cannot be pinned to one of the CPUs: a property of the machine),
 * RUNG_E_NOMEM */
int rung__team_start(const uint32_t *cpus, uint32_t count, struct rung__team **team_out);

/** Start one thread on any of these CPUs: a thread that waits for a device wakes up on an idle
 * one. */
int rung__team_start_one(const uint32_t *cpus, uint32_t count, struct rung__team **team_out);
/** Stop the threads, join them and free the team. NULL is allowed. */
void rung__team_stop(struct rung__team *team);

/** Run work on all threads, starting at once, and wait. @return seconds from the start of the first
 * thread to the end of the last one */
double rung__team_run(struct rung__team *team, rung__work_fn work, void *ctx, uint64_t passes);

uint32_t rung__team_count(const struct rung__team *team);

/** Nanoseconds from a clock that NTP does not slew during a measurement. */
uint64_t rung__measure_ns(void);

/* ---- one call ---- */

struct rung__measure_node {
	const struct rung_topology_node *node;
	uint32_t *cores; /* [core_count] one CPU of each core that may be used */
	uint32_t core_count;
	uint64_t cache_bytes; /* bytes of the last-level caches of those cores; 0: unknown */
	/* target size of each array on this node, or less if it does not fit */
	uint64_t array_bytes;
	uint64_t table_bytes; /* size of a gather's table on this node */
};

/** A result and the keys that sort it. */
struct rung__measure_entry {
	struct rung_numa_result result;
	uint32_t group;  /* orders the results of a matrix before their nodes do */
	uint32_t number; /* position in the order of measuring */
};

struct rung_numa_report {
	struct rung__arena arena; /* texts and samples, freed with the report */
	struct rung_numa_report_info info;
	struct rung__measure_entry *entries; /* [info.result_count] */
	size_t room;                         /* capacity of entries */
};

/** Sizes for copies and gathers of GPUs. */
struct rung__measure_gpu_sizes {
	uint64_t table_bytes;    /* bytes of a copy, and of the table that gathers read */
	uint64_t batch_bytes;    /* one gather, at most */
	uint64_t batch_rows_max; /* maximum number of rows of one gather */
};

/** One call of rung_numa_measure(). */
struct rung__measuring {
	const char *root; /* root of the machine's sysfs; "" for this machine */
	const struct rung_topology *topology;
	struct rung_numa_measure_opts opts; /* complete */
	struct rung_numa_report *report;
	struct rung__measure_node *nodes; /* [node_count] */
	size_t node_count;
	/* [node_count x node_count], CPU node first; NaN: not measured yet, or cannot be */
	double *latency_ns;
	/* whether memory can be bound to nodes, and whether its location can be queried */
	struct rung_numa_policy policy;
	/* smallest size of an array whose values do not depend on the caches */
	uint64_t array_bytes_advised;
	/* [row_count] sizes of the rows to gather, in bytes, ascending, without duplicates */
	uint32_t rows[RUNG__MEASURE_ROWS + RUNG__MEASURE_ROWS_MAX];
	size_t row_count;
	struct rung__measure_gpu_sizes gpu_sizes;
	uint64_t gpu_table_bytes_advised; /* smallest such size of a GPU's table */
	/* For the progress: the value that is being measured, the matrices that are complete and
	 * all of them, and the results of the current one so far and in total. */
	char step[RUNG__MEASURE_STEP_BYTES];
	const char *matrix_name;
	size_t matrices_done, matrix_count;
	uint64_t done, total;
};

/** Idle latency in ns from the CPUs of a node to memory of a node; both are positions in
 * `nodes`. */
static inline double *rung__measure_latency_of(const struct rung__measuring *m, size_t cpu_idx,
                                               size_t memory_idx)
{
	return &m->latency_ns[cpu_idx * m->node_count + memory_idx];
}

/** rung_numa_measure() with the caches of the machine whose sysfs is below `root`. */
int rung__numa_measure(const char *root, const struct rung_topology *topology,
                       const struct rung_numa_measure_opts *opts,
                       struct rung_numa_report **report_out);

/**
 * Choose the rows, and the sizes of arrays and tables: several times the caches where memory
 * allows. A node that has too little memory for the smallest arrays still gets their size;
 * allocating them then fails with the reason.
 */
void rung__measure_sizes(struct rung__measuring *m);

/** Append a value to a list, unless it is in the list already. */
void rung__measure_add_once(uint32_t *list, size_t *count, uint32_t value);

/** Bytes of the ids of a gather whose output is an array of `array_bytes`. */
uint64_t rung__measure_ids_bytes(const struct rung__measuring *m, uint64_t array_bytes);

/** Report the value that is measured next. @return 0 or RUNG_E_CANCELED */
int rung__measure_next(struct rung__measuring *m, const struct rung_numa_result *like);

/** Report progress under the name m->step. @return 0 or RUNG_E_CANCELED */
int rung__measure_progress(struct rung__measuring *m);

/** Begin a matrix. `total` is the estimated number of its results, for the progress. */
void rung__measure_step(struct rung__measuring *m, uint64_t total);

/** A result in which every member is absent. */
struct rung_numa_result rung__measure_blank(enum rung_numa_matrix matrix);

/** Add a result that is absent for this reason. @param why owned by the report; NULL: its text
 * could not be allocated. @return 0, RUNG_E_NOMEM, RUNG_E_CANCELED */
int rung__measure_absent(struct rung__measuring *m, const struct rung_numa_result *like,
                         uint32_t group, const char *why);

/** Record the message of a lack of memory. @return RUNG_E_NOMEM */
int rung__measure_out_of_memory(void);

/**
 * The calling thread's last failure, as a reason.
 * @param rc  its status
 * @return 0, or RUNG_E_NOMEM, which is not a reason but ends the call
 */
int rung__measure_why(struct rung__measuring *m, int rc, const char **why_out);

/** Text that lives as long as the report; NULL if memory is short. */
const char *rung__measure_text(struct rung__measuring *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- values ---- */

/** Median, minimum and maximum of samples, whose order is kept. @param sorted array of `count`. NaN
 * without samples */
struct rung_numa_value rung__measure_value(const double *samples, size_t count, double *sorted);

/** Allocate an array for samples, owned by the report. @return 0 or RUNG_E_NOMEM */
int rung__measure_samples(struct rung__measuring *m, size_t count, double **samples_out);

/** Performs the measured work `passes` times and reports the seconds. @return 0 or a failure */
typedef int (*rung__run_fn)(void *ctx, uint64_t passes, double *seconds_out);

/** A rung__run_fn that has a team do the work. ctx: a struct rung__team_work. @return 0 */
int rung__measure_by_team(void *ctx, uint64_t passes, double *seconds_out);
struct rung__team_work {
	struct rung__team *team;
	rung__work_fn work;
	void *ctx;
};

/** Find the number of passes whose time is at least opts.sample_seconds. The first pass warms up
 * and is not timed. @return 0 or a failure of `run` */
int rung__measure_calibrate(const struct rung__measuring *m, rung__run_fn run, void *ctx,
                            uint64_t *passes_out);

/** Calibrate and take the samples: seconds per pass, [opts.samples], owned by the report. */
int rung__measure_passes(struct rung__measuring *m, rung__run_fn run, void *ctx,
                         double **samples_out);

/** Amounts per pass, each of which gives a value of the result. 0: the result does not have that
 * value. */
struct rung__measure_pass {
	double bytes; /* bytes_per_s */
	double items; /* per_s */
	double hops;  /* latency_ns */
	double gib;   /* seconds_per_gib */
};

/**
 * Add a result with its values, computed from seconds per pass.
 * @param result_out  NULL, or set to the result; valid until the next one is added
 * @return 0, RUNG_E_NOMEM, RUNG_E_CANCELED
 */
int rung__measure_add_values(struct rung__measuring *m, const struct rung_numa_result *like,
                             uint32_t group, const double *seconds,
                             const struct rung__measure_pass *pass,
                             struct rung_numa_result **result_out);

/** Set a further value of a result: `units` per second. @return 0 or RUNG_E_NOMEM */
int rung__measure_set_rate(struct rung__measuring *m, struct rung_numa_value *value,
                           const double *seconds, double units);

/* ---- memory ---- */

struct rung__measure_memory {
	unsigned char *base;
	uint64_t bytes;
	/* shares of the pages that are on the node, and of memory in huge pages; NaN: unknown */
	double placement_share, huge_share;
};

/** Reason why no CPU of this node can work; NULL: one can. Owned by the report. */
const char *rung__measure_no_cpu(struct rung__measuring *m, size_t idx);

/** Reason why this many bytes cannot be allocated on this node; NULL: they can. Owned by the
 * report. */
const char *rung__measure_no_memory(struct rung__measuring *m, size_t idx, uint64_t bytes);

/** Bytes that may be allocated on a node: opts.memory_bytes_max or half of its free memory,
 * whichever is smaller. */
uint64_t rung__measure_available(const struct rung__measuring *m, size_t idx);

/** Start a team on the cores of a node, or on one of them. A node without cores has its memory
 * touched by those of the first node that has some. */
int rung__measure_team(struct rung__measuring *m, size_t idx, bool all_cores,
                       struct rung__team **team_out);

/** Map untouched memory for a node. @param page_bytes a page, or RUNG__MEASURE_HUGE_BYTES to
 * request huge ones */
int rung__measure_map(struct rung__measuring *m, size_t idx, uint64_t bytes, uint64_t page_bytes,
                      struct rung__measure_memory *memory_out);

/** Write to each page of memory. ctx: a struct rung__measure_memory. */
void rung__measure_touch_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes);

/** Query the location of touched memory and set its shares. @return NULL, or how the location
 * differs from the request, owned by the report */
const char *rung__measure_check(struct rung__measuring *m, size_t idx,
                                struct rung__measure_memory *memory);

/**
 * Allocate memory on a node: map it, touch it and check its location.
 * @param memory_out  empty after a reason or a failure; may be released in any case
 * @param why_out     NULL, or why the memory cannot be used
 * @return 0 or a failure
 */
int rung__measure_alloc(struct rung__measuring *m, size_t idx, uint64_t bytes, uint64_t page_bytes,
                        struct rung__measure_memory *memory_out, const char **why_out);
void rung__measure_release(struct rung__measure_memory *memory);

/* ---- the machine ---- */

/** Read the cores, caches and settings of the machine into the nodes and the report. */
int rung__measure_machine(struct rung__measuring *m);

/* ---- matrices ---- */

/** The CPUs of a node and memory of a node. */
struct rung__measure_pair {
	size_t cpu_idx, memory_idx;
	const struct rung__measure_memory *memory;
	const char *why; /* NULL, or why this pair cannot be measured: all its results are absent */
};

/**
 * Iterate over memory nodes and CPU nodes: allocate memory, and call `measure` for each pair.
 * @param bytes  bytes to allocate on a node; rows and arrays are parts of this memory
 */
int rung__measure_each(struct rung__measuring *m,
                       uint64_t (*bytes)(const struct rung__measuring *m, size_t memory_idx),
                       int (*measure)(struct rung__measuring *m,
                                      const struct rung__measure_pair *pair));

/** Sizes for rung__measure_each(): the bytes of one array, or of three arrays, of a node. */
uint64_t rung__measure_one_array(const struct rung__measuring *m, size_t memory_idx);
uint64_t rung__measure_three_arrays(const struct rung__measuring *m, size_t memory_idx);

/** A result of a pair with its nodes, array size and shares, but without values. */
struct rung_numa_result rung__measure_of_pair(const struct rung__measuring *m,
                                              enum rung_numa_matrix matrix,
                                              const struct rung__measure_pair *pair);

/** Record the shares of memory in a result. */
void rung__measure_note(struct rung_numa_result *result, const struct rung__measure_memory *memory);

/* Each measures one matrix and adds its results. @return 0; RUNG_E_NOMEM, RUNG_E_CANCELED and other
 * failures that are not a property of the machine */
int rung__measure_bandwidth(struct rung__measuring *m);
int rung__measure_latency(struct rung__measuring *m);
int rung__measure_loaded(struct rung__measuring *m);
int rung__measure_gather(struct rung__measuring *m);
int rung__measure_gpu(struct rung__measuring *m);
int rung__measure_peer(struct rung__measuring *m);
int rung__measure_nvme(struct rung__measuring *m);
int rung__measure_touch(struct rung__measuring *m);
int rung__measure_register(struct rung__measuring *m);

/** Check the files before anything is measured, so that a wrong one is reported at once. */
int rung__measure_nvme_check(struct rung__measuring *m);

/* ---- kernels (measure_kernels.c) ---- */

enum {
	RUNG__STREAM_READ,
	RUNG__STREAM_WRITE,
	RUNG__STREAM_COPY,
	RUNG__STREAM_TRIAD,
	RUNG__STREAM_COUNT
};

/** Kind of stores that the loops use: "non-temporal" or "plain". */
const char *rung__stream_stores(void);

/** Run one pass over arrays of `count` doubles, a multiple of 32; the arrays are 64-byte aligned.
 * Read: b. Write: a = s. Copy: a = b. Triad: a = b + s c. Unused arrays may be NULL. */
void rung__stream_pass(unsigned kind, double *a, const double *b, const double *c, size_t count);

/** Write one cycle of pointers into memory, which visits each line once and changes the page with
 * every hop. @param order scratch array, [page_count]. @return where the chase begins */
void *rung__chase_make(void *memory, uint64_t page_count, uint32_t *order);

/** Follow `hops` pointers. @return the position reached, for the next call */
void *rung__chase(void *at, uint64_t hops);

#endif
