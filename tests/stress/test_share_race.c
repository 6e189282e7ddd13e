/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races: threads that repeatedly share a store at one path, competing with each other, and threads
 * that attach there, gather and close, often after the creator has gone. The first error ends the
 * test. A plain program (exit 0, 1 or 77), so that it runs under ThreadSanitizer. The engine is
 * pread: ThreadSanitizer does not see liburing map and unmap its rings, and would report the next
 * store's ring at the same address as a race.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share_fixture.h"

#define SHARERS   2
#define ATTACHERS 3
#define ROUNDS    40
#define BATCH     150

static struct share_fixture s;
static _Atomic uint64_t wrong, shared, attached;
static _Atomic int sharing; /* sharers running */

static void complain(const char *who, int rc)
{
	fprintf(stderr, "%s: %s: %s\n", who, rung_status_name(rc), rung_last_error());
	atomic_fetch_add(&wrong, 1);
}

static void gather(struct rung_store *store, uint64_t seed)
{
	unsigned char *out = malloc(BATCH * s.base.row_bytes);
	uint64_t ranks[BATCH];
	struct rung_ids ids = { ranks, BATCH, RUNG_U64, RUNG_RANKS };
	int rc;

	fixture_random_ids(&s.base, ranks, BATCH, seed);
	rc = rung_gather(store, &ids, out, 0);
	if (rc < 0)
		complain("gather", rc);
	atomic_fetch_add(&wrong, fixture_wrong_rows(&s.base, ranks, BATCH, out, s.base.row_bytes));
	free(out);
}

/* Keeps the store open until another thread has attached. */
static void *sharer(void *arg)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .batch_rows_max = 1000,
		                        .engine = RUNG_ENGINE_PREAD,
		                        .queue_depth = 4,
		                        .vertex_ids = 1,
		                        .share_path = s.path };

	for (uint64_t round = 0; round < ROUNDS && atomic_load(&wrong) == 0;) {
		struct rung_store *store;
		int rc = rung_store_open(s.base.ds, s.base.plan, &opts, &store);

		if (rc == 0) {
			uint64_t seen = atomic_load(&attached);

			atomic_fetch_add(&shared, 1);
			gather(store, round);
			while (atomic_load(&attached) == seen && atomic_load(&wrong) == 0)
				sched_yield();
			rc = rung_store_close(store);
			round++;
		} else {
			sched_yield();
		}
		if (rc != 0 && rc != RUNG_E_BUSY) {
			complain("share", rc);
			break;
		}
	}
	atomic_fetch_sub(&sharing, 1);
	return arg;
}

static void *attacher(void *arg)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .batch_rows_max = 1000,
		                        .engine = RUNG_ENGINE_PREAD,
		                        .queue_depth = 4,
		                        .vertex_ids = 1 };

	for (uint64_t round = 0; atomic_load(&sharing) > 0 && atomic_load(&wrong) == 0; round++) {
		struct rung_store *store;
		int rc = rung_store_attach(s.path, &opts, &store);

		if (rc == 0) {
			atomic_fetch_add(&attached, 1);
			gather(store, round);
			gather(store, round + 1);
			rc = rung_store_close(store);
		} else {
			sched_yield();
		}
		/* no store, closed, hung up */
		if (rc != 0 && rc != RUNG_E_NOENT && rc != RUNG_E_IO)
			complain("attach", rc);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[SHARERS + ATTACHERS];
	unsigned before;

	share_fixture_open(&s);
	before = share_fixture_descriptors(NULL);
	atomic_store(&sharing, SHARERS);
	for (unsigned i = 0; i < SHARERS + ATTACHERS; i++)
		pthread_create(&threads[i], NULL, i < SHARERS ? sharer : attacher, NULL);
	for (unsigned i = 0; i < SHARERS + ATTACHERS; i++)
		pthread_join(threads[i], NULL);
	printf("shared %llu times, attached %llu times, %llu wrong\n",
	       (unsigned long long)atomic_load(&shared), (unsigned long long)atomic_load(&attached),
	       (unsigned long long)atomic_load(&wrong));
	if (atomic_load(&shared) < SHARERS * ROUNDS || share_fixture_descriptors(NULL) != before)
		atomic_fetch_add(&wrong, 1);
	share_fixture_close(&s);
	return atomic_load(&wrong) ? 1 : 0;
}
