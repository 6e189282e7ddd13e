/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying rows in blocks, with streaming stores where these are faster.
 *
 * A streaming store does not read the line that it overwrites, and leaves the caches to other data.
 * It is faster for outputs that are too large for the caches. Streaming stores are not ordered with
 * later stores: rung__copy_fence() must come between them and the store that publishes the row.
 */
#ifndef RUNG_COPY_H
#define RUNG_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#define RUNG__HAVE_STREAM 1
#include <immintrin.h>
#else
#define RUNG__HAVE_STREAM 0
#endif

#define RUNG__STREAM_BYTES (8u << 20) /* one core's share of the caches */
#define RUNG__STREAM_ALIGN 32u        /* alignment of the destination of streamed rows */
/* bytes copied in one step; with fewer than two lines in flight copies are slower */
#define RUNG__COPY_BLOCK 128u

/**
 * Whether rows of this total size, one every `stride` bytes, should be written with streaming
 * stores: yes if they exceed one core's share of the caches and are suitably aligned.
 */
static inline bool rung__streams(const void *to, size_t stride, uint64_t bytes)
{
#if RUNG__HAVE_STREAM
	return bytes > RUNG__STREAM_BYTES && ((uintptr_t)to | stride) % RUNG__STREAM_ALIGN == 0 &&
	       __builtin_cpu_supports("avx");
#else
	(void)to;
	(void)stride;
	(void)bytes;
	return false;
#endif
}

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
