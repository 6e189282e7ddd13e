/* SPDX-License-Identifier: Apache-2.0 */
/* A staged dataset and a store on it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "dataset.h"
#include "rung_config.h"
#include "store_fixture.h"
#if RUNG_HAVE_IO_URING
#include <liburing.h>
#endif

#define FIXTURE_SEED       77
#define FIXTURE_RING_DEPTH 64u /* of a store by default */

static void need(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "fixture: %s: %s\n", what, rung_last_error());
	abort();
}

static const char *test_device(void)
{
	const char *device = getenv("RUNG_TEST_DEVICE");

	return device && *device ? device : "cpu";
}

bool fixture_on_cuda(void)
{
	return strncmp(test_device(), "cuda", 4) == 0;
}

bool fixture_in_place(void)
{
	return getenv("RUNG_TEST_IN_PLACE") != NULL;
}

struct rung_plan_opts fixture_plan_opts(uint64_t all_bytes, uint64_t host_bytes, int gpus[3])
{
	struct rung_plan_opts opts = { .size = sizeof(opts), .host_bytes = host_bytes };
	const char *device = test_device();

	if (!fixture_on_cuda()) {
		if (strcmp(device, "cpu") == 0)
			return opts;
		fprintf(stderr, "RUNG_TEST_DEVICE=%s: no such device\n", device);
		abort();
	}
	opts.device = RUNG_DEVICE_CUDA;
	opts.vertex_ids = 1;
	opts.gpu_bytes = strcmp(device, "cuda-gpu") == 0 ? all_bytes / 4 : RUNG_BYTES_NONE;
	if (strcmp(device, "cuda-peer") == 0) {
		int gpu_count = 1;
		struct rung_gpu_info info = { .size = sizeof(info) };

		while (gpu_count < 3 && rung_gpu_info(gpu_count, &info) == 0)
			gpu_count++;
		for (int i = 0; i < 3; i++)
			gpus[i] = i % gpu_count;
		opts.gpus = gpus;
		opts.gpu_count = 3;
		opts.replicate_bytes = all_bytes / 8;
		opts.gpu_bytes = all_bytes / 8 + all_bytes / 8;
	}
	return opts;
}

void *fixture_memory(struct store_fixture *f, uint64_t bytes)
{
	unsigned char *fill = malloc(bytes + 1);
	void *memory;

	if (f->memory_count == FIXTURE_MEMORIES_MAX)
		abort();
	need(rung_store_alloc(f->store, bytes, &memory), "memory of the store");
	memset(fill, 0x5a, bytes);
	need(rung_store_copy(f->store, memory, fill, bytes), "copying");
	free(fill);
	f->memories[f->memory_count++] = memory;
	return memory;
}

struct rung_ids fixture_ids(struct store_fixture *f, const void *ids, uint64_t count,
                            enum rung_dtype dtype, enum rung_id_space space)
{
	uint64_t bytes = count * rung_dtype_bytes(dtype);
	struct rung_ids list = { fixture_memory(f, bytes), count, dtype, space };

	need(rung_store_copy(f->store, (void *)list.data, ids, bytes), "copying");
	return list;
}

unsigned fixture_tier(const struct store_fixture *f, const char *name)
{
	unsigned i = 0;

	while (strcmp(rung_plan_tier(f->plan, i)->name, name) != 0) /* NULL past the end */
		i++;
	return i;
}

static void free_memories(struct store_fixture *f, unsigned down_to)
{
	while (f->memory_count > down_to) {
		void *memory = f->memories[--f->memory_count];

		if (f->store)
			rung_store_free(f->store, memory);
		else if (!fixture_on_cuda())
			/* the test closed the store with requests in flight; GPU memory ends with
			 * the process */
			rung_free(memory);
	}
}

#define SETTLE_NS 10000000000u /* a hang guard: some tests leave reads that never end */

/*
 * Memory may be freed once no gather writes to it. A request for cold rows that was put early can
 * scatter them long afterwards; for other requests cudaFree() waits for the kernel.
 */
static void settle(const struct store_fixture *f)
{
	const uint64_t until_ns = rung__now_ns() + SETTLE_NS;
	struct rung_store_stats stats = { .size = sizeof(stats) };

	while (f->store && fixture_on_cuda() && rung__now_ns() < until_ns) {
		uint64_t ended = 0;

		need(rung_store_stats(f->store, &stats), "statistics");
		for (unsigned b = 0; b < RUNG_LATENCY_BUCKETS; b++)
			ended += stats.latency[b];
		if (ended >= stats.requests || stats.tiers[stats.tier_count - 1].rows == 0)
			return;
		usleep(1000);
	}
}

void fixture_free_memories(struct store_fixture *f)
{
	settle(f);
	free_memories(f, 0);
}

#define MEMORY_WAIT_NS 30000000000u /* a hang guard */

/* Rings of tests that run at the same time, by the same user, share one RLIMIT_MEMLOCK. */
static int open_store(struct store_fixture *f, const struct rung_store_opts *opts,
                      const struct rung__reader_ops *reader_ops)
{
	uint64_t until_ns = rung__now_ns() + MEMORY_WAIT_NS;
	int rc;

	do
		rc = rung__store_open_over(f->ds, f->plan, opts, reader_ops, &f->store);
	while (rc == RUNG_E_NOSUP && strstr(rung_last_error(), "RLIMIT_MEMLOCK") &&
	       rung__now_ns() < until_ns);
	return rc;
}

void fixture_open_files(struct store_fixture *f, uint32_t file_count, uint64_t vertices,
                        uint64_t row_bytes, uint64_t host_bytes, const struct rung_store_opts *opts,
                        const struct rung__reader_ops *reader_ops)
{
	int gpus[3];
	struct rung_plan_opts plan_opts = fixture_plan_opts(vertices * row_bytes, host_bytes, gpus);
	const char *tmp = getenv("TMPDIR"), *threads = getenv("RUNG_TEST_REFILL_THREADS");
	struct rung_store_opts own = RUNG_STORE_OPTS_INIT;
	uint64_t count;

	plan_opts.sample_on_gpu = getenv("RUNG_TEST_SAMPLE_ON") != NULL;
	if (fixture_in_place() && host_bytes != 0 && host_bytes != RUNG_BYTES_NONE &&
	    host_bytes != RUNG_BYTES_MAX)
		/* the source does not start on a page boundary */
		plan_opts.host_bytes +=
			vertices * rung_index_bytes(vertices) + 4 * RUNG__PAGE_BYTES;
	if (opts)
		own = *opts;
	if (own.refill_threads == 0 && threads)
		own.refill_threads = (uint32_t)atoi(threads);
	if (fixture_on_cuda() && own.batch_rows_max == 0)
		own.batch_rows_max = 1u << 17; /* every test pins memory for this many rows */
	*f = (struct store_fixture){ .vertices = vertices, .row_bytes = row_bytes };
	/* must be on a disk: /tmp may be memory */
	snprintf(f->parent, sizeof(f->parent), "%s/rung-store-XXXXXX", tmp ? tmp : "/var/tmp");
	if (!mkdtemp(f->parent)) {
		perror(f->parent);
		abort();
	}
	snprintf(f->dir, sizeof(f->dir), "%s/ds", f->parent);
	need(support_dataset(f->parent, vertices, vertices * 4, row_bytes, FIXTURE_SEED),
	     "staging");
	if (file_count > 2 && getenv("RUNG_TEST_RANGES"))
		need(support_deal_ranges(f->dir, file_count, vertices / 100 + 1),
		     "dealing ranges over files");
	else if (file_count > 1)
		need(support_deal(f->dir, file_count, vertices / 100 + 1),
		     "dealing rows over files");
	need(rung_dataset_open(f->dir, &f->ds), "opening the dataset");
	need(rung_dataset_load_ids(f->ds, "vertex_of_rank", &count, &f->vertex_of_rank),
	     "loading the map");
	need(rung_plan_create(f->ds, &plan_opts, &f->plan), "planning");
	need(open_store(f, &own, reader_ops ? reader_ops : &rung__file_reader),
	     "opening the store");
}

void fixture_open(struct store_fixture *f, uint64_t vertices, uint64_t row_bytes,
                  uint64_t host_bytes, const struct rung_store_opts *opts,
                  const struct rung__reader_ops *reader_ops)
{
	fixture_open_files(f, 1, vertices, row_bytes, host_bytes, opts, reader_ops);
}

void fixture_close(struct store_fixture *f)
{
	fixture_free_memories(f);
	need(rung_store_close(f->store), "closing the store");
	rung_plan_destroy(f->plan);
	rung_dataset_close(f->ds);
	rung_free(f->vertex_of_rank);
	support_remove(f->parent);
}

void fixture_random_ids(const struct store_fixture *f, uint64_t *ranks, uint64_t count,
                        uint64_t seed)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t draw = rung__mix64(seed << 32 | i);

		switch (draw % 3) {
		case 0:
			ranks[i] = (draw >> 8) % f->vertices;
			break;
		case 1:
			ranks[i] = f->vertices - 1 - (draw >> 8) % (f->vertices / 10 + 1);
			break;
		default:
			ranks[i] = i ? ranks[(draw >> 8) % i] : 0;
			break;
		}
	}
}

uint64_t fixture_wrong_rows(const struct store_fixture *f, const uint64_t *ranks, uint64_t count,
                            const unsigned char *out, size_t stride)
{
	unsigned char *row = malloc(f->row_bytes);
	uint64_t bytes = count ? (count - 1) * stride + f->row_bytes : 0, wrong = 0;
	unsigned char *got = malloc(bytes + 1);

	need(rung_store_copy(f->store, got, out, bytes), "copying");
	for (uint64_t i = 0; i < count; i++) {
		support_row(f->vertex_of_rank[ranks[i]], f->row_bytes, row);
		wrong += memcmp(row, got + i * stride, f->row_bytes) != 0;
	}
	free(got);
	free(row);
	return wrong;
}

void fixture_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count,
                   const unsigned char *out, size_t stride)
{
	uint64_t wrong = fixture_wrong_rows(f, ranks, count, out, stride);

	if (wrong) {
		fprintf(stderr, "fixture: %llu of %llu rows are wrong\n", (unsigned long long)wrong,
		        (unsigned long long)count);
		abort();
	}
}

void fixture_gather_and_check(struct store_fixture *f, const uint64_t *ranks, uint64_t count)
{
	unsigned before = f->memory_count;
	struct rung_ids ids = fixture_ids(f, ranks, count, RUNG_U64, RUNG_RANKS);
	unsigned char *out = fixture_memory(f, count * f->row_bytes);

	need(rung_gather(f->store, &ids, out, 0), "gathering");
	fixture_check(f, ranks, count, out, (size_t)f->row_bytes);
	free_memories(f, before);
}

bool fixture_has_io_uring(void)
{
#if RUNG_HAVE_IO_URING
	struct io_uring ring;
	int rc = -ENOMEM;

	/* other rings of this user may use up RLIMIT_MEMLOCK; retry for 0.5 s */
	for (unsigned tries = 0; rc == -ENOMEM && tries < 100; tries++) {
		rc = io_uring_queue_init(FIXTURE_RING_DEPTH, &ring, 0);
		if (rc == 0)
			io_uring_queue_exit(&ring);
		else
			usleep(5000);
	}
	return rc == 0;
#else
	return false;
#endif
}
