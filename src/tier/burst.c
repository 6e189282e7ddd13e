/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads at random positions, in the groups in which refill submits and reaps them, so that a
 * measured rate is one that the store can reach.
 */
#include <errno.h>

#include "tier/burst.h"

/* Submit a read at a random position. The counter continues, so bursts do not repeat positions. */
static int send(struct rung__burst *burst, uint32_t token)
{
	const uint64_t positions = burst->file_bytes / burst->read_bytes;
	const struct rung__fetch fetch = {
		.offset = rung__mix64(burst->drawn++) % positions * burst->read_bytes,
		.to = burst->to + (uint64_t)token * burst->read_bytes,
		.bytes = burst->read_bytes,
		.token = token,
	};

	return burst->ops->submit(burst->reader, &fetch);
}

/* Whether the measurement is over when `ns` have passed since its start. */
static bool is_over(const struct rung__burst *burst, uint64_t ns)
{
	return burst->err || ns >= (burst->ended < burst->reads_min ? burst->ns_max : burst->ns);
}

/*
 * When the time is over, the call waits for the reads in flight, but does not count them, because
 * the queue is no longer full. After an error of the reader it does not wait: closing the reader
 * does.
 */
int rung__burst_run(struct rung__burst *burst)
{
	struct rung__fetched fetched[RUNG__BURST_DEPTH_MAX];
	/* in the same groups as refill reaps (refill_loop.c) */
	const uint32_t group = RUNG__MIN(RUNG__MAX(burst->depth / 8, 1u), 16u);
	const uint64_t begin_ns = rung__now_ns();
	uint32_t in_flight = 0;
	bool over = false;
	int rc = 0;

	burst->ended = burst->took_ns = 0;
	burst->err = 0;
	for (; in_flight < burst->depth && rc == 0; in_flight++)
		rc = send(burst, in_flight);
	while (rc == 0 && in_flight > 0) {
		const int count = burst->ops->reap(burst->reader, RUNG__MIN(group, in_flight),
		                                   RUNG__BURST_WAIT_NS, fetched, burst->depth);
		const uint64_t ns = rung__now_ns() - begin_ns;

		if (count <= 0) /* 0 means that no read has ended in RUNG__BURST_WAIT_NS */
			return count < 0 ? count : -ETIMEDOUT;
		in_flight -= (uint32_t)count;
		for (int i = 0; i < count; i++) {
			if (fetched[i].result != (int32_t)burst->read_bytes)
				burst->err = fetched[i].result < 0 ? -fetched[i].result : EIO;
		}
		if (!over) {
			burst->ended += (uint32_t)count;
			burst->took_ns = ns;
		}
		over |= is_over(burst, ns);
		for (int i = 0; i < count && !over && rc == 0; i++) {
			rc = send(burst, fetched[i].token);
			in_flight += rc == 0;
		}
	}
	return rc;
}
