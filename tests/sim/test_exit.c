/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that exit while a store on a simulated GPU is open and busy. Once the exit handlers
 * have unloaded the simulated CUDA, any call of it ends the program. A handler that is registered
 * before CUDA is used runs after that. It waits until each thread of the store has noticed the
 * exit.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataset.h"
#include "rung/gpu_sampler.h"
#include "rung/loader.h"
#include "sim.h"
#include "store_fixture.h"

#define ROWS      2000
#define WIDTH     400
#define ASKED     600
#define IN_FLIGHT 2
#define SEEDS     500
#define HANG_S    120   /* a hang guard */
#define PAUSE_US  50000 /* longer than an exit that does not wait for threads */

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s is false: %s\n", __FILE__, __LINE__,            \
			        #condition, rung_last_error());                                    \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static struct store_fixture f;
static struct rung_request *requests[IN_FLIGHT];
static struct rung_gpu_sampler *sampler;
static struct rung_loader *loader;
static pthread_t copier;

static bool is_refused(int rc)
{
	return rc == RUNG_E_CANCELED && strstr(rung_last_error(), "the process is exiting");
}

static void open_store(uint64_t host_bytes)
{
	struct rung_store_opts opts = {
		.size = sizeof(opts),
		.requests_max = 3,
		.batch_rows_max = 2000,
		.vertex_ids = 1,
	};

	fixture_open(&f, ROWS, WIDTH, host_bytes, &opts, NULL);
}

/* An exit handler or destructor of the user can close the store. */
static void close_store(void)
{
	unsigned long frees = sim_calls("cudaFree");

	fixture_close(&f);
	CHECK(sim_calls("cudaFree") == frees);
}

/* ---- gathers ---- */

static void gathers_are_refused(void)
{
	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		CHECK(is_refused(rung_request_wait(requests[i], -1)));
		rung_request_put(requests[i]);
	}
	close_store();
}

static void start_gathers(uint64_t host_bytes)
{
	static uint64_t ids[ASKED];
	struct rung_ids list;
	void *outs[IN_FLIGHT];

	CHECK(atexit(gathers_are_refused) == 0);
	open_store(host_bytes);
	fixture_random_ids(&f, ids, ASKED, 5);
	list = fixture_ids(&f, ids, ASKED, RUNG_U64, RUNG_RANKS);
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		outs[i] = fixture_memory(&f, ASKED * WIDTH);
	sim_hold(true);
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		CHECK(rung_gather_submit(f.store, &list, outs[i], 0, RUNG_STREAM_OWN,
		                         &requests[i]) == 0);
}

static void gathers_with_cold_rows(void)
{
	start_gathers(ROWS * WIDTH / 4);
}

static void gathers_of_rows_in_memory(void)
{
	start_gathers(RUNG_BYTES_MAX);
}

/* ---- a loader ---- */

static void loader_is_refused(void)
{
	const struct rung_loader_batch *batch;
	int rc;

	while ((rc = rung_loader_next(loader, &batch)) > 0) {
		rc = batch->request ? rung_request_wait(batch->request, -1) : 0;
		CHECK(rc == 0 || is_refused(rc));
		rung_loader_put(loader, batch, NULL);
	}
	CHECK(is_refused(rc));
	rung_loader_destroy(loader);
	rung_gpu_sampler_destroy(sampler);
	close_store();
}

static void a_loader(void)
{
	static const uint32_t fanouts[] = { 4, 3 };
	static uint64_t seeds[SEEDS];
	struct rung_gpu_sampler_opts sampler_opts = {
		.size = sizeof(sampler_opts),
		.fanouts = fanouts,
		.hop_count = 2,
		.seed_count_max = 1,
	};
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	const struct rung_loader_batch *batch;

	CHECK(atexit(loader_is_refused) == 0);
	open_store(ROWS * WIDTH / 4);
	CHECK(rung_gpu_sampler_create(f.store, f.ds, NULL, &sampler_opts, &sampler) == 0);
	opts.batch_size = 1;
	opts.threads = 2;
	opts.gpu_sampler = sampler;
	CHECK(rung_loader_create(f.store, NULL, &opts, &loader) == 0);
	for (uint64_t i = 0; i < SEEDS; i++)
		seeds[i] = i;
	pass.seeds = seeds;
	pass.seed_count = SEEDS;
	CHECK(rung_loader_begin(loader, &pass) == 0);
	CHECK(rung_loader_next(loader, &batch) == 1);
	rung_loader_put(loader, batch, NULL);
}

/* ---- a call that is inside CUDA ---- */

static void *copy_while_held(void *ctx)
{
	static unsigned char bytes[WIDTH];

	(void)ctx;
	CHECK(rung_store_copy(f.store, f.memories[0], bytes, WIDTH) == 0);
	return NULL;
}

/* The copy must not end before exit() has begun to refuse calls. */
static void *release_when_refused(void *ctx)
{
	void *memory;
	int rc;

	(void)ctx;
	while ((rc = rung_store_alloc(f.store, WIDTH, &memory)) == 0)
		usleep(1000);
	CHECK(is_refused(rc));
	usleep(PAUSE_US);
	sim_hold(false);
	return NULL;
}

static void copy_has_ended(void)
{
	CHECK(pthread_join(copier, NULL) == 0);
	close_store();
}

static void a_call_is_waited_for(void)
{
	unsigned long copies;
	pthread_t releaser;

	CHECK(atexit(copy_has_ended) == 0);
	open_store(ROWS * WIDTH / 4);
	fixture_memory(&f, WIDTH);
	copies = sim_calls("cudaMemcpy");
	sim_hold(true);
	CHECK(pthread_create(&copier, NULL, copy_while_held, NULL) == 0);
	while (sim_calls("cudaMemcpy") == copies)
		usleep(1000);
	CHECK(pthread_create(&releaser, NULL, release_when_refused, NULL) == 0);
	CHECK(pthread_detach(releaser) == 0);
}

static int failures;

static void passes(const char *name, void (*body)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		alarm(HANG_S);
		body();
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "%s: status %x\n", name, child < 0 ? 0 : (unsigned)status);
		failures++;
	}
}

int main(void)
{
	passes("gathers with cold rows", gathers_with_cold_rows);
	passes("gathers of rows in memory", gathers_of_rows_in_memory);
	passes("a loader", a_loader);
	passes("a call inside CUDA", a_call_is_waited_for);
	return failures != 0;
}
