/* SPDX-License-Identifier: Apache-2.0 */
/* The caches that decide how rows are copied (copy.h), read from sysfs once per process. */
#include <pthread.h>
#include <unistd.h>

#include "gather/copy.h"
#include "topology/sysfs.h"

struct rung__caches rung__caches = { .second_bytes = 512u << 10,
	                             .last_bytes = 32u << 20,
	                             .last_cores = 8 };

/* The first CPU that this process may use; 0 if the kernel does not report it. On a machine whose
 * cores have different caches the choice is right for some of its threads. */
static int first_cpu(struct rung__sys *sys, uint32_t *cpu_out)
{
	struct rung_id_list allowed = { 0 };
	int rc = rung__sys_read(sys, "proc/self/status");

	if (rc > 0)
		rc = rung__sys_field_ids(sys, "Cpus_allowed_list:", RUNG__CPUS_MAX, &allowed);
	*cpu_out = allowed.count > 0 ? allowed.ids[0] : 0;
	return rc;
}

static void set_last(struct rung__caches *caches, const struct rung__sys_cache *second,
                     const struct rung__sys_cache *last)
{
	caches->last_bytes = last->bytes;
	/* hardware threads of a core share its second level */
	if (last->cpus.count > 0)
		caches->last_cores =
			RUNG__MAX(last->cpus.count / RUNG__MAX(second->cpus.count, 1u), 1u);
}

int rung__caches_read(const char *root, struct rung__caches *caches)
{
	struct rung__arena arena = { NULL };
	struct rung__sys *sys = rung__zalloc(sizeof(*sys)); /* 72 KiB */
	struct rung__sys_cache second, last;
	uint32_t cpu;
	int rc;

	if (!sys)
		return rung__fail(RUNG_E_NOMEM, "caches: out of memory");
	rc = rung__sys_begin(sys, root, &arena);
	if (rc >= 0)
		rc = first_cpu(sys, &cpu);
	if (rc >= 0)
		rc = rung__sys_caches(sys, cpu, &second, &last);
	if (rc >= 0 && second.bytes > 0)
		caches->second_bytes = second.bytes;
	/* a hypervisor can hide the third level; what is left is too small to decide by */
	if (rc >= 0 && last.bytes > 0 && last.level > 2)
		set_last(caches, &second, &last);
	rung__arena_free(&arena);
	rung__free(sys);
	return rc < 0 ? rc : 0;
}

/* Sandboxes and containers can lack sysfs; glibc then has the sizes from the CPU itself. */
static void find(void)
{
	const long second = sysconf(_SC_LEVEL2_CACHE_SIZE), last = sysconf(_SC_LEVEL3_CACHE_SIZE);

	if (second > 0)
		rung__caches.second_bytes = (uint64_t)second;
	if (last > 0)
		rung__caches.last_bytes = (uint64_t)last;
	/* a failure leaves these values: the choice only affects speed */
	rung__caches_read("", &rung__caches);
}

void rung__caches_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
}
