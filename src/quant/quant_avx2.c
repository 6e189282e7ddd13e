/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders with AVX2 and F16C. */
#include "quant/quant.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define VECTOR       __attribute__((target("avx2,f16c"), always_inline))
#define VECTOR_OUTER __attribute__((target("avx2,f16c")))
#define NAME         rung__quant_avx2

struct wide {
	__m256 low, high;
};
typedef struct wide wide;

VECTOR static inline wide codes8(__m128i codes)
{
	return (wide){ _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
		       _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8))) };
}

/* The exponent of half precision has the next bit more, and a bias that is 8 larger. */
VECTOR static inline wide fp8(__m128i codes)
{
	const __m256i bytes = _mm256_cvtepu8_epi16(codes);
	const __m256i halves = _mm256_or_si256(
		_mm256_slli_epi16(_mm256_and_si256(bytes, _mm256_set1_epi16(0x80)), 8),
		_mm256_slli_epi16(_mm256_and_si256(bytes, _mm256_set1_epi16(0x7f)), 7));

	return (wide){ _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
		       _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)) };
}

VECTOR static inline wide load(const float *from)
{
	return (wide){ _mm256_loadu_ps(from), _mm256_loadu_ps(from + 8) };
}

VECTOR static inline wide splat(float value)
{
	return (wide){ _mm256_set1_ps(value), _mm256_set1_ps(value) };
}

VECTOR static inline wide times(wide a, wide b)
{
	return (wide){ _mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high) };
}

VECTOR static inline void put(unsigned char *to, __m256i values, bool stream)
{
	if (stream)
		_mm256_stream_si256((__m256i *)(void *)to, values);
	else
		_mm256_storeu_si256((__m256i *)(void *)to, values);
}

/* float32 to the upper half of each, to nearest even */
VECTOR static inline __m256i upper_half(__m256 values)
{
	const __m256i bits = _mm256_castps_si256(values);
	const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

	return _mm256_srli_epi32(
		_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
}

VECTOR static inline void store(enum rung_dtype dtype, unsigned char *to, wide values, bool stream)
{
	if (dtype == RUNG_F32) {
		put(to, _mm256_castps_si256(values.low), stream);
		put(to + 32, _mm256_castps_si256(values.high), stream);
	} else if (dtype == RUNG_F16) {
		put(to,
		    _mm256_set_m128i(_mm256_cvtps_ph(values.high, _MM_FROUND_TO_NEAREST_INT),
		                     _mm256_cvtps_ph(values.low, _MM_FROUND_TO_NEAREST_INT)),
		    stream);
	} else {
		/* packing works within halves of 16 bytes; the permutation restores the order */
		put(to,
		    _mm256_permute4x64_epi64(
			    _mm256_packus_epi32(upper_half(values.low), upper_half(values.high)),
			    _MM_SHUFFLE(3, 1, 2, 0)),
		    stream);
	}
}

#include "quant/vector_loop.h"

#else

rung__quant_decoder *rung__quant_avx2(const struct rung__quant *quant, enum rung_dtype dtype)
{
	(void)quant;
	(void)dtype;
	return NULL;
}

#endif
