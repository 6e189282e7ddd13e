/* SPDX-License-Identifier: Apache-2.0 */
/* The host tier: the hottest rows in memory, one after the other as in the file. */
#include "tier/load.h"
#include "tier/tier.h"

struct rung__tier {
	struct rung__view view;
};

static int load_rows(const struct rung__features *features, uint64_t first, uint64_t rows, unsigned char *to)
{
	struct rung__row_loader loader;
	int rc = rung__row_loader_open(features, &loader);

	if (rc < 0)
		return rc;
	rc = rung__row_loader_rows(&loader, first, rows, to);
	rung__row_loader_close(&loader);
	return rc;
}

static void host_close(struct rung__tier *tier)
{
	rung__free(tier);
}

static int host_open(const struct rung__tier_args *args, struct rung__tier **tier_out)
{
	struct rung__tier *tier = rung__zalloc(sizeof(*tier));
	int rc = 0;

	if (!tier)
		return rung__fail(RUNG_E_NOMEM, "host tier: out of memory");
	if (!args->loaded)
		rc = load_rows(args->features, args->rank_first, args->row_count, args->memory);
	if (rc < 0) {
		host_close(tier);
		return rc;
	}
	tier->view = (struct rung__view){ args->memory, (size_t)args->features->layout.row_stride, args->rank_first, args->row_count };
	*tier_out = tier;
	return 0;
}

static void host_view(const struct rung__tier *tier, struct rung__view *view_out)
{
	*view_out = tier->view;
}

const struct rung__tier_ops rung__host_tier = {
	.abi = RUNG__TIER_ABI,
	.size = sizeof(struct rung__tier_ops),
	.name = "host",
	.kind = RUNG__ADDRESSABLE,
	.open = host_open,
	.close = host_close,
	.view = host_view,
};
