/* SPDX-License-Identifier: Apache-2.0 */
/* Many batches in parallel: they equal those of the one-batch call, come in order or in any order,
 * and errors end a run. */
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graphs.h"
#include "base/base.h"
#include "rung/rank.h"
#include "sample/sample.h"

#define SEEDS   300
#define BATCH   7
#define BATCHES ((SEEDS + BATCH - 1) / BATCH)
#define HOPS    2

static const uint32_t fanouts[HOPS] = { 4, 40 };

struct fixture {
	struct test_graph graph;
	uint64_t seeds[SEEDS];
	struct rung_batch *expected[BATCHES]; /* by rung_sampler_sample() */
};

static struct rung_sampler *make_sampler(const struct fixture *f, uint32_t threads)
{
	const struct rung_sampler_opts opts = {
		.size = sizeof(opts),
		.fanouts = fanouts,
		.hop_count = HOPS,
		.seed = 3,
		.threads = threads,
	};
	struct rung_sampler *sampler;

	cr_assert_eq(rung_sampler_create(&f->graph.csc, &opts, &sampler), 0);
	return sampler;
}

static struct rung_minibatches minibatches(const struct fixture *f)
{
	struct rung_minibatches batches = RUNG_MINIBATCHES_INIT;

	batches.seeds = f->seeds;
	batches.seed_count = SEEDS;
	batches.batch_size = BATCH;
	batches.key_first = 100;
	return batches;
}

static void init(struct fixture *f)
{
	struct rung_sampler *sampler;

	f->graph = test_graph_random(2000, 40000, 8, 4);
	for (uint64_t i = 0; i < SEEDS; i++)
		f->seeds[i] = (i * 1237) % 2000;
	sampler = make_sampler(f, 1);
	for (uint64_t b = 0; b < BATCHES; b++) {
		cr_assert_eq(rung_batch_create(&f->expected[b]), 0);
		cr_assert_eq(rung_sampler_sample(sampler, f->seeds + b * BATCH,
		                                 RUNG__MIN(BATCH, SEEDS - b * BATCH), 100 + b,
		                                 f->expected[b]),
		             0);
	}
	rung_sampler_destroy(sampler);
}

static void fini(struct fixture *f)
{
	for (uint64_t b = 0; b < BATCHES; b++)
		rung_batch_destroy(f->expected[b]);
	test_graph_fini(&f->graph);
}

static bool batches_equal(const struct rung_batch *a, const struct rung_batch *b)
{
	uint64_t a_count, b_count;
	const uint64_t *a_vertices = rung_batch_vertices(a, &a_count),
		       *b_vertices = rung_batch_vertices(b, &b_count);
	bool equal = a_count == b_count &&
	             !memcmp(a_vertices, b_vertices, a_count * sizeof(*a_vertices));

	for (uint32_t hop = 0; equal && hop < HOPS; hop++) {
		const struct rung_block *x = rung_batch_block(a, hop),
					*y = rung_batch_block(b, hop);

		equal = x->edge_count == y->edge_count &&
		        !memcmp(x->indptr, y->indptr, (x->dst_count + 1) * sizeof(uint64_t)) &&
		        !memcmp(x->indices, y->indices, x->edge_count * sizeof(uint32_t));
	}
	return equal;
}

struct taker {
	const struct fixture *f;
	uint32_t threads;
	_Atomic uint64_t taken; /* number of accepted batches */
	_Atomic int at_once;
	_Atomic bool wrong; /* checked by the test, because assertions work only on its thread */
	_Atomic int seen[BATCHES];
	bool in_order;
	uint64_t fail_at; /* this batch is rejected */
};

static int take(void *ctx, const struct rung_batch *batch, uint64_t idx, uint32_t thread)
{
	struct taker *taker = ctx;
	const int others = atomic_fetch_add(&taker->at_once, 1);

	if (idx >= BATCHES || thread >= taker->threads ||
	    !batches_equal(batch, taker->f->expected[idx]))
		taker->wrong = true;
	else if (atomic_fetch_add(&taker->seen[idx], 1) != 0)
		taker->wrong = true;
	if (taker->in_order && (others != 0 || idx != taker->taken))
		taker->wrong = true;
	atomic_fetch_sub(&taker->at_once, 1);
	if (idx == taker->fail_at)
		return rung__fail(RUNG_E_NOSPC, "batch %" PRIu64 " was one too many", idx);
	atomic_fetch_add(&taker->taken, 1);
	return 0;
}

Test(sampler_run, batches_come_in_order_and_equal_the_one_batch_call)
{
	struct fixture f;

	init(&f);
	for (uint32_t threads = 1; threads <= 5; threads += 2) {
		for (int any_order = 0; any_order <= 3; any_order++) {
			struct rung_sampler *sampler;
			struct rung_minibatches batches = minibatches(&f);

			rung__sampler_table_bytes =
				/* 1 byte: hash tables are used */
				any_order / 2 ? 1 : UINT64_C(32) << 20;
			sampler = make_sampler(&f, threads);
			batches.any_order = any_order % 2;
			for (int again = 0; again < 2; again++) {
				struct taker taker = {
					.f = &f,
					.threads = sampler->threads,
					.in_order = !batches.any_order,
					.fail_at = UINT64_MAX,
				};

				cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), 0,
				             "%s", rung_last_error());
				cr_assert(!taker.wrong, "%u threads, any order %d", threads,
				          any_order);
				cr_assert_eq(taker.taken, BATCHES);
			}
			rung_sampler_destroy(sampler);
		}
	}
	fini(&f);
}

Test(sampler_run, a_rejected_batch_ends_the_run_with_its_error)
{
	struct fixture f;

	init(&f);
	for (uint32_t threads = 1; threads <= 4; threads++) {
		struct rung_sampler *sampler = make_sampler(&f, threads);
		struct rung_minibatches batches = minibatches(&f);
		struct taker taker = {
			.f = &f, .threads = threads, .in_order = true, .fail_at = 11
		};

		cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), RUNG_E_NOSPC);
		cr_assert_str_eq(rung_last_error(), "batch 11 was one too many");
		cr_assert(!taker.wrong && taker.taken == 11 && taker.seen[12] == 0);
		batches.any_order = 1;
		taker = (struct taker){ .f = &f, .threads = threads, .fail_at = 11 };
		cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), RUNG_E_NOSPC);
		cr_assert(!taker.wrong && taker.taken >= 11);
		rung_sampler_destroy(sampler);
	}
	fini(&f);
}

Test(sampler_run, the_first_batch_that_cannot_be_sampled_is_reported)
{
	struct fixture f;

	init(&f);
	f.seeds[20 * BATCH + 3] = 2000;
	f.seeds[30 * BATCH] = 2001;
	for (uint32_t threads = 1; threads <= 4; threads++) {
		struct rung_sampler *sampler = make_sampler(&f, threads);
		struct rung_minibatches batches = minibatches(&f);
		struct taker taker = {
			.f = &f, .threads = threads, .in_order = true, .fail_at = UINT64_MAX
		};

		cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), RUNG_E_RANGE);
		cr_assert(strstr(rung_last_error(), "seed 3 is 2000") != NULL, "%s",
		          rung_last_error());
		cr_assert(!taker.wrong && taker.taken == 20);
		rung_sampler_destroy(sampler);
	}
	fini(&f);
}

Test(sampler_run, runs_without_seeds_are_rejected)
{
	struct fixture f;
	struct taker taker = { .f = &f, .threads = 2, .fail_at = UINT64_MAX };
	struct rung_sampler *sampler;
	struct rung_minibatches batches;

	init(&f);
	sampler = make_sampler(&f, 2);
	batches = minibatches(&f);
	batches.seed_count = 0;
	cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), RUNG_E_INVAL);
	batches = minibatches(&f);
	batches.seeds = NULL;
	cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), RUNG_E_INVAL);
	cr_assert_eq(taker.taken, 0);
	rung_sampler_destroy(sampler);
	fini(&f);
}

static int in_a_child(const struct fixture *f, struct rung_sampler *sampler)
{
	struct rung_minibatches batches = minibatches(f);
	struct taker taker = {
		.f = f, .threads = sampler->threads, .in_order = true, .fail_at = UINT64_MAX
	};
	uint32_t order[2000];
	float score[2000] = { 0 };

	alarm(300); /* a deadlock: waiting for threads that do not exist in the child */
	return rung_sampler_run(sampler, &batches, take, &taker) < 0 || taker.wrong ||
	       taker.taken != BATCHES ||
	       rung_sampler_sample(sampler, f->seeds, SEEDS, 1, f->expected[0]) < 0 ||
	       rung_csc_check(&f->graph.csc) < 0 ||
	       rung_rank_order(score, 2000, 4, 3, order, NULL) < 0 || order[1999] != 1999;
}

/* OpenMP's threads exist only in the parent. */
Test(sampler_run, a_forked_child_can_use_the_parents_sampler)
{
	struct rung_sampler *sampler;
	struct rung_minibatches batches;
	struct taker taker;
	struct fixture f;
	pid_t child;
	int status = -1;

	init(&f);
	batches = minibatches(&f);
	taker = (struct taker){ .f = &f, .threads = 3, .fail_at = UINT64_MAX };
	sampler = make_sampler(&f, 3);
	cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), 0, "%s", rung_last_error());
	child = fork();
	if (child == 0)
		_exit(in_a_child(&f, sampler));
	cr_assert_gt(child, 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "status %d", status);
	cr_assert_eq(rung_sampler_run(sampler, &batches, take, &taker), 0, "%s", rung_last_error());
	rung_sampler_destroy(sampler);
	fini(&f);
}

Test(sampler_run, every_allocation_may_fail)
{
	struct fixture f;
	int64_t limit;
	int rc;

	init(&f);
	for (limit = 0, rc = -1; rc < 0; limit++) {
		struct taker taker = {
			.f = &f, .threads = 3, .in_order = true, .fail_at = UINT64_MAX
		};
		struct rung_sampler *sampler = make_sampler(&f, 3);
		struct rung_minibatches batches = minibatches(&f);

		rung__alloc_limit(limit);
		rc = rung_sampler_run(sampler, &batches, take, &taker);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM);
		cr_assert(!taker.wrong);
		if (rc == 0)
			cr_assert_eq(taker.taken, BATCHES);
		rung_sampler_destroy(sampler);
	}
	cr_assert_gt(limit, 6, "allocations of slots, batches and their arrays");
	fini(&f);
}
