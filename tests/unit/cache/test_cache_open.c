/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the cold-row cache: indexes that do not match, invalid shapes, seats, failed allocations.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#include "cache_worker.h"

static void close_all(void)
{
	const char *fault = cache_fixture_check(&f);

	cr_assert(!fault, "%s", fault);
	cache_fixture_close(&f);
}

Test(cache_open, an_index_of_another_shape_or_version_is_rejected)
{
	struct rung__cache_shape other = shape;
	struct rung__cache *cache;

	cache_fixture_open(&f, &shape, 1000, 10);
	other.frame_count--;
	cr_assert_eq(rung__cache_open(&other, f.index, f.fd, false, 10, 10, &cache), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(),
	                 "has 64 frames for 1000 rows from rank 100 on, this one 63"),
	          "%s", rung_last_error());
	other = shape;
	other.row_count++;
	cr_assert_eq(rung__cache_open(&other, f.index, f.fd, false, 10, 10, &cache), RUNG_E_FORMAT);
	other = shape;
	other.rank_first++;
	cr_assert_eq(rung__cache_open(&other, f.index, f.fd, false, 10, 10, &cache), RUNG_E_FORMAT);
	f.cache->index->version++;
	cr_assert_eq(rung__cache_open(&shape, f.index, f.fd, false, 10, 10, &cache), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "same version of rung"), "%s", rung_last_error());
	f.cache->index->version--;
	f.cache->index->magic++;
	cr_assert_eq(rung__cache_open(&shape, f.index, f.fd, false, 10, 10, &cache), RUNG_E_FORMAT);
	f.cache->index->magic--;
	close_all();
}

Test(cache_open, invalid_shapes_are_rejected)
{
	static const struct rung__cache_shape shapes[] = {
		{ 0, 10, 0 },           { 0, 0, 10 },
		{ 10, UINT64_MAX, 10 }, { 0, UINT64_MAX, UINT32_MAX },
		{ 0, 10, UINT64_MAX },
	};
	struct rung__cache *cache;

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(shapes); i++) {
		cr_assert_eq(rung__cache_index_bytes(&shapes[i]), 0);
		cr_assert_eq(rung__cache_open(&shapes[i], NULL, -1, true, 10, 10, &cache),
		             RUNG_E_FORMAT);
	}
}

Test(cache_open, a_client_without_a_free_seat_is_rejected)
{
	struct cache_fixture others[RUNG__CACHE_CLIENTS_MAX];
	struct rung__cache *cache;

	cache_fixture_open(&f, &shape, 1000, 10);
	for (unsigned i = 1; i < RUNG__CACHE_CLIENTS_MAX; i++)
		cache_fixture_attach(&others[i], &f, 10, 2);
	cr_assert_eq(rung__cache_open(&shape, f.index, f.fd, false, 10, 2, &cache), RUNG_E_BUSY);
	cr_assert(strstr(rung_last_error(), "32 processes"), "%s", rung_last_error());
	cache_fixture_detach(&others[5]);
	cache_fixture_attach(&others[5], &f, 10, 2);
	for (unsigned i = 1; i < RUNG__CACHE_CLIENTS_MAX; i++)
		cache_fixture_detach(&others[i]);
	close_all();
}

Test(cache_open, opening_fails_cleanly_whichever_allocation_fails)
{
	const uint64_t index_bytes = rung__cache_index_bytes(&shape);
	struct rung__cache *cache;
	int64_t allowed = 0;
	int rc;

	do {
		void *index = mmap(NULL, index_bytes, PROT_READ | PROT_WRITE,
		                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		rung__alloc_limit(allowed++);
		rc = rung__cache_open(&shape, index, -1, true, 1000, 10, &cache);
		if (rc == 0)
			rung__cache_close(cache);
		rung__alloc_limit(-1);
		munmap(index, index_bytes);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%s", rung_last_error());
		cr_assert_lt(allowed, 20);
	} while (rc < 0);
	cr_assert_eq(allowed, 6); /* the allocations: cache, uses, heads, batches, pins */
}
