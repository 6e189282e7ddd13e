/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Small files of /sys and /proc below a root, which tests set: one value, list or link each. Their
 * content is not trusted: a file that is missing, or that the kernel does not let us read, is
 * absent; an invalid value is an error that names file and value.
 */
#ifndef RUNG_NUMA_SYSFS_H
#define RUNG_NUMA_SYSFS_H

#include <limits.h>

#include "base/base.h"
#include "rung/numa.h"

#define RUNG__SYS_TEXT_BYTES  65536u /* longest file; lists of the largest machines take some KiB */
#define RUNG__SYS_ENTRIES_MAX 65536u /* of a folder; the devices on PCI are the most */
#define RUNG__CPUS_MAX        65536u

/** Memory that is freed all at once. */
struct rung__arena {
	struct rung__arena_block *blocks;
};

/** Zeroed memory for `count` items; NULL on failure. */
void *rung__arena_alloc(struct rung__arena *arena, uint64_t count, size_t item_bytes);
void rung__arena_free(struct rung__arena *arena);

struct rung__sys {
	const char *root;                /* "" or a folder */
	char home[PATH_MAX];             /* the root without links; "" for "/" */
	struct rung__arena *arena;       /* memory for everything that is read */
	char path[PATH_MAX];             /* last requested file, including the root */
	char text[RUNG__SYS_TEXT_BYTES]; /* its content, without the end of the line */
};

/** Set up; `sys` is all zero. @param root outlives it. @return 0 or RUNG_E_NOENT: no such folder */
int rung__sys_begin(struct rung__sys *sys, const char *root, struct rung__arena *arena);

/**
 * Read a file into sys->text; its path is made as by printf, without a slash in front.
 * @return 1, 0 when it is absent, or a failure
 */
int rung__sys_read(struct rung__sys *sys, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Fail with "PATH: 'VALUE' is not WHAT"; the value is shortened, and nothing in it that a terminal
 * would obey. */
int rung__sys_bad(const struct rung__sys *sys, const char *value, const char *what);

/* Files of one value. They return as rung__sys_read() does, and write nothing when the file is
 * absent. */

/** A number of base 10 or 16 ("0x" in front or not), at most `most`. */
int rung__sys_number(struct rung__sys *sys, unsigned base, uint64_t most, uint64_t *number_out,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/** Printable text without blanks around it, in the arena; NULL for an empty file. */
int rung__sys_text(struct rung__sys *sys, const char **text_out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Numbers below `limit` as the kernel lists them: "0-3,8". */
int rung__sys_ids(struct rung__sys *sys, uint32_t limit, struct rung_id_list *list_out,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/** Last part of what a link points at, in the arena. */
int rung__sys_link(struct rung__sys *sys, const char **name_out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * Where a path leads when all links are followed, from "sys/" on, in the arena. One that leads out
 * of the root's sys/ is an error, and so is a circle of links.
 */
int rung__sys_place(struct rung__sys *sys, const char **place_out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * Names in a folder for which `wanted` is true, in natural order (nvme2 before nvme10), in the
 * arena. An absent folder is an empty one.
 * @return 0 or a failure
 */
int rung__sys_names(struct rung__sys *sys, bool (*wanted)(const char *name),
                    const char *const **names_out, size_t *count_out, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/**
 * Entries PREFIX<number>SUFFIX of a folder: their numbers below `limit`, ascending. An absent
 * folder leaves the list as it is.
 * @return 0 or a failure
 */
int rung__sys_numbered(struct rung__sys *sys, const char *prefix, const char *suffix,
                       uint32_t limit, struct rung_id_list *list_out, const char *format, ...)
	__attribute__((format(printf, 6, 7)));

/**
 * "KEY VALUE" in a file of several lines, such as meminfo, in sys->text after rung__sys_read(): the
 * text from the first `key` that starts a line or follows a blank, up to the end of the line.
 * @param value_out  in the arena; NULL if the key has no value
 * @return 1, 0 if there is no such key, or RUNG_E_NOMEM
 */
int rung__sys_field(struct rung__sys *sys, const char *key, const char **value_out);

/** The same where the value is a list of numbers. @return also RUNG_E_FORMAT */
int rung__sys_field_ids(struct rung__sys *sys, const char *key, uint32_t limit,
                        struct rung_id_list *list_out);

/** A number that consists only of digits in base 10 or 16 and is followed by `end`. */
bool rung__number_of_text(const char *text, unsigned base, uint64_t most, const char *end,
                          uint64_t *number_out);

/**
 * Numbers below `limit` in the kernel's list format, ascending. "" and "\n" are empty lists.
 * @param ids  array of the length that a first call returned, or NULL to count
 */
bool rung__ids_of_text(const char *text, uint32_t limit, uint32_t *ids, uint32_t *count_out);

/** Nonzero when the list is known and `id` is in it. */
bool rung__ids_have(const struct rung_id_list *list, uint32_t id);

/** In both, or in `a` and not in `b`; unknown when either is. @return 0 or RUNG_E_NOMEM */
int rung__ids_both(struct rung__arena *arena, const struct rung_id_list *a,
                   const struct rung_id_list *b, struct rung_id_list *list_out);
int rung__ids_without(struct rung__arena *arena, const struct rung_id_list *a,
                      const struct rung_id_list *b, struct rung_id_list *list_out);

#endif
