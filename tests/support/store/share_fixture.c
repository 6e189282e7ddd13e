/* SPDX-License-Identifier: Apache-2.0 */
/* Shared stores for tests, and both ends of the socket without the library. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "share_child.h"
#include "share_fixture.h"

#define VERTICES   3000
#define ROW_BYTES  400
#define HOST_BYTES 400000 /* a third of the rows */

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fixture: %s: %s\n", what, rung_last_error());
	perror("errno");
	abort();
}

void share_fixture_open(struct share_fixture *s)
{
	fixture_open(&s->base, VERTICES, ROW_BYTES, HOST_BYTES, NULL, NULL);
	snprintf(s->folder, sizeof(s->folder), "%s/share", s->base.parent);
	snprintf(s->path, sizeof(s->path), "%s/socket", s->folder);
}

void share_fixture_close(struct share_fixture *s)
{
	fixture_close(&s->base);
}

struct rung_store *share_fixture_create(const struct share_fixture *s)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .vertex_ids = 1,
		                        .share_path = s->path };
	struct rung_store *store;

	need(rung_store_open(s->base.ds, s->base.plan, &opts, &store) == 0, "sharing");
	return store;
}

bool share_fixture_is_shared(const struct share_fixture *s)
{
	return access(s->path, F_OK) == 0;
}

struct rung_store *share_fixture_attach(const struct share_fixture *s)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1 };
	struct rung_store *store;

	need(rung_store_attach(s->path, &opts, &store) == 0, "attaching");
	return store;
}

void share_fixture_check(struct share_fixture *s, struct rung_store *store, uint64_t seed)
{
	struct rung_store *own = s->base.store;
	uint64_t ids[1000];

	fixture_random_ids(&s->base, ids, RUNG__ARRAY_LEN(ids), seed);
	s->base.store = store;
	fixture_gather_and_check(&s->base, ids, RUNG__ARRAY_LEN(ids));
	s->base.store = own;
}

void share_fixture_compete(struct share_fixture *s, struct rung_store *store, unsigned child_count,
                           unsigned rounds)
{
	struct share_child children[4];

	need(child_count <= RUNG__ARRAY_LEN(children), "children");
	for (unsigned c = 0; c < child_count; c++) {
		need(share_child_start(&children[c], "attach", s->path, s->base.dir) == 0,
		     children[c].line);
		need(share_child_ask(&children[c], "go") == 0, children[c].line);
	}
	for (unsigned round = 0; round < rounds; round++)
		share_fixture_check(s, store, round);
	for (unsigned c = 0; c < child_count; c++) {
		need(share_child_ask(&children[c], "stop") == 0, children[c].line);
		need(share_child_end(&children[c]) == 0, "a child's exit status");
	}
}

unsigned share_fixture_descriptors(unsigned *inherited_out)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0, inherited = 0;
	struct dirent *entry;

	need(dir != NULL, "/proc/self/fd");
	while ((entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		count++;
		inherited += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	closedir(dir);
	if (inherited_out)
		*inherited_out = inherited;
	return count;
}

bool share_fixture_descriptors_become(unsigned count)
{
	for (unsigned tries = 0; tries < 10000; tries++) {
		if (share_fixture_descriptors(NULL) == count)
			return true;
		usleep(1000);
	}
	return false;
}

static int unix_socket(const char *path, struct sockaddr_un *address_out)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	*address_out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address_out->sun_path, sizeof(address_out->sun_path), "%s", path);
	return fd;
}

ssize_t share_message_receive(const char *path, struct share_message *message_out)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(message_out->fds))];
	} control;
	struct iovec part = { &message_out->offer, sizeof(message_out->offer) };
	struct msghdr header = { .msg_iov = &part,
		                 .msg_iovlen = 1,
		                 .msg_control = control.bytes,
		                 .msg_controllen = sizeof(control) };
	struct sockaddr_un address;
	struct cmsghdr *rights;
	int fd = unix_socket(path, &address);
	ssize_t got = -1;
	char more;

	message_out->fd_count = 0;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	if (got > 0)
		/* after this a creator in this process has closed its end */
		need(recv(fd, &more, 1, 0) == 0, "the end of the answer");
	close(fd);
	message_out->bytes = got > 0 ? (size_t)got : 0;
	rights = got > 0 ? CMSG_FIRSTHDR(&header) : NULL;
	if (rights && rights->cmsg_type == SCM_RIGHTS) {
		message_out->fd_count = (unsigned)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(message_out->fds, CMSG_DATA(rights), message_out->fd_count * sizeof(int));
	}
	return got;
}

void share_message_close(const struct share_message *message)
{
	for (unsigned i = 0; i < message->fd_count; i++)
		close(message->fds[i]);
}

int share_impostor_listen(const char *path, int backlog)
{
	struct sockaddr_un address;
	int fd = unix_socket(path, &address);

	need(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	             listen(fd, backlog) == 0,
	     "listening");
	return fd;
}

void share_impostor_answer(int listen_fd, const struct share_message *message)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(message->fds))];
	} control = { .bytes = { 0 } };
	struct iovec part = { (void *)&message->offer, message->bytes };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	int fd = accept(listen_fd, NULL, NULL);

	if (message->fd_count > 0) {
		size_t bytes = message->fd_count * sizeof(int);
		struct cmsghdr *rights = &control.align;

		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(bytes);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(rights), message->fds, bytes);
	}
	if (message->bytes > 0)
		sendmsg(fd, &header, MSG_NOSIGNAL);
	close(fd);
}
