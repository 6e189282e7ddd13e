/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that gather in every possible way, and check the results. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soak.h"

#define IN_FLIGHT 3u
#define AHEAD     3u   /* batches announced before they are gathered */
#define SPOILED   0x5a /* fills outputs */

struct soak_counts soak_counts;

struct flight {
	struct rung_request *request;
	uint64_t *ranks;  /* [batch_max] */
	uint32_t *events; /* [batch_max] when the request was submitted */
	unsigned char *out;
	uint64_t count, submit_ns;
};

struct worker {
	struct soak_run *run;
	uint64_t rng, first_round;
	struct flight flights[IN_FLIGHT];
};

/* ---- batches ---- */

/* Returns the same batch for the same round, since the round may have been announced. */
static uint64_t make_batch(const struct worker *worker, uint64_t round, uint64_t *ranks)
{
	const struct soak_run *run = worker->run;
	/* now and then all threads request the same batch */
	uint64_t own = soak_one_in(&(uint64_t){ round }, 3) ? 0 : worker->first_round;
	uint64_t rng = rung__mix64(run->seed ^ (own + round) * 0x9e3779b97f4a7c15);
	uint64_t count = 1 + soak_draw(&rng, soak_one_in(&rng, 3) ? run->batch_max : 16);
	uint64_t cold = run->data->vertices - run->cold_first;

	for (uint64_t i = 0; i < count; i++) {
		switch (soak_draw(&rng, 6)) {
		case 0:
			ranks[i] = soak_draw(&rng, run->data->vertices);
			break;
		case 1:
			ranks[i] = i ? ranks[soak_draw(&rng, i)] : 0;
			break;
		/* rows that are requested often */
		case 2:
		case 3:
			ranks[i] = run->cold_first + soak_draw(&rng, cold / 8 + 1) % cold;
			break;
		case 4:
			ranks[i] = i ? RUNG__MIN(ranks[i - 1] + 1, run->data->vertices - 1)
			             : run->cold_first;
			break;
		default:
			ranks[i] = run->cold_first + soak_draw(&rng, cold);
			break;
		}
	}
	return count;
}

/* ---- checks of results ---- */

static void complain(const struct soak_run *run, const char *what, const char *detail)
{
	fprintf(stderr, "soak: store with seed %llu: %s: %s\n", (unsigned long long)run->seed, what,
	        detail);
}

static bool asked_for(const struct flight *flight, uint64_t rank, uint64_t *at_out)
{
	for (*at_out = 0; *at_out < flight->count; ++*at_out) {
		if (flight->ranks[*at_out] == rank)
			return true;
	}
	return false;
}

/* A failure must name a row of the request that is bad, or that had a faulty read while the request
 * was in flight. */
static bool is_explained(const struct soak_run *run, const struct flight *flight, const char *text)
{
	const char *row = strstr(text, "row of rank ");
	uint64_t rank, at;

	if (!strstr(text, "/features.0"))
		return false;
	if (strstr(text, "accepts no more reads")) {
		atomic_fetch_add(&soak_counts.failed_broken, 1);
		return soak_is_broken();
	}
	if (strstr(text, "not completed in")) {
		atomic_fetch_add(&soak_counts.failed_late, 1);
		return soak_was_late_since(flight->submit_ns);
	}
	atomic_fetch_add(&soak_counts.failed_by_row, 1);
	rank = row ? strtoull(row + strlen("row of rank "), NULL, 10) : UINT64_MAX;
	if (!asked_for(flight, rank, &at))
		return false;
	return run->any_error || soak_is_bad(rank) || soak_events(rank) != flight->events[at];
}

/* The bytes found show the cause: the mark of a read in flight, the mark of a failed read, the
 * output's fill, or another row. */
static void complain_of_row(const struct soak_run *run, uint64_t rank, const unsigned char *is)
{
	uint64_t row_bytes = run->data->row_bytes, at = 0;
	const unsigned char *row = run->data->rows + rank * row_bytes;

	while (is[at] == row[at])
		at++;
	fprintf(stderr,
	        "soak: store with seed %llu: row of rank %llu is wrong from byte %llu on: %02x .. "
	        "%02x\n",
	        (unsigned long long)run->seed, (unsigned long long)rank, (unsigned long long)at,
	        is[at], is[row_bytes - 1]);
	for (uint64_t other = 0; other < run->data->vertices; other++) {
		if (memcmp(is, run->data->rows + other * row_bytes, row_bytes) == 0)
			fprintf(stderr, "soak: it is the row of rank %llu\n",
			        (unsigned long long)other);
	}
}

static void check_rows(const struct soak_run *run, const struct flight *flight, bool spoiled)
{
	uint64_t row_bytes = run->data->row_bytes, wrong = 0, spared = 0;

	for (uint64_t i = 0; i < flight->count; i++) {
		const unsigned char *is = flight->out + i * row_bytes;

		if (memcmp(is, run->data->rows + flight->ranks[i] * row_bytes, row_bytes) != 0) {
			complain_of_row(run, flight->ranks[i], is);
			wrong++;
		}
		spared += spoiled && flight->ranks[i] >= run->cold_first &&
		          soak_is_bad(flight->ranks[i]);
	}
	atomic_fetch_add(&soak_counts.wrong_rows, wrong);
	if (spared) {
		atomic_fetch_add(&soak_counts.spared, spared);
		complain(run, "a bad sector", "a request for a row on it succeeded");
	}
}

static void judge(struct soak_run *run, struct flight *flight, bool attached, int rc,
                  const char *text)
{
	if (rc == 0) {
		/* the attached store reads rows that are bad here into the cache */
		check_rows(run, flight, !attached && !run->attached);
		return;
	}
	if (!attached)
		atomic_fetch_add(&run->failed, 1);
	if (rc != RUNG_E_IO || attached || !is_explained(run, flight, text)) {
		atomic_fetch_add(&soak_counts.unexplained, 1);
		complain(run,
		         attached ? "a failure of the attached store"
		                  : "a failure without an injected cause",
		         text);
	}
}

/* ---- gathering ---- */

static void await(struct worker *worker, struct rung_request *request)
{
	unsigned how = (unsigned)soak_draw(&worker->rng, 3);

	while (how == 0 && !rung_request_poll(request))
		sched_yield();
	while (how == 1 && rung_request_wait(request, 500000) == RUNG_E_TIMEDOUT &&
	       !rung_request_poll(request))
		continue;
}

static void land(struct worker *worker, struct flight *flight)
{
	struct soak_run *run = worker->run;
	struct rung_request *request = flight->request;
	int rc;

	flight->request = NULL;
	if (soak_one_in(&worker->rng, 16)) { /* put it before it is done */
		atomic_fetch_add(&run->put_early, 1);
		atomic_fetch_add(&soak_counts.put_early, 1);
		rung_request_put(request);
		return;
	}
	await(worker, request);
	rc = rung_request_wait(request, -1);
	judge(run, flight, false, rc, rung_request_error(request));
	rung_request_put(request);
}

static void count_asked(struct soak_run *run, const struct flight *flight)
{
	atomic_fetch_add(&run->asked, flight->count);
	atomic_fetch_add(&run->requests, 1);
}

static void launch(struct worker *worker, struct flight *flight, uint64_t round)
{
	struct soak_run *run = worker->run;
	struct rung_ids ids = { .data = flight->ranks, .dtype = RUNG_U64, .space = RUNG_RANKS };
	bool attached = run->attached && soak_one_in(&worker->rng, 3);
	int rc = RUNG_E_AGAIN;

	flight->count = ids.count = make_batch(worker, round, flight->ranks);
	for (uint64_t i = 0; i < flight->count; i++)
		flight->events[i] = soak_events(flight->ranks[i]);
	memset(flight->out, SPOILED, flight->count * run->data->row_bytes);
	flight->submit_ns = rung__now_ns();
	atomic_fetch_add(&soak_counts.requests, 1);
	atomic_fetch_add(&soak_counts.rows, flight->count);
	if (!attached && !soak_one_in(&worker->rng, 4))
		rc = rung_gather_submit(run->store, &ids, flight->out, 0, RUNG_STREAM_OWN,
		                        &flight->request);
	if (rc == 0) {
		count_asked(run, flight);
		return;
	}
	flight->request = NULL;
	if (rc != RUNG_E_AGAIN) {
		atomic_fetch_add(&soak_counts.unexplained, 1);
		complain(run, "a gather was refused", rung_last_error());
		return;
	}
	/* all requests are in flight, or chosen at random */
	rc = rung_gather(attached ? run->attached : run->store, &ids, flight->out, 0);
	if (!attached)
		count_asked(run, flight);
	judge(run, flight, attached, rc, rc < 0 ? rung_last_error() : "");
}

static void announce(struct worker *worker, uint64_t round, uint64_t *ranks)
{
	struct soak_run *run = worker->run;
	struct rung_ids ids = { .data = ranks,
		                .count = make_batch(worker, round, ranks),
		                .dtype = RUNG_U64,
		                .space = RUNG_RANKS };
	int rc = rung_prefetch(run->store, &ids);

	if (rc == RUNG_E_AGAIN) {
		atomic_fetch_add(&soak_counts.again, 1);
	} else if (rc < 0) {
		atomic_fetch_add(&soak_counts.unexplained, 1);
		complain(run, "an announcement was refused", rung_last_error());
	}
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct soak_run *run = worker->run;
	uint64_t *announced = calloc(run->batch_max, sizeof(*announced));

	for (uint64_t round = 0; round < run->rounds; round++) {
		struct flight *flight = &worker->flights[round % IN_FLIGHT];

		if (flight->request)
			land(worker, flight);
		/* some batches are not announced */
		if (run->announces && !soak_one_in(&worker->rng, 8))
			announce(worker, round + AHEAD, announced);
		launch(worker, flight, round);
	}
	for (unsigned i = 0; i < IN_FLIGHT && !run->leaves; i++) {
		if (worker->flights[i].request)
			land(worker, &worker->flights[i]);
	}
	free(announced);
	return NULL;
}

void soak_load(struct soak_run *run)
{
	/* static: requests in flight may use their memory until the next store */
	static struct worker workers[SOAK_THREADS_MAX];
	pthread_t threads[SOAK_THREADS_MAX];

	for (unsigned t = 0; t < run->threads; t++) {
		struct worker *worker = &workers[t];

		worker->run = run;
		worker->rng = rung__mix64(run->seed + t);
		worker->first_round = (uint64_t)t << 32;
		for (unsigned i = 0; i < IN_FLIGHT; i++) {
			struct flight *flight = &worker->flights[i];

			flight->request = NULL;
			flight->ranks =
				realloc(flight->ranks, run->batch_max * sizeof(*flight->ranks));
			flight->events =
				realloc(flight->events, run->batch_max * sizeof(*flight->events));
			flight->out = realloc(flight->out, run->batch_max * run->data->row_bytes);
		}
		pthread_create(&threads[t], NULL, work, worker);
	}
	for (unsigned t = 0; t < run->threads; t++)
		pthread_join(threads[t], NULL);
}
