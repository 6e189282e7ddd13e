/* SPDX-License-Identifier: Apache-2.0 */
/* The tiers there are, fastest first: X(enumerator, table of functions, name). The one list: all else is made from it. */
#ifndef RUNG_TIER_LIST_H
#define RUNG_TIER_LIST_H

#include "tier.h"

#define RUNG__TIER_LIST(X)                     \
	X(RUNG__TIER_HOST, rung__host_tier, "host") \
	X(RUNG__TIER_NVME, rung__nvme_tier, "nvme")

enum rung__tier_id {
#define RUNG__TIER_ENUM(id, ops, name) id,
	RUNG__TIER_LIST(RUNG__TIER_ENUM)
#undef RUNG__TIER_ENUM
	RUNG__TIER_COUNT
};

#define RUNG__TIER_DECLARE(id, ops, name) extern const struct rung__tier_ops ops;
RUNG__TIER_LIST(RUNG__TIER_DECLARE)
#undef RUNG__TIER_DECLARE

#endif
