/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The soak: stores of random shapes, one after another, each under load from several threads
 * while reads fail, are short, late or never complete, and the tier breaks. Every returned row is
 * compared, every failure must have an injected cause, the store's counters must add up, and
 * nothing may leak.
 *
 * Files: soak.c chooses, opens and closes the stores; soak_options.c has the command line;
 * soak_load.c gathers from the stores and checks the results; soak_faults.c injects faults into
 * reads and records them.
 */
#ifndef SOAK_H
#define SOAK_H

#include "rung/rung.h"
#include "script_reader.h"
#include "store/store.h"

#define SOAK_THREADS_MAX 6u
#define SOAK_BAD_MAX     16u

/** A dataset and its expected rows. */
struct soak_data {
	char dir[300];
	struct rung_dataset *ds;
	uint64_t vertices, row_bytes;
	unsigned char *rows;        /* [vertices] by rank */
	struct rung__layout layout; /* of the features */
};

/** The options of the command line. */
struct soak_options {
	uint64_t seconds, seed, stores;
	const char *make, *dataset;
	uint64_t bad[SOAK_BAD_MAX];
	uint32_t bad_count;
	bool any_error, buffered, direct;
};

extern struct soak_options soak_options;

/** Faults per million reads. */
struct soak_rates {
	uint32_t errors, shorts, empties, late, jitter;
};

/** The faults of one store's reads. */
struct soak_faults {
	struct soak_rates rates;
	uint64_t timeout_ns; /* of the store: late reads take longer */
	uint32_t bad_count;  /* rows on a sector that always fails */
	uint64_t bad_ranks[4];
	uint32_t shaky_count; /* rows that fail most of the time */
	uint64_t shaky_ranks[4];
	uint64_t break_at; /* the tier breaks at this read; 0: never */
	bool refuses;      /* it then refuses reads, instead of never reporting them */
};

/** Counters of the whole run. */
struct soak_counts {
	_Atomic uint64_t requests, rows, put_early, again;
	/* failed requests, by their message */
	_Atomic uint64_t failed_by_row, failed_late, failed_broken;
	/* spared: should have failed but did not */
	_Atomic uint64_t wrong_rows, unexplained, spared;
	_Atomic uint64_t errors, shorts, empties, late, bad, broken; /* reads with faults */
};

extern struct soak_counts soak_counts;

/** One store under load. */
struct soak_run {
	const struct soak_data *data;
	uint64_t seed;
	struct rung_store *store;
	struct rung_store *attached; /* to `store`; NULL: none. Its own reads have no faults */
	uint64_t cold_first;         /* rank */
	unsigned threads;
	uint64_t rounds; /* per thread */
	uint32_t batch_max;
	bool announces;
	bool leaves;    /* closes with requests in flight */
	bool any_error; /* the device fails reads at random: a failure can name any row */
	_Atomic uint64_t asked, requests, failed, put_early; /* of `store` */
};

static inline uint64_t soak_draw(uint64_t *state, uint64_t below)
{
	*state += 0x9e3779b97f4a7c15;
	return below ? rung__mix64(*state) % below : 0;
}

/** @return true with a probability of one in `n`. */
static inline bool soak_one_in(uint64_t *state, uint64_t n)
{
	return soak_draw(state, n) == 0;
}

/* ---- soak_options.c ---- */

/** Fill soak_options. Ends the process with status 2 if an argument is unknown. */
void soak_parse(char **argv);

/* ---- soak_faults.c ---- */

/** Inject faults into reads of the scripted tier from now on. */
void soak_faults_begin(const struct soak_data *data, const struct soak_faults *faults,
                       uint64_t seed);

/** The device itself fails: rows always fail if their reads, rounded to `align`, overlap the bytes
 * bad_offsets .. + 512. */
void soak_faults_of_device(const struct soak_data *data, const uint64_t *bad_offsets,
                           uint32_t count, uint32_t align);

bool soak_is_bad(uint64_t rank);

/** Number of faulty reads over a row so far. It changes when such a read is submitted or
 * completes. */
uint32_t soak_events(uint64_t rank);

/** @return true if a late read was in flight at that time or later. */
bool soak_was_late_since(uint64_t ns);

bool soak_is_broken(void);

/* ---- soak_load.c ---- */

/** Gather from the store with run->threads threads. Returns when all are done. */
void soak_load(struct soak_run *run);

#endif
