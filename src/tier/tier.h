/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The list of tiers, fastest first: X(enumerator, name). The enumeration and all tables of names
 * are generated from it.
 *
 * The gather copies from "gpu", "peer" and "host" through views; these tiers are loaded by load.h
 * or, for the memory of a device, by the device (device.h). Rows of "nvme" are read by a reader
 * (reader.h).
 */
#ifndef RUNG_TIER_H
#define RUNG_TIER_H

#include <stdbool.h>

#define RUNG__TIER_LIST(X)                                                                         \
	X(RUNG__TIER_GPU, "gpu")                                                                   \
	X(RUNG__TIER_PEER, "peer")                                                                 \
	X(RUNG__TIER_HOST, "host")                                                                 \
	X(RUNG__TIER_NVME, "nvme")

enum rung__tier_id {
#define RUNG__TIER_ENUM(id, name) id,
	RUNG__TIER_LIST(RUNG__TIER_ENUM)
#undef RUNG__TIER_ENUM
		RUNG__TIER_COUNT
};

/** The first tier that can exist: without a GPU only the tiers of the host can. */
static inline unsigned rung__first_tier(bool gpu)
{
	return gpu ? RUNG__TIER_GPU : RUNG__TIER_HOST;
}

#endif
