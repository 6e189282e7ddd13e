/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders with AVX-512 (F, BW and VL). */
#include "quant/quant.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define VECTOR       __attribute__((target("avx512f,avx512bw,avx512vl,avx2,f16c"), always_inline))
#define VECTOR_OUTER __attribute__((target("avx512f,avx512bw,avx512vl,avx2,f16c")))
#define NAME         rung__quant_avx512

typedef __m512 wide;

VECTOR static inline wide codes8(__m128i codes)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
}

/* The exponent of half precision has the next bit more, and a bias that is 8 larger. */
VECTOR static inline wide fp8(__m128i codes)
{
	const __m256i bytes = _mm256_cvtepu8_epi16(codes);

	return _mm512_cvtph_ps(_mm256_or_si256(
		_mm256_slli_epi16(_mm256_and_si256(bytes, _mm256_set1_epi16(0x80)), 8),
		_mm256_slli_epi16(_mm256_and_si256(bytes, _mm256_set1_epi16(0x7f)), 7)));
}

VECTOR static inline wide load(const float *from)
{
	return _mm512_loadu_ps(from);
}

VECTOR static inline wide splat(float value)
{
	return _mm512_set1_ps(value);
}

VECTOR static inline wide times(wide a, wide b)
{
	return _mm512_mul_ps(a, b);
}

VECTOR static inline void put(unsigned char *to, __m256i values, bool stream)
{
	if (stream)
		_mm256_stream_si256((__m256i *)(void *)to, values);
	else
		_mm256_storeu_si256((__m256i *)(void *)to, values);
}

/* without optimization the intrinsic for half precision is a macro that converts -1 to a mask */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
VECTOR static inline void store(enum rung_dtype dtype, unsigned char *to, wide values, bool stream)
{
	const __m512i bits = _mm512_castps_si512(values);

	if (dtype == RUNG_F32) {
		put(to, _mm512_castsi512_si256(bits), stream);
		put(to + 32, _mm512_extracti64x4_epi64(bits, 1), stream);
	} else if (dtype == RUNG_F16) {
		put(to, _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT), stream);
	} else {
		/* the upper half of each, to nearest even */
		const __m512i odd =
			_mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));

		put(to,
		    _mm512_cvtepi32_epi16(_mm512_srli_epi32(
			    _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)),
		                             odd),
			    16)),
		    stream);
	}
}

#pragma GCC diagnostic pop

#include "quant/vector_loop.h"

#else

rung__quant_decoder *rung__quant_avx512(const struct rung__quant *quant, enum rung_dtype dtype)
{
	(void)quant;
	(void)dtype;
	return NULL;
}

#endif
