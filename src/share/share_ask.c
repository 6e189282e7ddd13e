/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requesting the offer of a process that shares a store: connect, wait for the one message, receive
 * it with its descriptors. Its content is checked later, in attach/attach.c. Here only the user at
 * the other end is checked, as reported by the kernel.
 *
 * The socket does not block, so a creator that is stopped costs 5 s, not forever.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "share/share.h"

/* the creator needs almost no time to answer: if it has not answered after this time, it is stopped
 * or stuck */
#define ANSWER_WAIT_NS   5000000000ull
#define CONNECT_PAUSE_NS 10000000 /* pause while the socket's backlog is full */

/* Fail because the creator has not answered in time. */
static int silent(const char *path)
{
	return rung__fail(RUNG_E_TIMEDOUT,
	                  "%s: the process that shares the store has not answered for %llu s: it "
	                  "is stopped or stuck; resume it, or end it and start it again",
	                  path, ANSWER_WAIT_NS / 1000000000u);
}

/* Fail with the reason why connect() has failed. */
static int refused(const char *path, int err)
{
	if (err == ENOENT)
		return rung__fail(RUNG_E_NOENT,
		                  "%s: no store is shared there: start the process that shares it, "
		                  "and wait until it has loaded",
		                  path);
	if (err == ECONNREFUSED)
		return rung__fail(
			RUNG_E_NOENT,
			"%s: no process answers there: the process that shared a store has "
			"ended; start it again to replace the socket",
			path);
	/* rung's sockets are of type SOCK_SEQPACKET, most others are streams */
	if (err == EPROTOTYPE)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: is another program's socket, not a shared store", path);
	return rung__fail_errno(err, "%s: cannot connect", path);
}

/* Connect, and check the user at the other end. The caller closes *fd_out. */
static int connect_to(const char *path, uint64_t until_ns, int *fd_out, uint32_t *pid_out)
{
	const struct timespec pause = { .tv_nsec = CONNECT_PAUSE_NS };
	struct sockaddr_un address;
	int fd, rc = rung__share_address(path, &address);
	unsigned uid;

	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return rung__fail_errno(errno, "%s: cannot create a socket", path);
	while (rc == 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		if (errno != EAGAIN && errno != EINTR) /* EAGAIN: the backlog is full */
			rc = refused(path, errno);
		else if (rung__now_ns() > until_ns)
			rc = silent(path);
		else
			nanosleep(&pause, NULL);
	}
	if (rc == 0 && !rung__share_peer_is_us(fd, &uid, pid_out))
		rc = rung__fail(RUNG_E_INVAL,
		                "%s: shared by user %u, but this process runs as user %u; "
		                "only processes of the same user can attach",
		                path, uid, (unsigned)geteuid());
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*fd_out = fd;
	return 0;
}

/* Wait until the message or the end of the connection has arrived. */
static int await(const char *path, int fd, uint64_t until_ns)
{
	for (;;) {
		uint64_t now = rung__now_ns();
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		if (now >= until_ns)
			return silent(path);
		if (poll(&ready, 1, (int)((until_ns - now) / 1000000u) + 1) > 0)
			return 0;
	}
}

/* Copy the descriptors out of the control messages. From here on they are open in this process, so
 * each of them must be closed, whatever the message contains. */
static void receive_descriptors(struct msghdr *message, struct rung__answer *answer)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0;
		     at + sizeof(int) <= bytes && answer->fd_count < RUNG__OFFER_FDS_MAX;
		     at += sizeof(int))
			memcpy(&answer->fds[answer->fd_count++], CMSG_DATA(c) + at, sizeof(int));
	}
}

/* Receive the message. The control buffer has space for exactly RUNG__OFFER_FDS_MAX descriptors, so
 * the kernel closes any others and sets MSG_CTRUNC. */
static int receive(const char *path, int fd, struct rung__answer *answer)
{
	struct iovec part = { .iov_base = &answer->offer, .iov_len = sizeof(answer->offer) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_LEN(sizeof(int) * RUNG__OFFER_FDS_MAX)];
	} control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	/* the creator closed its socket before it had accepted this connection: the same as an
	 * answer of 0 bytes */
	if (got < 0 && errno == ECONNRESET)
		return 0;
	if (got < 0)
		return rung__fail_errno(errno, "%s: cannot receive the shared store", path);
	answer->bytes = (size_t)got;
	answer->flags = message.msg_flags;
	receive_descriptors(&message, answer);
	return 0;
}

int rung__share_request(const char *path, struct rung__answer *answer_out)
{
	const uint64_t until_ns = rung__now_ns() + ANSWER_WAIT_NS;
	int fd = -1, rc;

	*answer_out = (struct rung__answer){ .bytes = 0 };
	rc = connect_to(path, until_ns, &fd, &answer_out->pid);
	if (rc < 0)
		return rc;
	rc = await(path, fd, until_ns);
	if (rc == 0)
		rc = receive(path, fd, answer_out);
	close(fd);
	return rc;
}

void rung__answer_close(struct rung__answer *answer)
{
	for (unsigned i = 0; i < answer->fd_count; i++) {
		if (answer->fds[i] >= 0)
			close(answer->fds[i]);
	}
}
