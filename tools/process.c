/* SPDX-License-Identifier: Apache-2.0 */
/* Time and memory of this process. */
#include <sys/resource.h>
#include <time.h>

#include "tool.h"

uint64_t tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* VmHWM, because ru_maxrss is kept across exec(): it starts with the peak of the process that
 * forked this one. getrusage() is used only if /proc is not mounted. */
uint64_t tool_peak_rss(void)
{
	struct rusage usage;
	char line[256];
	unsigned long long kib = 0;
	FILE *status = fopen("/proc/self/status", "re");

	if (status) {
		while (fgets(line, sizeof(line), status)) {
			if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
				break;
		}
		fclose(status);
	}
	if (kib == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
		kib = (unsigned long long)usage.ru_maxrss;
	return kib * 1024;
}
