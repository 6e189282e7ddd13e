/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Small files of /sys and /proc below a root, which tests set. Each file has one value, list or
 * link. Their content is not trusted: a file that is missing, or that the kernel does not let us
 * read, is absent; an invalid value is an error that names file and value. Only one thread at a
 * time may use a `sys`, because all calls on it share its path and its text.
 */
#ifndef RUNG_NUMA_SYSFS_H
#define RUNG_NUMA_SYSFS_H

#include <limits.h>

#include "base/base.h"
#include "rung/numa.h"

/* longest file; the lists of the largest machines have a few KiB */
#define RUNG__SYS_TEXT_BYTES 65536u
/* largest number of entries in a folder; the largest folder is that of all PCI devices */
#define RUNG__SYS_ENTRIES_MAX 65536u
#define RUNG__CPUS_MAX        65536u /* CPU numbers are below this */

/** Memory that is freed all at once, so that no error path has to free single lists. */
struct rung__arena {
	struct rung__arena_block *blocks;
};

/** Zeroed memory for `count` items, aligned for any type; NULL on failure. Zero items give a valid
 * pointer, so that an empty list differs from an unknown one. */
void *rung__arena_alloc(struct rung__arena *arena, uint64_t count, size_t item_bytes);
void rung__arena_free(struct rung__arena *arena);

struct rung__sys {
	const char *root;                /* "" or a folder */
	char home[PATH_MAX];             /* the root without links; "" for "/" */
	struct rung__arena *arena;       /* memory of all returned texts and lists */
	char path[PATH_MAX];             /* path of the last requested file, including the root */
	char text[RUNG__SYS_TEXT_BYTES]; /* content of that file, without the last line end */
};

/**
 * Set up `sys`, which must be all zero.
 * @param root  must stay valid as long as `sys` is used
 * @return 0 or RUNG_E_NOENT: no such folder
 */
int rung__sys_begin(struct rung__sys *sys, const char *root, struct rung__arena *arena);

/** Read a file into sys->text. The path is built as by printf, without a leading slash.
 * @return 1, 0 when the file is absent, or a failure */
int rung__sys_read(struct rung__sys *sys, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * Fail with "PATH: 'VALUE' is not WHAT". The value is shortened, and bytes that a terminal could
 * interpret are replaced.
 * @return RUNG_E_FORMAT
 */
int rung__sys_bad(const struct rung__sys *sys, const char *value, const char *what);

/* Reading files of one value. These functions return as rung__sys_read() does, and write nothing
 * when the file is absent. */

/** A number in base 10 or 16 (with or without "0x"), not above `most`. */
int rung__sys_number(struct rung__sys *sys, unsigned base, uint64_t most, uint64_t *number_out,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/** Printable text without leading and trailing blanks, in the arena; NULL for an empty file. */
int rung__sys_text(struct rung__sys *sys, const char **text_out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Numbers below `limit` as the kernel lists them: "0-3,8". */
int rung__sys_ids(struct rung__sys *sys, uint32_t limit, struct rung_id_list *list_out,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/** Last part of a link's target, in the arena. */
int rung__sys_link(struct rung__sys *sys, const char **name_out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** The path with all links resolved, from "sys/" on, in the arena. A path that leads out of the
 * root's sys/ is an error, and so is a loop of links. */
int rung__sys_location(struct rung__sys *sys, const char **place_out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * Names in a folder for which `wanted` is true, in natural order (nvme2 before nvme10), in the
 * arena. An absent folder counts as empty.
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
 * Find "KEY VALUE" in a file of several lines, such as meminfo, that rung__sys_read() has read
 * into sys->text. A key must be at the start of a line or follow a blank; the first such `key` is
 * used. The value is the rest of its line.
 * @param value_out  in the arena; NULL if the key has no value
 * @return 1, 0 if the key does not occur, or RUNG_E_NOMEM
 */
int rung__sys_field(struct rung__sys *sys, const char *key, const char **value_out);

/** The same for a value that is a list of numbers. @return also RUNG_E_FORMAT */
int rung__sys_field_ids(struct rung__sys *sys, const char *key, uint32_t limit,
                        struct rung_id_list *list_out);

/** A data cache of a CPU. bytes 0: the kernel does not report it. */
struct rung__sys_cache {
	uint64_t level, bytes;
	struct rung_id_list cpus; /* CPUs that share it */
};

/** The second-level cache of a CPU, and its cache of the highest level.
 * @return 0 or a failure */
int rung__sys_caches(struct rung__sys *sys, uint32_t cpu, struct rung__sys_cache *second_out,
                     struct rung__sys_cache *last_out);

/** A number that consists only of digits in base 10 or 16 and is followed by `end`. */
bool rung__number_of_text(const char *text, unsigned base, uint64_t most, const char *end,
                          uint64_t *number_out);

/**
 * Numbers below `limit` in the kernel's list format, ascending. "" and "\n" are empty lists.
 * @param ids  array of the length that a first call returned, or NULL to count
 */
bool rung__ids_of_text(const char *text, uint32_t limit, uint32_t *ids, uint32_t *count_out);

/** Whether the list is known and contains `id`. */
bool rung__ids_have(const struct rung_id_list *list, uint32_t id);

/** Ids in both lists, or in `a` and not in `b`; unknown when either list is unknown.
 * @return 0 or RUNG_E_NOMEM */
int rung__ids_both(struct rung__arena *arena, const struct rung_id_list *a,
                   const struct rung_id_list *b, struct rung_id_list *list_out);
int rung__ids_without(struct rung__arena *arena, const struct rung_id_list *a,
                      const struct rung_id_list *b, struct rung_id_list *list_out);

#endif
