/* SPDX-License-Identifier: Apache-2.0 */
/** A store whose reads are held or fail as a test sets, the results of its requests, and a check of
 * its row counters. */
#ifndef SUPPORT_SCRIPT_STORE_H
#define SUPPORT_SCRIPT_STORE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "script_reader.h"
#include "store_fixture.h"

#define ROWS       3000
#define WIDTH      512
#define ASKED      300
#define BAD_RANK   2900u
#define RUN        6u          /* rows from BAD_RANK on that form one read */
#define SMALL      (16 * 4096) /* host memory for a few slots and almost no cache */
#define LARGE      (1 << 20)   /* the same and a cache of some hundred rows */
#define TIMEOUT_MS 40

static struct store_fixture f;
static uint64_t ids[ASKED];
static unsigned char *out;
static _Atomic int holding; /* number of reads to hold back */
static _Atomic int failing; /* errno of reads of the ranks below */
static uint64_t fail_first, fail_end;

static inline uint64_t offset_of(uint64_t rank)
{
	return rung__row_offset(&f.store->shape.layout, rank);
}

static inline bool covers(const struct rung__fetch *fetch, uint64_t first, uint64_t end)
{
	return fetch->offset < offset_of(end) && offset_of(first) < fetch->offset + fetch->bytes;
}

static inline void hold_next(const struct script_read *read, struct script_fate *fate)
{
	(void)read;
	fate->held = atomic_load(&holding) > 0 && atomic_fetch_sub(&holding, 1) > 0;
}

static inline void hold_bad_rank(const struct script_read *read, struct script_fate *fate)
{
	if (covers(&read->fetch, BAD_RANK, BAD_RANK + 1))
		hold_next(read, fate);
}

static inline void fail_ranks(const struct script_read *read, struct script_fate *fate)
{
	hold_next(read, fate);
	if (covers(&read->fetch, fail_first, fail_end))
		fate->err = atomic_load(&failing);
}

static inline void open_script(uint64_t host_bytes, struct rung_store_opts *opts)
{
	script_reset();
	atomic_store(&holding, 0);
	fixture_open(&f, ROWS, WIDTH, host_bytes, opts, &script_reader);
	fixture_random_ids(&f, ids, ASKED, 3);
	for (unsigned i = 0; i < ASKED; i++)
		/* no read of a nearby row must over-read the bad rank */
		ids[i] = ids[i] >= BAD_RANK - 300 ? ids[i] - 600 : ids[i];
	out = fixture_memory(&f, ASKED * WIDTH);
}

static inline void open_with_timeout(uint64_t host_bytes)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 8,
		                        .read_timeout_ms = TIMEOUT_MS };

	open_script(host_bytes, &opts);
}

static inline void close_all(void)
{
	fixture_close(&f);
	cr_assert_eq(atomic_load(&script.violations), 0);
	cr_assert_eq(atomic_load(&script.sent), atomic_load(&script.ended));
}

static inline struct rung_store_stats stats(void)
{
	struct rung_store_stats now = { .size = sizeof(now) };

	rung_store_stats(f.store, &now);
	return now;
}

static inline struct rung_request *submit(const uint64_t *ranks, uint64_t count, unsigned char *to)
{
	struct rung_ids list = fixture_ids(&f, ranks, count, RUNG_U64, RUNG_RANKS);
	struct rung_request *request = NULL;

	cr_assert_eq(rung_gather_submit(f.store, &list, to, 0, NULL, &request), 0, "%s",
	             rung_last_error());
	return request;
}

static inline void ends_with(struct rung_request *request, int status, const char *says)
{
	cr_assert_eq(rung_request_wait(request, 60000000000), status, "%s", rung_last_error());
	cr_assert(strstr(rung_request_error(request), says), "%s", rung_request_error(request));
	rung_request_put(request);
}

static inline void await_equal(const _Atomic uint64_t *a, const _Atomic uint64_t *b)
{
	for (unsigned tries = 0; tries < 60000 && atomic_load(a) != atomic_load(b); tries++)
		usleep(1000);
	cr_assert_eq(atomic_load(a), atomic_load(b));
}

static inline void await_held(uint64_t count)
{
	const _Atomic uint64_t wanted = count;

	await_equal(&script.held, &wanted);
}

/* Held reads complete, and the store has its slots again. */
static inline void let_go(void)
{
	atomic_store(&holding, 0);
	atomic_store(&script.release, 1);
	await_equal(&script.sent, &script.ended);
	cr_assert_eq(atomic_load(&script.violations), 0);
}

/*
 * Requests that were put before they ended continue. The refill thread counts their rows when they
 * end.
 */
static inline void all_rows_are_accounted_for(void)
{
	uint64_t asked = 0, counted = 1;

	for (unsigned tries = 0; tries < 60000; tries++) {
		const struct rung_store_stats now = stats();

		asked = now.tiers[fixture_tier(&f, "nvme")].hits;
		counted = now.cache_hits + now.joined_rows + now.read_rows + now.duplicate_rows +
		          now.failed_rows;
		if (counted == asked)
			break;
		usleep(1000);
	}
	cr_assert_eq(counted, asked);
}

#endif
