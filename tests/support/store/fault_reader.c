/* SPDX-License-Identifier: Apache-2.0 */
/* The fault reader. Only refill calls submit and reap, so its own state needs no lock. */
#include <errno.h>
#include <unistd.h>

#include "fault_reader.h"

#define SLOTS_MAX 16384u

struct support_fault support_fault;

static struct {
	struct rung__fetch sent[SLOTS_MAX];
	struct rung__fetched held[SLOTS_MAX];
	uint32_t held_count;
	uint32_t in_flight;
	uint32_t align;
} state;

void support_fault_reset(void)
{
	support_fault.kind = SUPPORT_FAULT_NONE;
	support_fault.err = 0;
	support_fault.first = support_fault.count = 0;
	support_fault.bad_offset = 0;
	atomic_store(&support_fault.release, 0);
	atomic_store(&support_fault.seen, 0);
	state.held_count = state.in_flight = 0;
}

static int fault_start(struct rung__reader *reader)
{
	int rc = rung__file_reader.start(reader);
	struct rung__geometry geometry;

	rung__file_reader.geometry(reader, &geometry);
	state.align = geometry.align;
	return rc;
}

static int fault_submit(struct rung__reader *reader, const struct rung__fetch *fetch)
{
	int rc;

	state.sent[fetch->token] = *fetch;
	rc = rung__file_reader.submit(reader, fetch);
	if (rc == 0)
		state.in_flight++;
	return rc;
}

static bool spoiled(uint64_t number)
{
	return number >= support_fault.first && number - support_fault.first < support_fault.count;
}

static void spoil(struct rung__fetched *fetched, uint64_t number)
{
	const struct rung__fetch *sent = &state.sent[fetched->token];

	if (support_fault.bad_offset >= sent->offset &&
	    support_fault.bad_offset < sent->offset + sent->bytes && support_fault.bad_offset)
		fetched->result = -ENODATA;
	if (!spoiled(number))
		return;
	if (support_fault.kind == SUPPORT_FAULT_ERRNO)
		fetched->result = -support_fault.err;
	if (support_fault.kind == SUPPORT_FAULT_EMPTY)
		fetched->result = 0;
	if (support_fault.kind == SUPPORT_FAULT_SHORT && fetched->result > (int32_t)state.align)
		fetched->result =
			(int32_t)rung__align_down((uint64_t)fetched->result - 1, state.align);
}

static bool holds(uint64_t number)
{
	if (support_fault.kind == SUPPORT_FAULT_HELD)
		return spoiled(number) && !atomic_load(&support_fault.release);
	return support_fault.kind == SUPPORT_FAULT_LATE && spoiled(number);
}

static void reverse(struct rung__fetched *fetched, uint32_t count)
{
	for (uint32_t i = 0; i < count / 2; i++) {
		struct rung__fetched swap = fetched[i];

		fetched[i] = fetched[count - 1 - i];
		fetched[count - 1 - i] = swap;
	}
}

static bool let_go(void)
{
	if (state.held_count == 0)
		return false;
	if (support_fault.kind == SUPPORT_FAULT_HELD)
		return atomic_load(&support_fault.release);
	return state.held_count == state.in_flight; /* only late reads are left */
}

static int fault_reap(struct rung__reader *reader, uint32_t want, uint64_t timeout_ns,
                      struct rung__fetched *fetched, uint32_t max)
{
	uint32_t real = state.in_flight - state.held_count;
	uint32_t kept = 0;
	int count;

	if (support_fault.kind == SUPPORT_FAULT_GONE &&
	    atomic_load(&support_fault.seen) >= support_fault.first)
		return -support_fault.err;
	while (let_go() && kept < max)
		fetched[kept++] = state.held[--state.held_count];
	if (kept == 0 && real == 0) { /* all are held: the real reader has nothing in flight */
		usleep(1000);
	} else if (kept == 0) {
		count = rung__file_reader.reap(reader, RUNG__MIN(want, real), timeout_ns, fetched,
		                               max);
		if (count < 0)
			return count;
		for (int i = 0; i < count; i++) {
			uint64_t number = atomic_fetch_add(&support_fault.seen, 1);

			spoil(&fetched[i], number);
			if (holds(number))
				state.held[state.held_count++] = fetched[i];
			else
				fetched[kept++] = fetched[i];
		}
		if (support_fault.kind == SUPPORT_FAULT_REVERSED)
			reverse(fetched, kept);
	}
	state.in_flight -= kept;
	return (int)kept;
}

static int fault_open(const struct rung__reader_args *args, struct rung__reader **reader_out)
{
	return args->token_count > SLOTS_MAX
	               ? rung__fail(RUNG_E_INVAL, "fault reader: too many slots")
	               : rung__file_reader.open(args, reader_out);
}

static void fault_close(struct rung__reader *reader)
{
	rung__file_reader.close(reader);
}

static void fault_stop(struct rung__reader *reader)
{
	rung__file_reader.stop(reader);
}

static void fault_geometry(const struct rung__reader *reader, struct rung__geometry *geometry_out)
{
	rung__file_reader.geometry(reader, geometry_out);
}

static void fault_engine(const struct rung__reader *reader, struct rung__engine_state *state_out)
{
	rung__file_reader.engine(reader, state_out);
}

const struct rung__reader_ops support_fault_reader = {
	.abi = RUNG__READER_ABI,
	.size = sizeof(struct rung__reader_ops),
	.name = "fault",
	.open = fault_open,
	.close = fault_close,
	.geometry = fault_geometry,
	.start = fault_start,
	.stop = fault_stop,
	.engine = fault_engine,
	.submit = fault_submit,
	.reap = fault_reap,
};
