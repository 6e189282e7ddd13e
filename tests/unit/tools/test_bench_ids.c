/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of rung bench, and runs over them. Rounds of 1000 rows (ROUND_ROWS of this program) have
 * the same ids as a run with all ids in memory, and rows gathered in rounds are right and
 * complete. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "interrupt.h"
#include "store_fixture.h"

#define VERTICES 3000u
#define BATCH    70u

static struct store_fixture f;
static struct tool_progress progress;
static char id_file[300];

static struct bench_args args_of(const char *ids)
{
	struct bench_args args = {
		.ids = ids, .rows = 20000, .batch = BATCH, .warmup = 1500, .seed = 5
	};

	args.fanouts = (struct tool_fanouts){ .count = 2, .hops = { 3, 2 } };
	return args;
}

static void make(const struct bench_args *args, struct bench_ids *out)
{
	const struct tool_data data = { .ds = f.ds };

	cr_assert_eq(bench_ids_make("rung bench", args, &data, &progress, out), 0);
}

/* Collects the ids that a run requests, round by round. @return the highest number of rows in
 * memory */
static uint64_t walk(struct bench_ids *ids, const struct bench_args *args, uint64_t *all,
                     uint64_t *batches_out)
{
	uint64_t rows = 0, room = 0, batches = 0;

	for (uint64_t batch = 0, end; !bench_ids_over(ids, batch); batch = end) {
		cr_assert_eq(bench_ids_round(ids, batch, &end), 0);
		cr_assert_gt(end, batch);
		cr_assert_leq(end, ids->end);
		cr_assert(bench_ids_over(ids, end) ||
		          /* the batches to announce must be in this round */
		          ids->end >= end + args->look_ahead);
		for (uint64_t b = batch; b < end; b++) {
			uint64_t count;
			const uint64_t *of = bench_ids_of(ids, b, &count);

			cr_assert_leq(count, ids->rows_max);
			memcpy(all + rows, of, count * sizeof(*of));
			rows += count;
			batches++;
		}
		room = RUNG__MAX(room, ids->starts[ids->end - ids->first]);
	}
	cr_assert_eq(rows, ids->count);
	cr_assert_leq(ids->rows_max, ids->rows_bound);
	*batches_out = batches;
	return room;
}

static void write_ids(void)
{
	int32_t ids[30000];
	char header[129];
	FILE *file;

	for (unsigned i = 0; i < RUNG__ARRAY_LEN(ids); i++)
		ids[i] = (int32_t)(rung__mix64(i) % VERTICES);
	snprintf(id_file, sizeof(id_file), "%s/ids.npy", f.parent);
	file = fopen(id_file, "wb");
	cr_assert_not_null(file);
	snprintf(header, sizeof(header), "%-117s\n",
	         "{'descr': '<i4', 'fortran_order': False, 'shape': (30000,), }");
	fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
	fwrite(header, 1, 118, file);
	cr_assert_eq(fwrite(ids, sizeof(ids[0]), RUNG__ARRAY_LEN(ids), file), RUNG__ARRAY_LEN(ids));
	fclose(file);
}

static void compare(const char *kind, uint32_t look_ahead)
{
	struct bench_args args = args_of(kind), whole = args;
	struct bench_ids ids, same;
	uint64_t *all = calloc(40000, sizeof(*all)), *again = calloc(40000, sizeof(*again)),
		 batches, room;

	whole.look_ahead = 4096; /* more than the number of batches: one round has all of them */
	make(&whole, &same);
	cr_assert_eq(walk(&same, &whole, all, &batches), same.count);
	args.look_ahead = look_ahead;
	make(&args, &ids);
	cr_assert_lt(ids.end, look_ahead + 10, "%s: the first round is too long", kind);
	cr_assert_eq(ids.counted, strcmp(kind, "trace") != 0);
	walk(&ids, &args, again, &batches);
	memset(again, 0, 40000 * sizeof(*again));
	/* from the beginning again, as after a forecast */
	room = walk(&ids, &args, again, &batches);
	cr_assert_eq(ids.count, same.count);
	cr_assert_eq(ids.batch_count, same.batch_count);
	cr_assert_eq(ids.warmup_rows, same.warmup_rows);
	cr_assert_eq(ids.warmup_count, same.warmup_count);
	cr_assert_eq(ids.rows_max, same.rows_max);
	cr_assert_eq(batches, same.batch_count);
	cr_assert_leq(room, ROUND_ROWS + (look_ahead + 2) * ids.rows_max, "%s: %llu rows in memory",
	              kind, (unsigned long long)room);
	cr_assert_lt(room, ids.count / 2);
	cr_assert_eq(memcmp(all, again, ids.count * sizeof(*all)), 0, "%s: the ids differ", kind);
	bench_ids_free(&ids);
	bench_ids_free(&same);
	free(all);
	free(again);
}

Test(bench_ids, rounds_have_the_same_ids_as_a_run_with_all_in_memory)
{
	fixture_open(&f, VERTICES, 64, RUNG_BYTES_MAX, NULL, NULL);
	tool_progress_init(&progress, "rung bench", 1);
	write_ids();
	for (uint32_t look_ahead = 0; look_ahead <= 7; look_ahead += 7) {
		compare("uniform", look_ahead);
		compare("zipf", look_ahead);
		compare("trace", look_ahead);
		compare(id_file, look_ahead);
	}
	fixture_close(&f);
}

/* Rows of one page, so that a request has room for exactly its rows. */
static void run_in_rounds(const char *kind, uint32_t batch, uint64_t seed,
                          struct bench_result *result, bool *grown_out)
{
	struct bench_args args = args_of(kind);
	struct bench_truth truth;
	struct bench_ids ids;
	uint64_t first_max;

	args.batch = batch;
	args.seed = seed;
	args.in_flight = args.common.threads = 2;
	args.check = 1;
	make(&args, &ids);
	first_max = ids.rows_max;
	cr_assert_eq(bench_truth_open("rung bench", f.ds, ids.space, &truth), 0);
	cr_assert_eq(
		bench_run("rung bench", &args, f.store, &ids, &truth, &progress, "gathers", result),
		0);
	cr_assert_eq(result->request_count, ids.batch_count - ids.warmup_count);
	cr_assert_eq(result->rows, ids.count - ids.warmup_rows);
	cr_assert_null(result->interrupted);
	cr_assert_eq(result->wrong_rows, 0);
	*grown_out = ids.rows_max > first_max + first_max / 8; /* more than the spare room */
	bench_truth_close(&truth);
	bench_ids_free(&ids);
}

/* Whether the first round has the largest batch depends on the seed, and on the last bits of
 * scores, which may differ between builds. */
static void some_buffers_grow(void)
{
	struct bench_result result;
	bool grown = false;

	for (uint64_t seed = 1; seed <= 8 && !grown; seed++) {
		run_in_rounds("trace", 1, seed, &result, &grown);
		free(result.latency_ns);
	}
	cr_assert(grown);
}

Test(bench_ids, rounds_gather_all_rows_and_keep_a_limited_number_of_times)
{
	struct bench_result result;
	uint64_t step = 1;
	bool grown;

	fixture_open(&f, VERTICES, 4096, RUNG_BYTES_MAX, NULL, NULL);
	tool_progress_init(&progress, "rung bench", 1);
	some_buffers_grow();
	for (uint32_t batch = 1; batch <= BATCH; batch += BATCH - 1) {
		run_in_rounds("trace", batch, 1, &result, &grown);
		while ((result.request_count - 1) / step >= LATENCIES_MAX)
			step *= 2;
		cr_assert_eq(result.latency_count, (result.request_count - 1) / step + 1);
		cr_assert_geq(result.latency_count,
		              RUNG__MIN(result.request_count, LATENCIES_MAX / 2));
		for (uint64_t i = 1; i < result.latency_count; i++)
			cr_assert_geq(result.latency_ns[i], result.latency_ns[i - 1]);
		cr_assert_gt(result.latency_ns[0], 0);
		free(result.latency_ns);
		step = 1;
	}
	fixture_close(&f);
}

Test(bench_ids, a_signal_interrupts_the_generation_of_a_round)
{
	const struct bench_args args = args_of("uniform");
	struct bench_ids ids;
	uint64_t end, next;

	fixture_open(&f, VERTICES, 64, RUNG_BYTES_MAX, NULL, NULL);
	tool_progress_init(&progress, "rung bench", 1);
	make(&args, &ids);
	cr_assert_eq(bench_ids_round(&ids, 0, &end), 0);
	cr_assert_lt(end, ids.batch_count);
	tool_interrupt_init("rung bench");
	tool_interrupt_grace(60000);
	raise(SIGINT);
	cr_assert_eq(bench_ids_round(&ids, end, &next), RUNG_E_CANCELED);
	bench_ids_free(&ids);
	fixture_close(&f);
}
