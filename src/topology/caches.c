/* SPDX-License-Identifier: Apache-2.0 */
/* The data caches of a CPU, as the kernel lists them: one folder per cache, without gaps. */
#include <stdlib.h>
#include <string.h>

#include "topology/sysfs.h"

#define CACHE       "sys/devices/system/cpu/cpu%" PRIu32 "/cache/index%" PRIu32
#define INDEXES_MAX 16u /* caches per CPU, including those for code */

/* Parse "32768K": whole KiB, as the kernel writes it. */
static bool size_of_text(const char *text, uint64_t *bytes_out)
{
	char *end;
	unsigned long long kib = strtoull(text, &end, 10);

	if (end == text || strcmp(end, "K") != 0 || kib > UINT64_MAX / 1024)
		return false;
	*bytes_out = kib * 1024;
	return true;
}

/* Read one cache. It has no size if the kernel reports none, or if it holds only code.
 * @return 1, 0 if that index does not exist, or a failure */
static int read_cache(struct rung__sys *sys, uint32_t cpu, uint32_t idx,
                      struct rung__sys_cache *cache_out)
{
	struct rung__sys_cache cache = { 0 };
	const char *size = NULL, *type = NULL;
	int rc = rung__sys_number(sys, 10, 255, &cache.level, CACHE "/level", cpu, idx);

	if (rc <= 0)
		return rc;
	rc = rung__sys_text(sys, &type, CACHE "/type", cpu, idx);
	if (rc >= 0)
		rc = rung__sys_text(sys, &size, CACHE "/size", cpu, idx);
	if (rc >= 0)
		rc = rung__sys_ids(sys, RUNG__CPUS_MAX, &cache.cpus, CACHE "/shared_cpu_list", cpu,
		                   idx);
	if (rc < 0)
		return rc;
	if (!size || (type && strcmp(type, "Instruction") == 0) ||
	    !size_of_text(size, &cache.bytes))
		cache.bytes = 0;
	*cache_out = cache;
	return 1;
}

int rung__sys_caches(struct rung__sys *sys, uint32_t cpu, struct rung__sys_cache *second_out,
                     struct rung__sys_cache *last_out)
{
	struct rung__sys_cache second = { 0 }, last = { 0 };

	for (uint32_t i = 0; i < INDEXES_MAX; i++) {
		struct rung__sys_cache cache;
		int rc = read_cache(sys, cpu, i, &cache);

		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		if (cache.bytes == 0)
			continue;
		if (cache.level == 2)
			second = cache;
		if (cache.level >= last.level)
			last = cache;
	}
	*second_out = second;
	*last_out = last;
	return 0;
}
