/* SPDX-License-Identifier: Apache-2.0 */
/* Creates machines from one file each; see tests/fixtures/README.md. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset.h"
#include "machine.h"

static void give_up(const char *what)
{
	fprintf(stderr, "machine: %s: %s\n", what, strerror(errno));
	abort();
}

void support_put_link(const char *root, const char *name, const char *target)
{
	char path[768];

	snprintf(path, sizeof(path), "%s%s", root, name);
	unlink(path);
	support_put(root, name, ""); /* creates the folders */
	if (unlink(path) != 0 || symlink(target, path) != 0)
		give_up(path);
}

void support_put_node(const char *root, unsigned node, const char *cpus,
                      unsigned long long total_kib, unsigned long long free_kib)
{
	char name[100], text[200];

	snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/cpulist", node);
	support_put(root, name, cpus);
	snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/meminfo", node);
	snprintf(text, sizeof(text), "Node %u MemTotal: %llu kB\nNode %u MemFree: %llu kB\n", node,
	         total_kib, node, free_kib);
	support_put(root, name, text);
	snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/distance", node);
	support_put(root, name, node ? "20 10\n" : "10 20\n");
}

unsigned support_first_cpu(void)
{
	cpu_set_t set;
	unsigned cpu = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		give_up("sched_getaffinity");
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	return cpu;
}

/* Decode the escapes of the text after "path =", in place. */
static void decode(char *text)
{
	char *to = text, *end = text + strlen(text);
	bool with_end = true;

	for (const char *at = text; at < end; at++) {
		if (*at != '\\') {
			*to++ = *at;
			continue;
		}
		at++;
		if (*at == 'c') {
			with_end = false;
		} else if (*at == 'x') {
			char digits[3] = { at[1], at[2], 0 };

			*to++ = (char)strtol(digits, NULL, 16);
			at += 2;
		} else {
			*to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
		}
	}
	if (with_end)
		*to++ = '\n';
	*to = 0;
}

static void put_line(const char *root, char *line)
{
	char name[768], *content = strstr(line, " = "), *target = strstr(line, " -> ");
	size_t length = strcspn(line, " ");

	snprintf(name, sizeof(name), "/%.*s", (int)length, line);
	if (target) {
		support_put_link(root, name, target + 4);
	} else if (name[length] == '/') {
		/* only the folder matters, but support_put() creates folders by writing a file */
		support_put(root, strcat(name, "keep"), "");
	} else {
		char text[4096];

		snprintf(text, sizeof(text) - 1, "%s", content ? content + 3 : "");
		decode(text);
		support_put(root, name, text);
	}
}

void support_machine(const char *name, char *root, size_t root_bytes)
{
	const char *source = getenv("RUNG_SOURCE_DIR");
	char path[768], line[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/fixtures/%s.machine", source ? source : ".", name);
	file = fopen(path, "re");
	if (!file || support_tempdir(root, root_bytes) != 0)
		give_up(path);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (*line && *line != '#')
			put_line(root, line);
	}
	fclose(file);
}
