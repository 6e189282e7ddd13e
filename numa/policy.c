/* SPDX-License-Identifier: Apache-2.0 */
/* What this process may do about the place of its memory: found out by a try, because what refuses it (seccomp) shows in no file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "rung/numa.h"
#include "rung_config.h"
#if RUNG_HAVE_NUMA
#include <numaif.h>
#endif

#if RUNG_HAVE_NUMA
#define WORD_BITS (8 * sizeof(unsigned long))

/* Preferred, not bound: touching a page bound to a node that is full would have us killed. */
static void try_page(unsigned char *page, uint32_t node, struct rung_numa_policy *policy)
{
	unsigned long mask[RUNG_NODES_MAX / WORD_BITS] = { 0 };
	void *pages[] = { page };
	int where = -1;

	mask[node / WORD_BITS] = 1ul << (node % WORD_BITS);
	policy->can_bind = mbind(page, RUNG__PAGE_BYTES, MPOL_PREFERRED, mask, RUNG_NODES_MAX + 1, 0) == 0;   /* it takes one bit off */
	if (!policy->can_bind)
		snprintf(policy->bind_why, sizeof(policy->bind_why), "mbind: %s", strerror(errno));
	*(volatile unsigned char *)page = 1;   /* now it lies somewhere */
	policy->can_look = move_pages(0, 1, pages, NULL, &where, 0) == 0;   /* moves nothing: tells */
	if (!policy->can_look)
		snprintf(policy->look_why, sizeof(policy->look_why), "move_pages: %s", strerror(errno));
	else if (where < 0)
		snprintf(policy->look_why, sizeof(policy->look_why), "move_pages: %s for the page", strerror(-where));
	policy->can_look = policy->look_why[0] == 0;
	if (policy->can_bind && policy->can_look && where != (int)node) {
		snprintf(policy->bind_why, sizeof(policy->bind_why), "mbind: a page for node %" PRIu32 " came to lie on node %d", node, where);
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
