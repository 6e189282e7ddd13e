/* SPDX-License-Identifier: Apache-2.0 */
/** The refill thread's state, shared by refill.c (the loop) and refill_read.c (one read's life). Only that thread touches it. */
#ifndef RUNG_REFILL_INTERNAL_H
#define RUNG_REFILL_INTERNAL_H

#include "store_internal.h"

/* A read in a slot. */
struct rung__read {
	struct rung_request *request;   /* NULL: the slot is free */
	uint64_t first, end;       /* misses [first, end) of the request */
	uint64_t offset;           /* in the file */
	uint32_t bytes;            /* whole sectors */
	uint32_t needed;           /* up to the last row's end: what must have been read */
	uint32_t done;             /* of bytes, by earlier short reads */
	uint32_t tries;
	uint64_t alone_end;        /* nonzero: taken apart, rows are read one by one up to this miss */
	uint64_t slot_offset;      /* in the file, of what goes to the slot's first byte: rows read alone go where they would have been */
};

struct rung__refill {
	struct rung_store *store;
	const struct rung__tier_ops *ops;
	struct rung__tier *tier;
	struct rung__geometry geometry;
	struct rung__engine_state engine;
	unsigned char *slots;
	uint32_t slot_bytes, slot_count, depth;
	bool merge;
	bool stop;                 /* the store is being closed: what waits is canceled */
	bool device;               /* rows stay in their slots until a device has copied them */

	struct rung__read *reads;              /* [slot_count] */
	uint32_t *free_slots;            /* stack */
	uint32_t free_count;
	uint32_t in_flight;
	struct rung__fetched *fetched;   /* [depth] */
	struct rung_request *issuing;    /* oldest request with misses not yet read, and those behind it */
	struct rung_request *issuing_tail;
	uint32_t *slot_next;             /* [slot_count] device: chains of slots with rows in them */
	struct rung__parcel *parcels;    /* [slot_count] device: by the first slot of the chain */
	uint32_t *taken_back;            /* [slot_count] device: scratch */
	int broken;                      /* errno the tier gave up with */

	pthread_t thread;
	pthread_mutex_t start_lock;
	pthread_cond_t start_cond;
	bool started;
	int start_status;
	char start_error[RUNG__ERROR_BYTES];
};

/** Prepare the read of a request's next misses in a slot and move its cursor behind them. */
void rung__read_begin(struct rung__refill *refill, uint32_t slot_idx, struct rung_request *request);

/** Send the read in a slot; a tier that refuses fails the request and is not asked again. */
void rung__read_send(struct rung__refill *refill, uint32_t slot_idx);

/** True when a read has all its bytes and nothing follows it in its slot: rung__read_end() will only copy. */
bool rung__read_is_whole(const struct rung__refill *refill, const struct rung__fetched *fetched);

/** A read came back with bytes or -errno: copy its rows, or fetch the rest, try again, take it apart, fail. */
void rung__read_end(struct rung__refill *refill, uint32_t slot_idx, int32_t result);

/** Behind a read, or instead of the next: complete the request, or hand it over to the device, if it was the last. */
void rung__read_over(struct rung__refill *refill, struct rung_request *request);

/** Hand what lies in slots of a request over to the device, `last` when nothing more comes. Device only. */
void rung__parcel_send(struct rung__refill *refill, struct rung_request *request, bool last);

/** Fail a request because the tier takes no more reads (refill->broken). */
void rung__read_fail_gone(const struct rung__refill *refill, struct rung_request *request);

/** The tier cannot go on: fail the requests of all reads in flight. Their slots are not used again. */
void rung__reads_give_up(struct rung__refill *refill);

#endif
