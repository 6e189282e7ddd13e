/* SPDX-License-Identifier: Apache-2.0 */
/** A dataset, a folder to share it in, and the messages on the socket. A step that fails ends the
 * program. */
#ifndef SUPPORT_SHARE_FIXTURE_H
#define SUPPORT_SHARE_FIXTURE_H

#include "share/share.h"
#include "store_fixture.h"

#define SHARE_NOBODY 65534u

struct share_fixture {
	struct store_fixture base; /* its store is not shared */
	char folder[300];          /* not created yet */
	char path[400];            /* of the socket in it */
};

void share_fixture_open(struct share_fixture *s);
void share_fixture_close(struct share_fixture *s);

/** Share the dataset, with its map. */
struct rung_store *share_fixture_create(const struct share_fixture *s);
/** @return whether the socket still exists */
bool share_fixture_is_shared(const struct share_fixture *s);

struct rung_store *share_fixture_attach(const struct share_fixture *s);

/** Gather rows from `store`, a third of them cold, and end the program if one is wrong. */
void share_fixture_check(struct share_fixture *s, struct rung_store *store, uint64_t seed);

/** The same, `rounds` times, while `child_count` processes (at most 4) attach and gather. */
void share_fixture_compete(struct share_fixture *s, struct rung_store *store, unsigned child_count,
                           unsigned rounds);

/** Number of open descriptors of this process; *inherited_out of them would stay open in a program
 * that it executes. */
unsigned share_fixture_descriptors(unsigned *inherited_out);

/** Wait until `count` descriptors are open: the server hangs up a moment after the attacher has its
 * answer. @return false after 10 s */
bool share_fixture_descriptors_become(unsigned count);

/** A message as the creator sends it, or a malformed one. */
struct share_message {
	struct rung__offer offer;
	size_t bytes; /* sent of the offer */
	int fds[8];
	unsigned fd_count;
};

/** Connect as an attacher does, keep the answer, and wait until the creator has hung up. @return
 * bytes received, or -1 */
ssize_t share_message_receive(const char *path, struct share_message *message_out);
void share_message_close(const struct share_message *message);

/** Listen at `path`. @return descriptor */
int share_impostor_listen(const char *path, int backlog);

/** Accept one connection, send the message, hang up. */
void share_impostor_answer(int listen_fd, const struct share_message *message);

#endif
