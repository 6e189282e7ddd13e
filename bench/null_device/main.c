/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung_null_device DIR ENGINE MERGE BATCH REQUESTS THREADS: the work of rung itself for cold rows,
 * with an engine that reads nothing.
 *
 * ENGINE is null or null_instant; MERGE is 1, or 0 for a read per row. Each of the THREADS refill
 * threads is pinned to one of the CPUs that the process may use. A command on stdin, "round",
 * queues REQUESTS requests of BATCH uniform cold ranks while the refill threads wait at a gate,
 * opens the gate, and waits for the last request. The answer is a line on stdout:
 *
 *     SECONDS CPU_SECONDS ROWS READS THREADS
 *
 * CPU_SECONDS is the time of the refill threads. The submitting thread sorts its misses before the
 * gate opens, and sleeps after that.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common.h"
#include "registry/registry.h"
#include "store/store.h"

#define DEPTH      64u
#define HOST_BYTES (16u << 20) /* slots of 64 KiB for that depth, and few rows */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool shut;
	/* of the refill threads, in the order of their start */
	clockid_t clocks[RUNG_FEATURE_FILES_MAX];
	unsigned thread_count;
	cpu_set_t cpus;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER };

static struct {
	struct rung_store *store;
	struct rung_request **requests;
	uint64_t request_count, batch, row_bytes, cold_first, cold_count;
	uint64_t *ids;
	unsigned char *out;
} run;

/* ---- the reader of files, with a gate ---- */

static void pin(unsigned thread)
{
	unsigned place = thread % (unsigned)CPU_COUNT(&gate.cpus), cpu = 0;
	cpu_set_t one;

	for (;; cpu++) {
		if (CPU_ISSET(cpu, &gate.cpus) && place-- == 0)
			break;
	}
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0)
		bench_die("a refill thread cannot be pinned to CPU %u", cpu);
}

static int gated_start(struct rung__reader *reader)
{
	pthread_mutex_lock(&gate.lock);
	pin(gate.thread_count);
	if (pthread_getcpuclockid(pthread_self(), &gate.clocks[gate.thread_count++]) != 0)
		bench_die("no clock for a refill thread");
	pthread_mutex_unlock(&gate.lock);
	return rung__registry_reader()->start(reader);
}

/* While the gate is shut, the thread has sent its first reads and waits here for their end. */
static int gated_reap(struct rung__reader *reader, uint32_t want, uint64_t timeout_ns,
                      struct rung__fetched *fetched, uint32_t max)
{
	if (__atomic_load_n(&gate.shut, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&gate.lock);
		while (gate.shut)
			pthread_cond_wait(&gate.opened, &gate.lock);
		pthread_mutex_unlock(&gate.lock);
	}
	return rung__registry_reader()->reap(reader, want, timeout_ns, fetched, max);
}

static void set_gate(bool shut)
{
	pthread_mutex_lock(&gate.lock);
	__atomic_store_n(&gate.shut, shut, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&gate.opened);
	pthread_mutex_unlock(&gate.lock);
}

/* ---- the store ---- */

static enum rung_engine engine_of(const char *name)
{
	if (strcmp(name, "null") == 0)
		return RUNG_ENGINE_NULL;
	if (strcmp(name, "null_instant") != 0)
		bench_die("unknown engine '%s'; use null or null_instant", name);
	return RUNG_ENGINE_NULL_INSTANT;
}

static void open_store(const char *dir, const char *engine, bool merge, uint32_t threads)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	static struct rung__reader_ops reader; /* the store keeps the table */
	struct rung_dataset *ds;
	struct rung_plan *plan;

	reader = *rung__registry_reader();
	reader.start = gated_start;
	reader.reap = gated_reap;
	bench_need(rung_dataset_open(dir, &ds), "opening the dataset");
	plan_opts.device = RUNG_DEVICE_CPU;
	plan_opts.host_bytes = HOST_BYTES;
	plan_opts.cache_bytes = RUNG_BYTES_NONE;
	plan_opts.queue_depth = DEPTH;
	bench_need(rung_plan_create(ds, &plan_opts, &plan), "planning");
	opts.engine = engine_of(engine);
	opts.no_merge = !merge;
	opts.refill_threads = threads;
	opts.requests_max = (uint32_t)run.request_count;
	opts.batch_rows_max = (uint32_t)run.batch;
	run.row_bytes = rung_dataset_info(ds)->features.row_bytes;
	run.cold_first = rung_plan_tier(plan, 0)->row_count;
	run.cold_count = rung_dataset_info(ds)->vertex_count - run.cold_first;
	if (run.cold_count == 0)
		bench_die("%s: all rows are in memory; stage more rows", dir);
	bench_need(rung__store_open_over(ds, plan, &opts, &reader, &run.store),
	           "opening the store");
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
}

static void draw_ids(void)
{
	const uint64_t count = run.request_count * run.batch;

	run.ids = bench_map(count * sizeof(*run.ids));
	run.out = bench_map(count * run.row_bytes);
	run.requests = bench_map(run.request_count * sizeof(*run.requests));
	for (uint64_t i = 0; i < count; i++)
		run.ids[i] = run.cold_first + bench_draw(1, i) % run.cold_count;
}

/* ---- a round ---- */

static double cpu_seconds(void)
{
	double all = 0;

	for (unsigned t = 0; t < gate.thread_count; t++) {
		struct timespec time;

		if (clock_gettime(gate.clocks[t], &time) != 0)
			bench_die("the clock of a refill thread cannot be read");
		all += (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
	}
	return all;
}

static struct rung_store_stats counters(void)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	bench_need(rung_store_stats(run.store, &stats), "reading the counters");
	return stats;
}

static void queue_all(void)
{
	for (uint64_t i = 0; i < run.request_count; i++) {
		struct rung_ids ids = { .data = run.ids + i * run.batch,
			                .count = run.batch,
			                .dtype = RUNG_U64,
			                .space = RUNG_RANKS };

		bench_need(rung_gather_submit(run.store, &ids,
		                              run.out + i * run.batch * run.row_bytes, 0,
		                              RUNG_STREAM_OWN, &run.requests[i]),
		           "queueing");
	}
}

static void measure(void)
{
	struct rung_store_stats before = counters(), after;
	double begun, ended, cpu;

	set_gate(true);
	queue_all();
	cpu = cpu_seconds();
	begun = bench_now();
	set_gate(false);
	for (uint64_t i = 0; i < run.request_count; i++)
		bench_need(rung_request_wait(run.requests[i], -1), "gathering");
	ended = bench_now();
	cpu = cpu_seconds() - cpu;
	for (uint64_t i = 0; i < run.request_count; i++)
		rung_request_put(run.requests[i]);
	after = counters();
	printf("%.9f %.9f %llu %llu %u\n", ended - begun, cpu,
	       (unsigned long long)(run.request_count * run.batch),
	       (unsigned long long)(after.device_reads - before.device_reads), gate.thread_count);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[16];

	bench_name = "rung_null_device";
	if (argc != 7) {
		fprintf(stderr,
		        "usage: rung_null_device DIR ENGINE MERGE BATCH REQUESTS THREADS\n");
		return BENCH_USAGE;
	}
	if (sched_getaffinity(0, sizeof(gate.cpus), &gate.cpus) != 0)
		bench_die("the CPUs of this process are unknown");
	run.batch = bench_number(argv[4]);
	run.request_count = bench_number(argv[5]);
	open_store(argv[1], argv[2], bench_number(argv[3]) != 0, (uint32_t)bench_number(argv[6]));
	draw_ids();
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "round\n") != 0)
			bench_die("unknown command '%s'; use round", line);
		measure();
	}
	return rung_store_close(run.store) < 0 ? BENCH_FAILED : BENCH_DONE;
}
