/* SPDX-License-Identifier: Apache-2.0 */
/** The block device that holds a file, from sysfs. Private to rung. */
#ifndef RUNG_BLOCK_DEVICE_H
#define RUNG_BLOCK_DEVICE_H

#include "base/base.h"

struct rung__block_device {
	char name[64];          /* of the whole disk, also for a file on a partition: "nvme0n1" */
	uint64_t partition_at;  /* bytes of the disk before the partition; 0 without one */
	uint64_t command_bytes; /* largest read or write that the kernel sends to it; 0: unknown */
	uint32_t block_bytes;   /* logical block, the smallest unit of a command; 0: unknown */
};

/**
 * Look up the device with a number (st_dev of a file).
 *
 * @param sys  mount point of sysfs: "/sys", in tests a recorded folder
 * @return false if sysfs has no such device: network and memory file systems, and those that span
 *         devices, have numbers that belong to no device
 */
bool rung__block_device(const char *sys, unsigned major_number, unsigned minor_number,
                        struct rung__block_device *device_out);

#endif
