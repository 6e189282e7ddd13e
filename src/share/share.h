/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sharing a store with other processes: the endpoint (socket, lock and folder), the message, and
 * the creator's side. Private to rung; attach/attach.c checks and opens the offer on the other
 * side.
 *
 * The message. Rows and maps are in sealed memfds. To each process of the same user that connects,
 * the creator sends one message, the offer, with descriptors of the features files, the rows of the
 * host tier, the maps, the cache, the file, resident lists and offsets of the structure, and the
 * scales of quantized rows, and closes the connection. It reads nothing from a client, and
 * drops an offer that cannot be sent at once, so no client can make the creator wait. The attacher
 * waits 5 s at most. A new version of the protocol is a new RUNG__SHARE_VERSION; the start of the
 * message stays as it is.
 *
 * Trust. The attacher treats the offer as untrusted: it checks version and size, every number, the
 * identity of the files, the seals, and the entries of the map. Because of the seals one check is
 * enough: a map that could change later would have to be checked in each gather. Sealed memory is
 * mapped read-only, and registered with CUDA as such.
 *
 * The features are opened through their descriptors (rung__reopen()), never through the path.
 * Attachers therefore read the creator's files, each with separate open file descriptions, flags
 * and refill threads.
 *
 * Host memory exists as long as one process maps it, so no death needs handling. GPU memory ends
 * with the process that allocated it, and CUDA does not define what happens when it is freed while
 * other processes have it open. The offer has CUDA IPC handles of the tier "peer", which is
 * allocated in whole blocks of 2 MiB, and one end of a socket pair; the creator keeps the other
 * end. Nothing is sent through the pair: each end shows when the other is shut down or closed.
 *
 * Each gather of an attacher checks whether the creator's end is shut down; if so, the gather fails
 * with RUNG_E_NODEV. The attachers' end hangs up when the last attacher has closed it or died. A
 * creator that closes waits for that. After 5 s it gives up, and leaves the memory allocated until
 * its process ends. Each process loads its own tier "gpu" and its own map on the GPU.
 *
 * An endpoint consists of the socket, a lock file next to it (PATH.lock) and their folder with mode
 * 0700. The lock, not the socket, decides which process shares there. The kernel releases it when
 * the holder dies, and the next creator replaces the socket. The lock file is removed before the
 * lock is released, so a lock is valid only while the name still leads to its file.
 */
#ifndef RUNG_SHARE_H
#define RUNG_SHARE_H

#include <limits.h>
#include <sys/un.h>

#include "state/state.h"

#define RUNG__SHARE_MAGIC   "rungshr" /* 8 bytes, including the NUL */
#define RUNG__SHARE_VERSION 11u       /* version of the offer and of the order of its descriptors */

/** Descriptors of an offer, in this order: first one for each features file, then at most one of
 * each other kind. */
enum rung__offer_fd {
	RUNG__OFFER_FEATURES,
	RUNG__OFFER_HOST,
	RUNG__OFFER_MAP,
	RUNG__OFFER_VERTICES,
	RUNG__OFFER_CACHE,
	RUNG__OFFER_ALIVE,
	RUNG__OFFER_LISTS,
	RUNG__OFFER_LISTS_HOST,
	RUNG__OFFER_OFFSETS,
	RUNG__OFFER_SCALES,
	RUNG__OFFER_KINDS
};

#define RUNG__OFFER_FDS_MAX (RUNG__FILES_MAX + RUNG__OFFER_KINDS - 1)

/** The message. Both ends are on one machine: native byte order, no pointers. */
struct rung__offer {
	char magic[8];
	uint32_t version;
	/* sizeof(struct rung__offer); the fields up to this one are the same in every version */
	uint32_t bytes;
	struct rung__shape shape;
	/* the features files, as fstat() reports their descriptors; [shape.layout.file_count] */
	struct {
		uint64_t device, inode;
	} files[RUNG__FILES_MAX];
	/* [shape.gpu_count] CUDA IPC handles of the tier "peer" */
	struct rung__gpu_handle peer_handles[RUNG_GPUS_MAX];
	char path[PATH_MAX]; /* absolute path of the dataset's folder, ends with a NUL */
	/* the graph, if the store has a structure */
	struct {
		uint64_t present; /* 1: the store has a structure; otherwise the rest is zero */
		uint64_t edge_count, index_bytes;
		uint64_t device, inode;   /* of the file with the lists */
		struct rung__shape shape; /* of the blocks of lists; zero without edges */
	} lists;
};

/** Number of descriptors of that kind in an offer. Safe for an unchecked offer. */
unsigned rung__offer_count(const struct rung__offer *offer, enum rung__offer_fd which);

/** The structure of a store, to be shared with it. */
struct rung__share_lists {
	const struct rung_store *store; /* of the blocks; NULL: the graph has no edges */
	uint64_t edge_count, index_bytes;
	int offsets_fd;
};

/** Build the address of a socket; RUNG_E_INVAL if the path does not fit. */
int rung__share_address(const char *path, struct sockaddr_un *address_out);

/** True if the process at the other end runs as this user; otherwise *uid_out is its user.
 * @param pid_out  the process; may be NULL */
bool rung__share_peer_is_us(int fd, unsigned *uid_out, uint32_t *pid_out);

/* ---- share_ask.c: the attacher's side ---- */

/** The creator's message, not checked yet. */
struct rung__answer {
	struct rung__offer offer;
	size_t bytes;                 /* size of the received message; 0: none was sent */
	int flags;                    /* flags that recvmsg() returned */
	uint32_t pid;                 /* of the creator; 0: in another pid namespace */
	int fds[RUNG__OFFER_FDS_MAX]; /* [fd_count]; -1: moved to the store */
	unsigned fd_count;
};

/**
 * Connect to the creator and wait for its message, 5 s at most.
 * @param answer_out  the caller closes it, also after a failure
 * @return 0 (also if the creator hung up without a message), RUNG_E_INVAL (path, another user's
 *         store), RUNG_E_NOENT (no process answers there), RUNG_E_TIMEDOUT, RUNG_E_FORMAT (not a
 *         rung socket), RUNG_E_IO
 */
int rung__share_request(const char *path, struct rung__answer *answer_out);
/** Close the descriptors that have not been moved to the store. */
void rung__answer_close(struct rung__answer *answer);

/* ---- share_endpoint.c ---- */

/* The lock file and the socket are opened, compared and removed relative to dir_fd. */
struct rung__endpoint {
	char *path;
	const char *name; /* file name of the socket: the last part of `path` */
	int dir_fd;
	int lock_fd;   /* PATH.lock, locked */
	int listen_fd; /* -1 until rung__endpoint_listen() */
};

/** Check or create the folder, and acquire the lock. @return also RUNG_E_BUSY: another process
 * shares a store there */
int rung__endpoint_acquire(const char *path, struct rung__endpoint *place_out);

/** Replace a socket that a dead process left, and listen. */
int rung__endpoint_listen(struct rung__endpoint *endpoint);

/** Remove the socket and the lock file, and release the lock. Also called after one of the two
 * functions above has failed. */
void rung__endpoint_release(struct rung__endpoint *endpoint);

/* ---- share.c ---- */

struct rung__share;

/** Acquire the endpoint. Called before anything large is loaded. */
int rung__share_reserve(const char *path, struct rung__share **share_out);

/**
 * Offer a complete store: build the offer and start the thread that sends it. The store and its
 * lists must outlive the thread, which sends their descriptors.
 * @param lists  NULL: the store has no structure
 */
int rung__share_start(struct rung__share *share, const struct rung_store *store,
                      const struct rung__share_lists *lists);

/** Stop answering, release the endpoint, and signal the processes that read this process's GPU
 * memory; NULL is allowed. */
void rung__share_stop(struct rung__share *share);

/**
 * After rung__share_stop(): wait until no other process has the GPU memory open, 5 s at most; free
 * the share.
 * @return 0, also for NULL, or RUNG_E_TIMEDOUT: that memory must not be freed
 */
int rung__share_end(struct rung__share *share);

#endif
