/* SPDX-License-Identifier: Apache-2.0 */
/* What this process may do about the place of its memory: found out by a try, because what refuses it (seccomp) shows in no file. */
#include <stdio.h>
#include <string.h>

#include "place/place.h"
#include "rung/numa.h"
#include "rung_config.h"

#if RUNG_HAVE_NUMA
static void try_page(unsigned char *page, uint32_t node, struct rung_numa_policy *policy)
{
	int err = rung__place_on_node(page, RUNG__PAGE_BYTES, node);
	double share;

	policy->can_bind = err == 0;
	if (err)
		snprintf(policy->bind_why, sizeof(policy->bind_why), "mbind: %s", strerror(err));
	*(volatile unsigned char *)page = 1;   /* now it lies somewhere */
	share = rung__placed_share(page, RUNG__PAGE_BYTES, node, &err);
	policy->can_look = err == 0;
	if (err)
		snprintf(policy->look_why, sizeof(policy->look_why), "move_pages: %s", strerror(err));
	if (policy->can_bind && policy->can_look && share < 1) {
		snprintf(policy->bind_why, sizeof(policy->bind_why), "mbind: a page for node %" PRIu32 " came to lie on another", node);
		policy->can_bind = 0;
	}
}

static int try_node(uint32_t node, struct rung_numa_policy *policy)
{
	unsigned char *page = rung__map_pages(RUNG__PAGE_BYTES);

	if (!page)
		return rung__fail(RUNG_E_NOMEM, "rung_numa_try: no memory for a page");
	try_page(page, node, policy);
	rung__unmap_pages(page, RUNG__PAGE_BYTES);
	return 0;
}
#else
static int try_node(uint32_t node, struct rung_numa_policy *policy)
{
	(void)node;
	snprintf(policy->bind_why, sizeof(policy->bind_why), "rung was built without libnuma: %s", RUNG_WHY_NUMA);
	memcpy(policy->look_why, policy->bind_why, sizeof(policy->look_why));
	return 0;
}
#endif

int rung_numa_try(uint32_t node, struct rung_numa_policy *policy_out)
{
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	int rc;

	if (node >= RUNG_NODES_MAX)
		return rung__fail(RUNG_E_INVAL, "rung_numa_try: node %" PRIu32 " is none: give one below %d", node, RUNG_NODES_MAX);
	rc = try_node(node, &policy);
	return rc < 0 ? rc : rung__opts_give(policy_out, &policy, sizeof(policy), "rung_numa_policy");
}
