/* SPDX-License-Identifier: Apache-2.0 */
/** Attaching to a store that another process shares: the checks of its offer (attach_check.c), and
 * the store that is opened on it. Private to attach*.c. */
#ifndef RUNG_ATTACH_H
#define RUNG_ATTACH_H

#include "share/share.h"
#include "store/structure.h"

/* ---- attach_check.c ---- */

/** Check the head of the message, and that the message is complete. Magic and version come first:
 * only they are at the same place in every version. */
int rung__attach_check_answer(const char *path, const struct rung__answer *answer);

/** Check all numbers of the offer but those of the structure. */
int rung__attach_check_offer(const char *path, const struct rung__offer *offer);

/** The part of a shape that is invalid; NULL: it is valid. */
const char *rung__attach_bad_shape(const struct rung__shape *shape);

/** A file that the creator has opened. */
struct rung__offered_file {
	const char *name, *folder; /* for messages */
	uint64_t device, inode, bytes;
};

/** Check that a descriptor is the file that the creator opened, and has its size. The path is not
 * used: another dataset may have replaced it since. */
int rung__attach_check_file(const char *path, const struct rung__offered_file *file, int fd);

/** The same for all features files. */
int rung__attach_check_files(const char *path, const struct rung__answer *answer);

/** Check every entry of a map. One check is enough, because the memory is sealed. */
int rung__attach_check_map(const char *path, const char *what, const void *map, unsigned bytes,
                           uint64_t vertex_count);

/** The descriptor of a kind, or the first one of the features files; NULL if the offer has none. */
int *rung__attach_fd(struct rung__answer *answer, enum rung__offer_fd which);

/* ---- attach_structure.c ---- */

/** Check and open the structure of an offer whose other parts were checked. @param structure_out
 * unchanged if the offer has none */
int rung__attach_structure(const char *path, const struct rung_store_opts *opts,
                           struct rung__answer *answer, struct rung__structure **structure_out);

#endif
