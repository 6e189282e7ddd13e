/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The statistics page of a store: its counters, in a small file of shared memory that other
 * processes can read while the store runs. Private to rung; docs/WATCH.md describes it for users.
 *
 * The counters are counted in the page itself, so watching a store costs it nothing: a reader maps
 * or copies the file. Without a page (switched off, no folder) the same struct is private memory,
 * and the store works as with one.
 *
 * The file is PID-N in a folder that only the user can enter, on a file system in memory: memory of
 * a disk's file can block the thread that writes to it. Its pages are allocated when the file is
 * created, because a full file system would otherwise end the process when a counter is written.
 *
 * The file is removed by rung__watch_close(), or at the exit of a process that has not closed its
 * store. A process that is killed, or calls execve(), leaves its file. The next process that opens
 * a store, or reads the pages of others, removes it: the lock on the file is free. Children of
 * fork() inherit the lock, so pid and start time are compared, too, in the same pid namespace.
 *
 * Trust. The owner of the page never reads from it what it depends on: only counters, for
 * statistics. A reader copies the file, checks every number that it uses as a size or an index, and
 * ends every text.
 */
#ifndef RUNG_WATCH_H
#define RUNG_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"
#include "rung/dataset.h"
#include "rung/stats.h"

#define RUNG__WATCH_MAGIC   "rungwch" /* 8 bytes, including the NUL */
#define RUNG__WATCH_VERSION 1u        /* of struct rung__watch_page, all of it */

#define RUNG__WATCH_NAME_BYTES 16u
#define RUNG__WATCH_PATH_BYTES 1024u

/** As in struct rung_store_stats. Any thread adds to them, relaxed. */
struct rung__counters {
	_Atomic uint64_t tier_hits[RUNG_TIERS_MAX]; /* by enum rung__tier_id */
	_Atomic uint64_t requests, request_errors;
	/* number of requests by latency, in buckets of microseconds */
	_Atomic uint64_t latency[RUNG_LATENCY_BUCKETS];
	_Atomic uint64_t host_waits, scatters;
};

/** As in struct rung_store_stats. Written by one refill thread alone, so adding needs no locked
 * instruction. */
struct rung__refill_counters {
	_Atomic uint64_t device_reads, device_read_bytes, merged_rows, retries;
	/* each requested cold row is counted in exactly one of the first five */
	_Atomic uint64_t cache_hits, joined_rows, read_rows, duplicate_rows, failed_rows, late_rows;
	_Atomic uint64_t read_ns, reads_in_flight;
	_Atomic uint64_t phases[RUNG_READ_PHASE_COUNT][RUNG_LATENCY_BUCKETS];
	_Atomic uint64_t ahead_rows, window_batches;
};

/** The awaited work of a caller that is blocked. */
enum rung__wait { RUNG__WAIT_ROWS, RUNG__WAIT_SAMPLE, RUNG__WAIT_COUNT };

/** Time in which at least one thread was blocked. `seq` is odd while the rest changes. */
struct rung__watch_waits {
	_Atomic uint64_t seq;
	_Atomic uint64_t ns[RUNG__WAIT_COUNT];       /* of the waits that have ended */
	_Atomic uint64_t since_ns[RUNG__WAIT_COUNT]; /* begin of the current one; 0: none */
};

/** The page. Native byte order, no pointers; a change needs a new RUNG__WATCH_VERSION. */
struct rung__watch_page {
	char magic[8];
	uint32_t version;
	uint32_t bytes; /* sizeof(struct rung__watch_page) */
	uint32_t pid;
	uint32_t owner_pid;       /* attached: process that created the store; else 0 */
	uint64_t start_time;      /* of the process, in clock ticks since boot */
	uint64_t pid_space;       /* inode of the pid namespace; 0: unknown */
	_Atomic uint32_t is_open; /* 1: the members below are final; release store, acquire load */
	uint32_t is_lists;        /* 1: rows are blocks of neighbour lists */
	uint32_t is_attached;
	uint32_t file_count; /* refill threads: one or more per features file */
	uint64_t opened_s;   /* seconds since 1970 */
	uint64_t row_bytes;
	uint64_t cache_rows;
	uint64_t queue_depth; /* most reads in flight, of all files */
	struct {
		uint64_t rows;
		char name[RUNG__WATCH_NAME_BYTES]; /* "": the store has no such tier */
	} tiers[RUNG_TIERS_MAX];                   /* by enum rung__tier_id */
	char engine[RUNG__WATCH_NAME_BYTES];
	char dataset[RUNG__WATCH_PATH_BYTES]; /* folder; cut if longer */
	_Alignas(64) struct rung__watch_waits waits;
	_Alignas(64) struct rung__counters counters;
	struct {
		_Alignas(64) struct rung__refill_counters counters;
	} files[RUNG_FEATURE_FILES_MAX];
};

/* docs/WATCH.md has these numbers */
_Static_assert(sizeof(struct rung__watch_page) == 103936 &&
                       offsetof(struct rung__watch_page, waits) == 1344 &&
                       offsetof(struct rung__watch_page, counters) == 1408 &&
                       offsetof(struct rung__watch_page, files) == 3584,
               "a new layout needs a new RUNG__WATCH_VERSION");

/** A store's end of its page. */
struct rung__watch {
	struct rung__watch_page *page;      /* shared or private memory, never NULL */
	char *path;                         /* NULL: private */
	int lock_fd;                        /* of the file; its lock ends with the process */
	pid_t pid;                          /* the process that created it, not a forked child */
	bool listed;                        /* among the pages that are removed at exit */
	char why[256];                      /* why it is private; "" if it is not */
	pthread_mutex_t lock;               /* guards the writes to page->waits, and `waiting` */
	uint32_t waiting[RUNG__WAIT_COUNT]; /* blocked threads */
};

/* ---- watch_page.c ---- */

/**
 * Create the page of a store that is being opened. A folder that cannot be used is not a failure.
 * @return 0 or RUNG_E_NOMEM
 */
int rung__watch_open(struct rung__watch **watch_out);

/** Remove the page. NULL is allowed. */
void rung__watch_close(struct rung__watch *watch);

/** The store is open, and `page` has its properties: readers may show it. */
void rung__watch_publish(struct rung__watch *watch);

/** Copy a text to the page, cut if it is longer. */
void rung__watch_text(char *to, size_t room, const char *text);

/** A caller begins and ends to be blocked. Neither makes a system call, unless threads meet. */
void rung__watch_wait_begin(struct rung__watch *watch, enum rung__wait kind);
void rung__watch_wait_end(struct rung__watch *watch, enum rung__wait kind);

/** Add the counters of a page, except those of tiers, to zeroed statistics. Any thread. */
void rung__watch_sum(const struct rung__watch_page *page, uint32_t file_count, uint64_t now_ns,
                     struct rung_store_stats *stats);

/* ---- watch_folder.c ---- */

#define RUNG__WATCH_FOLDERS 3u

/** Folder `i` in which pages may be, in order of preference. @return false: the
 * variable that names it is not set, or its parent belongs to another user */
bool rung__watch_folder(unsigned i, char path[RUNG__WATCH_PATH_BYTES]);

/** Open a folder, and create it if `create` is set. @return a descriptor, or -1 with the reason:
 * it cannot be created, others can enter it, or it is not in memory */
int rung__watch_folder_open(const char *path, bool create, char *why, size_t why_bytes);

/** Call `each` for the pages in an open folder. Files of dead processes are removed. `fd` is an
 * open page. */
void rung__watch_folder_each(int dir_fd, void (*each)(void *ctx, int fd, uint32_t number),
                             void *ctx);

#define RUNG__WATCH_TIME_UNKNOWN UINT64_MAX /* /proc cannot be read */

/** The start time of a process, in clock ticks since boot; 0: it has ended. */
uint64_t rung__watch_start_time(uint32_t pid);

/** The pid namespace of this process; 0: unknown. */
uint64_t rung__watch_pid_space(void);

/* ---- watch_read.c ---- */

/** A store as another process sees it. */
struct rung__watch_view {
	uint32_t pid, owner_pid, number; /* number: of the page, among those of its process */
	bool is_lists, is_attached;
	uint64_t opened_s, now_ns; /* now_ns: when it was read */
	uint64_t row_bytes, queue_depth;
	struct rung_store_stats stats; /* its texts are those below */
	char tier_names[RUNG_TIERS_MAX][RUNG__WATCH_NAME_BYTES];
	char engine[RUNG__WATCH_NAME_BYTES];
	char dataset[RUNG__WATCH_PATH_BYTES];
	char command[64]; /* name and first argument of the process */
};

/**
 * Read the pages of running processes of this user, by pid and number, at most 256. Invalid ones
 * are left out.
 * @param views_out  free it with rung__free()
 * @return 0 or RUNG_E_NOMEM
 */
int rung__watch_read(struct rung__watch_view **views_out, size_t *count_out);

#endif
