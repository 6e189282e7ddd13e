/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying rows in blocks, past the caches where that pays.
 *
 * A store that streams does not first read the line it will overwrite, and leaves the caches to
 * those who need them. It pays for outputs that would not stay in them anyway. Streamed stores are
 * not ordered with those behind them: rung__copy_fence() stands between them and whatever tells
 * others that the row is there.
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

#define RUNG__STREAM_BYTES (8u << 20)
#define RUNG__STREAM_ALIGN 32u /* of where streamed rows go */
/* bytes moved in one step: fewer than two lines in flight are slower */
#define RUNG__COPY_BLOCK 128u

/**
 * Should so many bytes of rows go past the caches to here, one row every `stride` bytes? Yes when
 * they are more than a core's own share of the caches, and lie so that they can.
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

/** Only where rung__streams() says so, `to` is one of its rows. */
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
 * Copy a row while `later`, as many bytes that will be copied soon, are asked for, block by block,
 * into the cache of the second level.
 * @param stream  past the caches: as rung__copy_streamed()
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

static inline void rung__copy_fence(void)
{
#if RUNG__HAVE_STREAM
	_mm_sfence();
#endif
}

#endif
