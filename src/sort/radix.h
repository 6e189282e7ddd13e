/* SPDX-License-Identifier: Apache-2.0 */
/** Radix sorts of keys, with a payload or alone. Private to the core. */
#ifndef RUNG_RADIX_H
#define RUNG_RADIX_H

#include <stdint.h>

#define RUNG__RADIX_BITS 11u
#define RUNG__RADIX_SIZE (1u << RUNG__RADIX_BITS)

/**
 * Sort pairs by ascending key, stable, on the calling thread, without allocating. Only the low
 * `key_bits` bits of the keys are compared (1 to 64; higher bits must be zero or are ignored). The
 * result is in `keys` and `payload`; the two _tmp arrays have the same length and are overwritten.
 * `count` is at most UINT32_MAX.
 */
void rung__radix_sort_pairs(uint64_t *keys, uint32_t *payload, uint64_t *keys_tmp,
                            uint32_t *payload_tmp, uint64_t count, unsigned key_bits);

/** The same for keys alone. The result is in *keys, which may have been exchanged with
 * *keys_tmp. */
void rung__radix_sort_keys(uint64_t **keys, uint64_t **keys_tmp, uint64_t count, unsigned key_bits);

#endif
