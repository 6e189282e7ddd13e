/* SPDX-License-Identifier: Apache-2.0 */
/* A staged dataset and a store on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset.h"
#include "rung_config.h"
#include "store_fixture.h"
#if RUNG_HAVE_IO_URING
#include <liburing.h>
#endif

#define FIXTURE_SEED 77

static void need(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "fixture: %s: %s\n", what, rung_last_error());
	abort();
}

void fixture_open(struct store_fixture *f, uint64_t vertices, uint64_t row_bytes, uint64_t host_bytes, const struct rung_store_opts *opts,
                  const struct rung__tier_ops *fetchable)
{
	struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts), .host_bytes = host_bytes };
	const char *tmp = getenv("TMPDIR");
	uint64_t count;

	*f = (struct store_fixture){ .vertices = vertices, .row_bytes = row_bytes };
	snprintf(f->parent, sizeof(f->parent), "%s/rung-store-XXXXXX", tmp ? tmp : "/var/tmp");   /* a disk: /tmp may be memory */
	if (!mkdtemp(f->parent)) {
		perror(f->parent);
		abort();
	}
	snprintf(f->dir, sizeof(f->dir), "%s/ds", f->parent);
	need(support_dataset(f->parent, vertices, vertices * 4, row_bytes, FIXTURE_SEED), "staging");
	need(rung_dataset_open(f->dir, &f->ds), "opening the dataset");
	need(rung_dataset_load_ids(f->ds, "vertex_of_rank", &count, &f->vertex_of_rank), "loading the map");
	need(rung_plan_create(f->ds, &plan_opts, &f->plan), "planning");
	need(rung__store_open_over(f->ds, f->plan, opts, fetchable ? fetchable : &rung__nvme_tier, &f->store), "opening the store");
}

void fixture_close(struct store_fixture *f)
{
	need(rung_store_close(f->store), "closing the store");
	rung_plan_destroy(f->plan);
	rung_dataset_close(f->ds);
	rung_free(f->vertex_of_rank);
	support_remove(f->parent);
}

void fixture_random_ids(const struct store_fixture *f, uint64_t *ranks, uint64_t count, uint64_t seed)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t draw = rung__mix64(seed << 32 | i);

		switch (draw % 3) {
		case 0: ranks[i] = (draw >> 8) % f->vertices; break;
		case 1: ranks[i] = f->vertices - 1 - (draw >> 8) % (f->vertices / 10 + 1); break;
		default: ranks[i] = i ? ranks[(draw >> 8) % i] : 0; break;
		}
	}
}

uint64_t fixture_wrong_rows(const struct store_fixture *f, const uint64_t *ranks, uint64_t count, const unsigned char *out, size_t stride)
{
	unsigned char *row = malloc(f->row_bytes);
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < count; i++) {
		support_row(f->vertex_of_rank[ranks[i]], f->row_bytes, row);
		wrong += memcmp(row, out + i * stride, f->row_bytes) != 0;
	}
	free(row);
	return wrong;
}

void fixture_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count, const unsigned char *out, size_t stride)
{
	uint64_t wrong = fixture_wrong_rows(f, ranks, count, out, stride);

	if (wrong) {
		fprintf(stderr, "fixture: %llu of %llu rows are wrong\n", (unsigned long long)wrong, (unsigned long long)count);
		abort();
	}
}

void fixture_gather_and_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count)
{
	struct rung_ids ids = { ranks, count, RUNG_U64, RUNG_RANKS };
	unsigned char *out = malloc(count * f->row_bytes);

	memset(out, 0x5a, count * f->row_bytes);
	need(rung_gather(f->store, &ids, out, 0), "gathering");
	fixture_check(f, ranks, count, out, (size_t)f->row_bytes);
	free(out);
}

bool fixture_has_io_uring(void)
{
#if RUNG_HAVE_IO_URING
	struct io_uring ring;

	if (io_uring_queue_init(2, &ring, 0) == 0) {
		io_uring_queue_exit(&ring);
		return true;
	}
#endif
	return false;
}
