/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The creator's side: a thread that sends the offer and its descriptors to every process of the
 * same user that connects.
 *
 * The offer is built once, when the store is complete, and does not change, so the thread needs no
 * lock. Of the store it uses only the descriptors.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share/share.h"
#include "base/thread.h"

/* pause after accept() has failed (no free descriptor), instead of a busy loop */
#define REST_MS 100
/* longest wait when closing, for processes that have the GPU memory open */
#define LEAVE_WAIT_NS 5000000000ull

struct rung__share {
	struct rung__endpoint endpoint;
	struct rung__offer offer;
	int fds[RUNG__OFFER_FDS_MAX]; /* owned by the store, which closes them */
	unsigned fd_count;
	int wake_fd;      /* an eventfd; readable: stop */
	int alive_fds[2]; /* socket pair: attachers' end, our end; -1: no tier "peer" */
	pthread_t thread;
	bool started; /* the thread was started */
};

unsigned rung__offer_count(const struct rung__offer *offer, enum rung__offer_fd which)
{
	const struct rung__shape *shape = &offer->shape;

	switch (which) {
	case RUNG__OFFER_HOST:
		return shape->tiers[RUNG__TIER_HOST].row_count > 0;
	case RUNG__OFFER_MAP:
		return shape->map_bytes > 0;
	case RUNG__OFFER_VERTICES:
		return shape->layout.vertex_bytes > 0;
	case RUNG__OFFER_CACHE:
		return shape->frame_count > 0;
	case RUNG__OFFER_ALIVE:
		return shape->tiers[RUNG__TIER_PEER].row_count > 0;
	case RUNG__OFFER_LISTS:
		return offer->lists.edge_count > 0;
	case RUNG__OFFER_LISTS_HOST:
		return offer->lists.shape.tiers[RUNG__TIER_HOST].row_count > 0;
	case RUNG__OFFER_OFFSETS:
		return offer->lists.present > 0;
	case RUNG__OFFER_SCALES:
		return shape->quant.format != RUNG_QUANT_NONE &&
		       shape->quant.scales == RUNG_SCALES_COLUMN;
	default: /* bounded, because an attacher calls this before it has checked the shape */
		return (unsigned)RUNG__MIN(shape->layout.file_count, RUNG__FILES_MAX);
	}
}

/* Send the offer to a client. Never blocks: the message fits into the buffer of an empty socket; a
 * client whose message cannot be sent at once gets none. */
static void answer(const struct rung__share *share, int client_fd)
{
	struct iovec part = { .iov_base = (void *)&share->offer, .iov_len = sizeof(share->offer) };
	/* CMSG_FIRSTHDR() needs memory that is aligned for a struct cmsghdr */
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * RUNG__OFFER_FDS_MAX)];
	} control = { .bytes = { 0 } };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(sizeof(int) * share->fd_count),
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	unsigned uid;

	/* the folder's mode keeps other users out; root can still connect */
	if (!rung__share_peer_is_us(client_fd, &uid, NULL))
		return;
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int) * share->fd_count);
	memcpy(CMSG_DATA(rights), share->fds, sizeof(int) * share->fd_count);
	sendmsg(client_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* @return true once the store is being closed */
static bool stop_within(const struct rung__share *share, int timeout_ms)
{
	struct pollfd wake = { .fd = share->wake_fd, .events = POLLIN };

	return poll(&wake, 1, timeout_ms) > 0;
}

/* The thread: one client at a time, which is enough, because no client can make it wait. */
static void *share_main(void *ctx)
{
	const struct rung__share *share = ctx;
	struct pollfd fds[] = {
		{ .fd = share->wake_fd, .events = POLLIN },
		{ .fd = share->endpoint.listen_fd, .events = POLLIN },
	};

	for (;;) {
		int client_fd;

		/* no time limit, because closing the store wakes the thread */
		poll(fds, RUNG__ARRAY_LEN(fds), -1);
		if (fds[0].revents)
			return NULL;
		/* the listening socket does not block, as the client may have left since poll() */
		client_fd = accept4(share->endpoint.listen_fd, NULL, NULL,
		                    SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (client_fd >= 0) {
			answer(share, client_fd);
			close(client_fd);
		} else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
			if (stop_within(share, REST_MS))
				return NULL;
		}
	}
}

int rung__share_reserve(const char *path, struct rung__share **share_out)
{
	struct rung__share *share = rung__zalloc(sizeof(*share));
	int rc;

	if (!share)
		return rung__fail(RUNG_E_NOMEM, "%s: out of memory", path);
	share->wake_fd = share->alive_fds[0] = share->alive_fds[1] = -1;
	rc = rung__endpoint_acquire(path, &share->endpoint);
	if (rc < 0) {
		rung__free(share);
		return rc;
	}
	*share_out = share;
	return 0;
}

/* Add the CUDA IPC handles of the GPU memory, and create the socket pair: each process sees from
 * its end whether the other one is still alive. */
static int offer_gpu_memory(struct rung__share *share, const struct rung_store *store)
{
	if (store->shape.tiers[RUNG__TIER_PEER].row_count == 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, share->alive_fds) < 0)
		return rung__fail_errno(errno, "%s: cannot create a pair of sockets",
		                        share->endpoint.path);
	return store->device_ops->handles(store->device, share->offer.peer_handles);
}

/* Add the structure to the offer. @param fds  by kind */
static int offer_lists(struct rung__offer *offer, const struct rung__share_lists *lists, int *fds)
{
	const struct rung_store *store = lists->store;
	struct stat st;

	offer->lists.present = 1;
	offer->lists.edge_count = lists->edge_count;
	offer->lists.index_bytes = lists->index_bytes;
	fds[RUNG__OFFER_OFFSETS] = lists->offsets_fd;
	if (!store)
		return 0;
	offer->lists.shape = store->shape;
	fds[RUNG__OFFER_LISTS] = store->features.files[0].fd;
	fds[RUNG__OFFER_LISTS_HOST] = store->host_memory.fd;
	if (fstat(fds[RUNG__OFFER_LISTS], &st) < 0)
		return rung__fail_errno(errno, "%s", store->features.files[0].path);
	offer->lists.device = st.st_dev;
	offer->lists.inode = st.st_ino;
	return 0;
}

/* Build the message and the list of its descriptors, in the order of enum rung__offer_fd. */
static int make_offer(struct rung__share *share, const struct rung_store *store,
                      const struct rung__share_lists *lists)
{
	int rc = offer_gpu_memory(share, store);
	/* indexed by kind; the features files come from the store */
	int fds[RUNG__OFFER_KINDS] = { -1,
		                       store->host_memory.fd,
		                       store->map_memory.fd,
		                       store->vertices_memory.fd,
		                       store->pool.shared.fd,
		                       share->alive_fds[0] };
	struct rung__offer *offer = &share->offer;
	struct stat st;

	fds[RUNG__OFFER_SCALES] = store->scales_memory.fd;
	if (rc < 0)
		return rc;
	memcpy(offer->magic, RUNG__SHARE_MAGIC, sizeof(offer->magic));
	offer->version = RUNG__SHARE_VERSION;
	offer->bytes = sizeof(*offer);
	offer->shape = store->shape;
	offer->shape.layout.vertex_of_rank = NULL; /* the message must not contain pointers */
	if (!store->pool.shared.base) {            /* the cache, if any, is private */
		offer->shape.frame_count = 0;
		offer->shape.placements.frames = (struct rung__placement){ .part_count = 0 };
	}
	for (uint64_t f = 0; f < store->shape.layout.file_count; f++) {
		int fd = store->features.files[f].fd;

		if (fstat(fd, &st) < 0)
			return rung__fail_errno(errno, "%s", store->features.files[f].path);
		offer->files[f].device = st.st_dev;
		offer->files[f].inode = st.st_ino;
		share->fds[share->fd_count++] = fd;
	}
	if (lists)
		rc = offer_lists(offer, lists, fds);
	if (rc < 0)
		return rc;
	for (unsigned i = RUNG__OFFER_FEATURES + 1; i < RUNG__OFFER_KINDS; i++) {
		if (rung__offer_count(offer, i))
			share->fds[share->fd_count++] = fds[i];
	}
	/* other processes have other working folders, so the path must be absolute */
	if (!realpath(store->dataset_dir, offer->path))
		return rung__fail_errno(errno, "%s", store->dataset_dir);
	return 0;
}

int rung__share_start(struct rung__share *share, const struct rung_store *store,
                      const struct rung__share_lists *lists)
{
	int rc = make_offer(share, store, lists);

	if (rc < 0)
		return rc;
	share->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (share->wake_fd < 0)
		return rung__fail_errno(errno, "%s: eventfd", share->endpoint.path);
	rc = rung__endpoint_listen(&share->endpoint);
	if (rc < 0)
		return rc;
	/* processes that connect before it runs wait in the socket's backlog */
	rc = rung__thread_start(&share->thread, share_main, share);
	if (rc != 0)
		return rung__fail_thread(rc, "share: the thread that answers attach requests");
	share->started = true;
	return 0;
}

void rung__share_stop(struct rung__share *share)
{
	if (!share)
		return;
	if (share->started) {
		eventfd_write(share->wake_fd, 1);
		pthread_join(share->thread, NULL);
	}
	if (share->wake_fd >= 0)
		close(share->wake_fd);
	if (share->alive_fds[0] >= 0) {
		/* attachers see the shutdown in their next gather, which fails; once our copy of
		 * their end is closed, our end hangs up when the last attacher closes its copy */
		shutdown(share->alive_fds[1], SHUT_WR);
		close(share->alive_fds[0]);
	}
	rung__endpoint_release(&share->endpoint);
}

/* Wait until no process has the attachers' end open: our end hangs up then. The kernel closes it
 * for a process that dies. */
static bool all_have_left(const struct rung__share *share)
{
	const uint64_t until_ns = rung__now_ns() + LEAVE_WAIT_NS;
	struct pollfd ours = { .fd = share->alive_fds[1] }; /* POLLHUP is always reported */

	for (;;) {
		uint64_t now = rung__now_ns();
		int ms = now < until_ns ? (int)((until_ns - now) / 1000000u) + 1 : 0;

		if (poll(&ours, 1, ms) > 0)
			return true;
		if (ms == 0)
			return false;
	}
}

int rung__share_end(struct rung__share *share)
{
	int rc = 0;

	if (!share)
		return 0;
	if (share->alive_fds[1] >= 0) {
		if (!all_have_left(share))
			rc = rung__fail(RUNG_E_TIMEDOUT,
			                "store: its GPU memory is still open in "
			                "attached processes after %llu s; it stays allocated until "
			                "this process ends; close attached stores first",
			                LEAVE_WAIT_NS / 1000000000u);
		close(share->alive_fds[1]);
	}
	rung__free(share);
	return rc;
}
