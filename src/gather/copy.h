/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying rows in blocks, with streaming stores where these are faster.
 *
 * A streaming store does not read the line that it overwrites, and leaves the caches to other data.
 * It is faster for outputs that are too large for the caches. Streaming stores are not ordered with
 * later stores: rung__copy_fence() must come between them and the store that publishes the row.
 *
 * The caches of the machine decide: rung__copy_choose(). They are read when a store is opened, so
 * that gathers call nothing of the system.
 */
#ifndef RUNG_COPY_H
#define RUNG_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

#if defined(__x86_64__)
#define RUNG__HAVE_STREAM 1
#include <immintrin.h>
#else
#define RUNG__HAVE_STREAM 0
#endif

#define RUNG__STREAM_ALIGN 32u /* alignment of the destination of streamed rows */
/* bytes copied in one step; with fewer than two lines in flight copies are slower */
#define RUNG__COPY_BLOCK 128u

/* ---- the choice ---- */

/** Caches that a core can use. */
struct rung__caches {
	uint64_t second_bytes; /* the core's own second-level cache */
	uint64_t last_bytes;   /* the third or a later level */
	uint32_t last_cores;   /* cores that share it, at least 1 */
};

/** The caches of this machine: of an ordinary server until rung__caches_find(). */
extern struct rung__caches rung__caches;

/** Set rung__caches, once per process. A machine that does not report a cache keeps its default.
 * Threads: any. */
void rung__caches_find(void);

/**
 * The caches of the first CPU that the process may use. Values that the kernel does not report stay
 * as they are.
 * @param root  "" or the folder of a recorded machine
 * @return 0 or a failure
 */
int rung__caches_read(const char *root, struct rung__caches *caches);

/** How rows are copied. */
struct rung__copy_choice {
	bool streams;        /* with streaming stores */
	uint32_t ahead_rows; /* distance to the row that is prefetched while one is copied */
};

/*
 * Batches whose outputs and rows must fit into the caches of a core: a loader has two in flight and
 * one in use. Measured on 32 MiB that two cores share, with rows of 512 bytes and outputs that are
 * read two gathers later: ordinary stores are 1.5 to 2 times as fast for outputs up to 1 MiB, both
 * are alike at 2 MiB, and streaming stores are up to 1.3 times as fast from 4 MiB. The gather alone
 * is faster with streaming stores from 1 MiB.
 */
#define RUNG__BATCHES 3u
/* The prefetched rows use a small part of the second-level cache, whose lines are replaced by the
 * output, too. Distances of 4 to 32 KiB perform alike on 512 KiB. */
#define RUNG__AHEAD_SHARE     64u
#define RUNG__AHEAD_BYTES_MIN 4096u /* hides the latency of memory: 150 ns at 25 GB/s */
#define RUNG__AHEAD_BYTES_MAX 32768u
#define RUNG__AHEAD_ROWS_MAX  32u

/**
 * Choose how to copy rows into an output. If batches fit into the second-level cache and one core's
 * share of the last level, an output is still there when it is read, and when it is written again.
 * The other shares belong to other threads that gather and to the program that uses the rows.
 * @param out_bytes    size of the output
 * @param table_bytes  size of the memory from which the rows are copied; the output's rows are at
 *                     most as many different bytes
 */
static inline struct rung__copy_choice rung__copy_choose(const struct rung__caches *caches,
                                                         uint64_t out_bytes, uint64_t table_bytes,
                                                         uint64_t row_bytes)
{
	const uint64_t share = caches->last_bytes / RUNG__MAX(caches->last_cores, 1u);
	const uint64_t room = (caches->second_bytes + share) / RUNG__BATCHES;
	const uint64_t read_bytes = RUNG__MIN(out_bytes, table_bytes);
	const uint64_t ahead_bytes = RUNG__MAX(
		RUNG__MIN(caches->second_bytes / RUNG__AHEAD_SHARE, RUNG__AHEAD_BYTES_MAX),
		RUNG__AHEAD_BYTES_MIN);
	const uint64_t ahead_rows = ahead_bytes / RUNG__MAX(row_bytes, 1u);

	return (struct rung__copy_choice){
		.streams = out_bytes > room || read_bytes > room - out_bytes,
		.ahead_rows = (uint32_t)RUNG__MAX(RUNG__MIN(ahead_rows, RUNG__AHEAD_ROWS_MAX), 1u),
	};
}

/** Whether streaming stores can write rows of one every `stride` bytes. */
static inline bool rung__can_stream(const void *to, size_t stride)
{
#if RUNG__HAVE_STREAM
	return ((uintptr_t)to | stride) % RUNG__STREAM_ALIGN == 0 && __builtin_cpu_supports("avx");
#else
	(void)to;
	(void)stride;
	return false;
#endif
}

/**
 * Whether rows of this total size, one every `stride` bytes, should be written with streaming
 * stores: yes if they do not fit into the caches, together with as many bytes that are read, and
 * are suitably aligned.
 */
static inline bool rung__streams(const void *to, size_t stride, uint64_t bytes)
{
	return rung__copy_choose(&rung__caches, bytes, bytes, stride).streams &&
	       rung__can_stream(to, stride);
}

/* ---- the copy ---- */

#if RUNG__HAVE_STREAM
/* All loads come before the first store, so that both lines are in flight. */
__attribute__((target("avx"), always_inline)) static inline void rung__copy_block(
	bool stream, unsigned char *to, const unsigned char *from)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));
	__m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(from + 64));
	__m256i d = _mm256_loadu_si256((const __m256i *)(const void *)(from + 96));

	if (stream) {
		_mm256_stream_si256((__m256i *)(void *)to, a);
		_mm256_stream_si256((__m256i *)(void *)(to + 32), b);
		_mm256_stream_si256((__m256i *)(void *)(to + 64), c);
		_mm256_stream_si256((__m256i *)(void *)(to + 96), d);
	} else {
		_mm256_storeu_si256((__m256i *)(void *)to, a);
		_mm256_storeu_si256((__m256i *)(void *)(to + 32), b);
		_mm256_storeu_si256((__m256i *)(void *)(to + 64), c);
		_mm256_storeu_si256((__m256i *)(void *)(to + 96), d);
	}
}

/** Copy a row with streaming stores. Call it only if rung__streams() returned true for the rows
 * that include `to`; the last partial block is copied with memcpy(). */
__attribute__((target("avx"))) static inline void rung__copy_streamed(unsigned char *to,
                                                                      const unsigned char *from,
                                                                      size_t bytes)
{
	size_t at = 0;

	for (; at + RUNG__COPY_BLOCK <= bytes; at += RUNG__COPY_BLOCK)
		rung__copy_block(true, to + at, from + at);
	if (at < bytes)
		memcpy(to + at, from + at, bytes - at);
}

/**
 * Copy a row, block by block, and prefetch the same number of bytes at `later`, which will be
 * copied soon, into the second-level cache.
 * @param stream  use streaming stores, as rung__copy_streamed()
 */
__attribute__((target("avx"))) static inline void rung__copy_ahead(bool stream, unsigned char *to,
                                                                   const unsigned char *from,
                                                                   size_t bytes,
                                                                   const unsigned char *later)
{
	size_t at = 0;

	for (; at + RUNG__COPY_BLOCK <= bytes; at += RUNG__COPY_BLOCK) {
		_mm_prefetch((const char *)later + at, _MM_HINT_T1);
		_mm_prefetch((const char *)later + at + RUNG__COPY_BLOCK / 2, _MM_HINT_T1);
		rung__copy_block(stream, to + at, from + at);
	}
	if (at < bytes) {
		_mm_prefetch((const char *)later + at, _MM_HINT_T1);
		_mm_prefetch((const char *)later + bytes - 1, _MM_HINT_T1);
		memcpy(to + at, from + at, bytes - at);
	}
}
#endif

/** Order earlier streaming stores before later stores of any kind. */
static inline void rung__copy_fence(void)
{
#if RUNG__HAVE_STREAM
	_mm_sfence();
#endif
}

#endif
