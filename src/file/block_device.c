/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block devices in /sys. dev/block/MAJOR:MINOR is a link to the folder of the device; a partition's
 * folder is in that of its disk, and only the disk has a queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/block_device.h"

#define SECTOR_BYTES 512u /* unit of "start", whatever the block size of the device */

/* Read a number from a file with one line. @return false: the file cannot be read, or is not a
 * number */
static bool read_number(const char *path, uint64_t *number_out)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned long long number;
	char *end;

	if (fd >= 0)
		close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || end == text || (*end && *end != '\n'))
		return false;
	*number_out = number;
	return true;
}

/* The number in FOLDER/NAME; 0 if it cannot be read, which callers treat as unknown. */
static uint64_t number_in(const char *folder, const char *name)
{
	char path[PATH_MAX];
	uint64_t number = 0;
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

	if (length < 0 || (size_t)length >= sizeof(path) || !read_number(path, &number))
		return 0;
	return number;
}

bool rung__block_device(const char *sys, unsigned major_number, unsigned minor_number,
                        struct rung__block_device *device_out)
{
	struct rung__block_device device = { .name = "" };
	char link[PATH_MAX], folder[PATH_MAX];
	const char *name;
	uint64_t sectors;

	if ((size_t)snprintf(link, sizeof(link), "%s/dev/block/%u:%u", sys, major_number,
	                     minor_number) >= sizeof(link) ||
	    !realpath(link, folder))
		return false;
	/* only the folder of a partition has this file; partition numbers begin at 1 */
	if (number_in(folder, "partition")) {
		if (!rung__mul(number_in(folder, "start"), SECTOR_BYTES, &device.partition_at))
			return false;
		*strrchr(folder, '/') = '\0'; /* go up to the disk, which has the queue */
	}
	name = strrchr(folder, '/') + 1; /* realpath() gives an absolute path: it has a slash */
	if (strlen(name) >= sizeof(device.name))
		return false;
	memcpy(device.name, name, strlen(name) + 1);
	sectors = number_in(folder, "queue/max_sectors_kb"); /* in KiB, despite its name */
	if (!rung__mul(sectors, 1024, &device.command_bytes))
		device.command_bytes = 0;
	device.block_bytes =
		(uint32_t)RUNG__MIN(number_in(folder, "queue/logical_block_size"), UINT32_MAX);
	*device_out = device;
	return true;
}
