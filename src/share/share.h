/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sharing a store with other processes: what is said over the socket, and who says it.
 *
 * The creator speaks first and last: to each process of the same user that connects it sends one message, the offer, with
 * descriptors of the features files, the host tier's rows and the maps, and hangs up. Nothing is read from a client, so no client
 * can make it wait or misunderstand. The attacher takes the offer for untrusted: it checks every number, the seals and the sizes
 * before it maps.
 *
 * Host memory lives as long as one process maps it. GPU memory does not outlive the process that
 * took it, and may not be freed while others have it open. So whoever reads it also gets one end of
 * a pair of sockets, all the same one, and keeps it until it has closed the memory. The other end
 * is the creator's. Nothing is ever sent: each end shows when the other is shut down or closed.
 *
 * A place is the socket, a lock file beside it (PATH.lock) and their folder. The lock is held as long as the store is shared; the
 * kernel lets go of it when the holder dies, and the next creator then replaces the socket that is left.
 */
#ifndef RUNG_SHARE_H
#define RUNG_SHARE_H

#include <limits.h>
#include <sys/un.h>

#include "state/state.h"

#define RUNG__SHARE_MAGIC "rungshr"        /* with its NUL: 8 bytes */
#define RUNG__SHARE_VERSION 7u   /* of what follows, and of what the descriptors are */

/** Descriptors that come with an offer, in this order, one for each features file; those that do not apply are left out. */
enum rung__offer_fd {
	RUNG__OFFER_FEATURES,
	RUNG__OFFER_HOST,
	RUNG__OFFER_MAP,
	RUNG__OFFER_VERTICES,
	RUNG__OFFER_CACHE,
	RUNG__OFFER_ALIVE,
	RUNG__OFFER_KINDS
};

#define RUNG__OFFER_FDS_MAX (RUNG__FILES_MAX + RUNG__OFFER_KINDS - 1)

/** The message. Both ends are on one machine: native byte order, no pointers. */
struct rung__offer {
	char magic[8];
	uint32_t version;
	uint32_t bytes;              /* sizeof(struct rung__offer); up to here the same in every version */
	struct rung__shape shape;
	struct {
		uint64_t device, inode;
	} files[RUNG__FILES_MAX];    /* which the rows are in: what fstat() says of the descriptors */
	struct rung__gpu_handle peer_handles[RUNG_GPUS_MAX];   /* of the tier "peer", [shape.gpu_count] */
	char path[PATH_MAX];   /* of the dataset's folder, absolute, ends with NUL */
};

/** Descriptors of that kind that an offer comes with. */
unsigned rung__offer_count(const struct rung__shape *shape, enum rung__offer_fd which);

/** Address of a socket; RUNG_E_INVAL when the path does not fit. */
int rung__share_address(const char *path, struct sockaddr_un *address_out);

/** True when the process at the other end runs as our user; else *uid_out is who it is. */
bool rung__share_peer_is_us(int fd, unsigned *uid_out);

/* ---- share_place.c ---- */

struct rung__place {
	char *path;
	const char *name;   /* of the socket in its folder: the end of path */
	int dir_fd;
	int lock_fd;
	int listen_fd;      /* -1 until rung__place_listen() */
};

/** Check or make the folder, and take the lock. @return also RUNG_E_BUSY: another process shares a store there */
int rung__place_take(const char *path, struct rung__place *place_out);

/** Replace a socket that a dead process left, and listen. */
int rung__place_listen(struct rung__place *place);

/** Remove the socket and the lock file. */
void rung__place_leave(struct rung__place *place);

/* ---- share.c ---- */

struct rung__share;

/** Take the place, before anything large is loaded. */
int rung__share_reserve(const char *path, struct rung__share **share_out);

/** Offer the store, which is complete: the thread that answers starts. */
int rung__share_start(struct rung__share *share, const struct rung_store *store);

/** Stop answering, leave the place, tell those who read our GPU memory; NULL is allowed. */
void rung__share_stop(struct rung__share *share);

/**
 * After rung__share_stop(): wait until nobody has our GPU memory open, 5 s at most; free the share.
 * @return 0, also for NULL, or RUNG_E_TIMEDOUT: that memory may not be freed
 */
int rung__share_end(struct rung__share *share);

#endif
