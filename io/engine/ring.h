/* SPDX-License-Identifier: Apache-2.0 */
/** An io_uring ring: the code that three engines share. Pool, file and ring descriptor are
 * registered if the kernel permits. */
#ifndef RUNG_IO_RING_H
#define RUNG_IO_RING_H

#include "engine/engine.h"

#if RUNG_HAVE_IO_URING
#include <liburing.h>

#define RUNG__PIECE_SHIFT_MAX 30 /* a registered buffer has at most 1 GiB */

struct nvme_drive; /* defined in engine_nvme.c */

struct rung__engine {
	struct io_uring ring;
	unsigned char *pool; /* borrowed: the destination of all reads */
	/* number of registered buffers, pieces of the pool of 1 << piece_shift bytes; 0: none */
	uint64_t piece_count;
	unsigned piece_shift;
	int fd;             /* for submission: a descriptor, or the number of a registered file */
	unsigned sqe_flags; /* IOSQE_FIXED_FILE if `fd` is a registered file */
	bool polls;         /* IORING_SETUP_IOPOLL */
	/* Converts a completion to the bytes read. Set after opening by an engine whose completions
	 * do not contain them. NULL: cqe->res is the result */
	int32_t (*result_of)(const struct io_uring_cqe *cqe);
	struct nvme_drive *drive; /* owned by engine_nvme.c; NULL in other engines */
};

/**
 * Create the ring in the thread that will use it, and register.
 *
 * @param fd           file to read
 * @param flags        IORING_SETUP_* in addition to those that all rings have (IOPOLL, SQE128 …)
 * @param piece_shift  log2 of the size of registered buffers
 * @param report       gets the features, or on failure the reason
 * @return 0 or -errno
 */
int rung__ring_open(const struct rung__engine_args *args, int fd, unsigned flags,
                    unsigned piece_shift, struct rung__engine **engine_out,
                    struct rung__engine_report *report);

/* As in struct rung__engine_ops; the low half of user_data is the token. */
void rung__ring_close(struct rung__engine *engine);
int rung__ring_reap(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns,
                    struct rung__fetched *fetched, uint32_t max);

/** The index of the registered buffer that contains the whole destination of a read; -1: none
 * does. */
static inline int rung__ring_piece(const struct rung__engine *ring, const struct rung__fetch *fetch)
{
	uint64_t piece = fetch->to >> ring->piece_shift;
	uint64_t last = (fetch->to + fetch->bytes - 1) >> ring->piece_shift;

	return piece < ring->piece_count && last == piece ? (int)piece : -1;
}

#endif
#endif
