/* SPDX-License-Identifier: Apache-2.0 */
/* The location of a file on its disk, and the limits of the disk. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset.h"
#include "engine/extents.h"
#include "file/block_device.h"

static char folder[256];

static void write_number(const char *name, const char *number)
{
	char at[600];

	snprintf(at, sizeof(at), "%s/%s", folder, name);
	cr_assert_eq(support_write_file(at, number, strlen(number)), 0);
}

static void make_folder(const char *name)
{
	char at[600];

	snprintf(at, sizeof(at), "%s/%s", folder, name);
	cr_assert_eq(mkdir(at, 0700), 0);
}

/* An NVMe disk with a partition, and a disk whose queue has no attributes. */
static void make_sys(void)
{
	char at[600];

	cr_assert_eq(support_tempdir(folder, sizeof(folder)), 0);
	make_folder("dev");
	make_folder("dev/block");
	make_folder("nvme0n1");
	make_folder("nvme0n1/queue");
	make_folder("nvme0n1/nvme0n1p2");
	make_folder("odd");
	write_number("nvme0n1/queue/max_sectors_kb", "96\n");
	write_number("nvme0n1/queue/logical_block_size", "4096\n");
	write_number("nvme0n1/nvme0n1p2/partition", "2\n");
	write_number("nvme0n1/nvme0n1p2/start", "2048\n");
	snprintf(at, sizeof(at), "%s/dev/block/259:0", folder);
	cr_assert_eq(symlink("../../nvme0n1", at), 0);
	snprintf(at, sizeof(at), "%s/dev/block/259:2", folder);
	cr_assert_eq(symlink("../../nvme0n1/nvme0n1p2", at), 0);
	snprintf(at, sizeof(at), "%s/dev/block/7:0", folder);
	cr_assert_eq(symlink("../../odd", at), 0);
}

static void remove_sys(void)
{
	support_remove(folder);
}

TestSuite(disk, .init = make_sys, .fini = remove_sys);

Test(disk, the_queue_limits_of_a_disk_are_read)
{
	struct rung__block_device device;

	cr_assert(rung__block_device(folder, 259, 0, &device));
	cr_assert_str_eq(device.name, "nvme0n1");
	cr_assert_eq(device.partition_at, 0);
	cr_assert_eq(device.command_bytes, 96 * 1024);
	cr_assert_eq(device.block_bytes, 4096);
}

Test(disk, a_partition_has_a_start_and_the_queue_of_its_disk)
{
	struct rung__block_device device;

	cr_assert(rung__block_device(folder, 259, 2, &device));
	cr_assert_str_eq(device.name, "nvme0n1");
	cr_assert_eq(device.partition_at, 2048 * 512);
	cr_assert_eq(device.command_bytes, 96 * 1024);
}

Test(disk, missing_limits_are_0_and_a_missing_device_is_reported)
{
	struct rung__block_device device;

	cr_assert(rung__block_device(folder, 7, 0, &device));
	cr_assert_str_eq(device.name, "odd");
	cr_assert_eq(device.command_bytes, 0);
	cr_assert_eq(device.block_bytes, 0);
	cr_assert_not(rung__block_device(folder, 0, 45, &device));
}

Test(disk, adjacent_extents_are_joined)
{
	struct rung__extent list[] = {
		{ 0, 1000, 100 }, { 100, 1100, 50 }, { 150, 5000, 50 }, { 200, 4900, 100 }
	};
	struct rung__extents extents = { .list = list, .count = 4, .file_bytes = 230 };

	cr_assert_null(rung__extents_join(&extents));
	cr_assert_eq(extents.count, 3);
	cr_assert_eq(list[0].bytes, 150);
	cr_assert_eq(rung__extent_at(&extents, 0)->at, 1000);
	cr_assert_eq(rung__extent_at(&extents, 149)->at, 1000);
	cr_assert_eq(rung__extent_at(&extents, 150)->at, 5000);
	cr_assert_eq(rung__extent_at(&extents, 229)->at, 4900);
}

Test(disk, extents_after_the_end_are_ignored_and_holes_rejected)
{
	struct rung__extent full[] = { { 0, 1000, 100 }, { 300, 2000, 100 } };
	struct rung__extent holed[] = { { 0, 1000, 100 }, { 104, 2000, 100 } };
	struct rung__extents extents = { .list = full, .count = 2, .file_bytes = 100 };

	cr_assert_null(rung__extents_join(&extents));
	cr_assert_eq(extents.count, 1);
	extents = (struct rung__extents){ .list = holed, .count = 2, .file_bytes = 200 };
	cr_assert(strstr(rung__extents_join(&extents), "holes"));
	extents = (struct rung__extents){ .list = full, .count = 0, .file_bytes = 1 };
	cr_assert(strstr(rung__extents_join(&extents), "holes"));
}
