/* SPDX-License-Identifier: Apache-2.0 */
/** A dataset, a folder to share in, and what goes over the socket seen from outside. A step that
 * fails ends the program. */
#ifndef SUPPORT_SHARE_FIXTURE_H
#define SUPPORT_SHARE_FIXTURE_H

#include "share/share.h"
#include "store_fixture.h"

#define SHARE_NOBODY 65534u

struct share_fixture {
	struct store_fixture base; /* its own store is not shared */
	char folder[300];          /* not made yet */
	char path[400];            /* of the socket in it */
};

void share_fixture_open(struct share_fixture *s);
void share_fixture_close(struct share_fixture *s);

/** Share the dataset, with its map. */
struct rung_store *share_fixture_create(const struct share_fixture *s);
/** Is there still a socket at the place? */
bool share_fixture_is_shared(const struct share_fixture *s);

struct rung_store *share_fixture_attach(const struct share_fixture *s);

/** Gather rows from `store`, a third of them cold, and end the program when one is wrong. */
void share_fixture_check(struct share_fixture *s, struct rung_store *store, uint64_t seed);

/** The same `rounds` times, while `child_count` processes, at most 4, attach and gather, too. */
void share_fixture_compete(struct share_fixture *s, struct rung_store *store, unsigned child_count,
                           unsigned rounds);

/** Descriptors this process has open; *inherited_out of them would stay open in a program it
 * executes. */
unsigned share_fixture_descriptors(unsigned *inherited_out);

/** True once `count` are open: who answers hangs up a moment after the attacher has what it wants.
 * False after 10 s. */
bool share_fixture_descriptors_become(unsigned count);

/** A message as the creator sends it, or as nobody should. */
struct share_message {
	struct rung__offer offer;
	size_t bytes; /* of the offer that are sent */
	int fds[8];
	unsigned fd_count;
};

/** Connect as an attacher does, keep what comes, and wait until the creator has hung up. @return
 * its bytes, or -1 */
ssize_t share_message_receive(const char *path, struct share_message *message_out);
void share_message_close(const struct share_message *message);

/** Listen at `path`. @return descriptor */
int share_impostor_listen(const char *path, int backlog);

/** Accept one, send it the message, hang up. */
void share_impostor_answer(int listen_fd, const struct share_message *message);

#endif
