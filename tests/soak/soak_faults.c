/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of reads. Refill's thread decides them when it submits a read; the load's threads query
 * them afterwards. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soak.h"

#define MILLION 1000000u
#define SECTOR  512u

static struct {
	const struct soak_data *data;
	struct soak_faults faults;
	uint64_t seed;
	bool *bad;                /* [vertices] */
	_Atomic uint32_t *events; /* [vertices] */
	_Atomic uint64_t late_until_ns;
	_Atomic bool broken;
} state;

static void forget(const struct soak_data *data)
{
	free(state.bad);
	free((void *)state.events);
	state.data = data;
	state.bad = calloc(data->vertices, sizeof(*state.bad));
	state.events = calloc(data->vertices, sizeof(*state.events));
	atomic_store(&state.late_until_ns, 0);
	atomic_store(&state.broken, false);
}

static uint64_t row_offset(uint64_t rank)
{
	return rung__row_offset(&state.data->layout, rank);
}

static bool is_in(uint32_t file_idx, uint64_t rank)
{
	return rung__row_file(&state.data->layout, rank) == file_idx;
}

static bool covers(const struct script_read *read, uint64_t rank)
{
	const struct rung__fetch *fetch = &read->fetch;
	uint64_t offset = row_offset(rank);

	return is_in(read->file_idx, rank) && fetch->offset < offset + state.data->row_bytes &&
	       offset < fetch->offset + fetch->bytes;
}

/* Only the first byte of a bad row is bad, so rows next to it in the same sector fail with it. */
static bool covers_bad(const struct script_read *read)
{
	const struct rung__fetch *fetch = &read->fetch;

	for (uint32_t i = 0; i < state.faults.bad_count; i++) {
		uint64_t offset = row_offset(state.faults.bad_ranks[i]);

		if (is_in(read->file_idx, state.faults.bad_ranks[i]) && fetch->offset <= offset &&
		    offset < fetch->offset + fetch->bytes)
			return true;
	}
	return false;
}

static bool covers_shaky(const struct script_read *read)
{
	for (uint32_t i = 0; i < state.faults.shaky_count; i++) {
		if (covers(read, state.faults.shaky_ranks[i]))
			return true;
	}
	return false;
}

static void note(const struct script_read *read)
{
	const struct rung__layout *layout = &state.data->layout;
	const struct rung__fetch *fetch = &read->fetch;
	uint64_t first = fetch->offset > layout->data_offset
	                         ? (fetch->offset - layout->data_offset) / layout->row_stride
	                         : 0;
	uint64_t end =
		(fetch->offset + fetch->bytes - layout->data_offset + layout->row_stride - 1) /
		layout->row_stride;

	for (uint64_t row = first; row < end; row++) {
		uint64_t rank = rung__file_rank(&state.data->layout, read->file_idx, row);

		if (rank < state.data->vertices)
			atomic_fetch_add(&state.events[rank], 1);
	}
}

static int some_errno(uint64_t draw)
{
	static const int errors[] = { EIO, EIO, EAGAIN, ENODATA, EINTR, ETIMEDOUT, EREMOTEIO };

	return errors[draw % RUNG__ARRAY_LEN(errors)];
}

static void be_late(struct script_fate *fate, uint64_t draw)
{
	uint64_t until_ns;

	fate->delay_ns = state.faults.timeout_ns / 2 + draw % (3 * state.faults.timeout_ns);
	until_ns = rung__now_ns() + fate->delay_ns;
	if (until_ns > atomic_load(&state.late_until_ns))
		atomic_store(&state.late_until_ns, until_ns);
	atomic_fetch_add(&soak_counts.late, 1);
}

static void count_fate(const struct script_fate *fate, bool bad)
{
	atomic_fetch_add(&soak_counts.bad, bad);
	atomic_fetch_add(&soak_counts.errors, fate->err && !bad);
	atomic_fetch_add(&soak_counts.empties, fate->empty);
	atomic_fetch_add(&soak_counts.shorts, fate->bytes_max > 0);
}

static void decide(const struct script_read *read, struct script_fate *fate)
{
	const struct rung__fetch *fetch = &read->fetch;
	const struct soak_rates *rates = &state.faults.rates;
	uint64_t rng = rung__mix64(state.seed ^ read->number);
	uint64_t draw = soak_draw(&rng, MILLION);
	bool bad = covers_bad(read);

	if (state.faults.break_at && read->number == state.faults.break_at) {
		atomic_store(&state.broken, true);
		atomic_fetch_add(&soak_counts.broken, 1);
		atomic_store(&script.refuses, state.faults.refuses);
		atomic_store(&script.broken, ENODEV);
	}
	if (bad)
		fate->err = ENODATA;
	else if (draw < rates->errors || (covers_shaky(read) && !soak_one_in(&rng, 4)))
		fate->err = some_errno(soak_draw(&rng, MILLION));
	else if ((draw -= rates->errors) < rates->shorts)
		fate->bytes_max = 1 + (uint32_t)soak_draw(&rng, fetch->bytes);
	else if ((draw -= rates->shorts) < rates->empties)
		fate->empty = true;
	if (soak_draw(&rng, MILLION) < rates->late)
		be_late(fate, soak_draw(&rng, UINT64_MAX));
	else if (soak_draw(&rng, MILLION) < rates->jitter)
		fate->delay_ns = soak_draw(&rng, 1000000);
	count_fate(fate, bad);
	if (fate->err || fate->empty)
		note(read);
}

static void came_back(const struct script_read *read, const struct script_fate *fate)
{
	if (fate->err || fate->empty)
		note(read);
}

void soak_faults_begin(const struct soak_data *data, const struct soak_faults *faults,
                       uint64_t seed)
{
	forget(data);
	state.faults = *faults;
	state.seed = seed;
	script.decide = decide;
	script.came_back = came_back;
	for (uint32_t i = 0; i < faults->bad_count; i++) {
		uint64_t sector = rung__align_down(row_offset(faults->bad_ranks[i]), script.align);
		uint32_t file_idx = (uint32_t)rung__row_file(&data->layout, faults->bad_ranks[i]);

		for (uint64_t rank = 0; rank < data->vertices; rank++)
			state.bad[rank] |= is_in(file_idx, rank) &&
			                   row_offset(rank) < sector + script.align &&
			                   sector < row_offset(rank) + data->row_bytes;
	}
}

void soak_faults_of_device(const struct soak_data *data, const uint64_t *bad_offsets,
                           uint32_t count, uint32_t align)
{
	forget(data);
	for (uint32_t i = 0; i < count; i++) {
		for (uint64_t rank = 0; rank < data->vertices; rank++) {
			uint64_t first = rung__align_down(row_offset(rank), align);
			uint64_t end = rung__align_up(row_offset(rank) + data->row_bytes, align);

			state.bad[rank] |= first < bad_offsets[i] + SECTOR && bad_offsets[i] < end;
		}
	}
}

bool soak_is_bad(uint64_t rank)
{
	return state.bad[rank];
}

uint32_t soak_events(uint64_t rank)
{
	return atomic_load(&state.events[rank]);
}

bool soak_was_late_since(uint64_t ns)
{
	return atomic_load(&state.late_until_ns) >= ns;
}

bool soak_is_broken(void)
{
	return atomic_load(&state.broken);
}
