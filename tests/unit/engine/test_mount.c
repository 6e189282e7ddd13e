/* SPDX-License-Identifier: Apache-2.0 */
/* The mount of a file: its transport and address, and what to do about a failed read. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dataset.h"
#include "file/mount.h"

static char folder[256];

/* Recorded: local and remote NVMe drives, the latter with and without multipath, and NFS. Blanks in
 * names are octal, and options can be longer than any buffer. */
static void make_mounts(void)
{
	static const char nvmf[] = "/sys/devices/virtual/nvme-fabrics/ctl",
			  system[] = "/sys/devices/virtual/nvme-subsystem/nvme-subsys1";
	char text[8192], at[600];
	int length;

	cr_assert_eq(support_tempdir(folder, sizeof(folder)), 0);
	length = snprintf(text, sizeof(text),
	                  "22 1 259:0 / / rw,relatime shared:1 - ext4 /dev/nvme0n1 rw\n"
	                  "27 22 259:2 /sub /etc/hosts ro,relatime - ext4 /dev/nvme1n1 ro\n"
	                  "28 22 259:2 / /far ro,relatime - ext4 /dev/nvme1n1 ro,norecovery\n"
	                  "29 22 259:5 / /six ro shared:3 master:2 - xfs /dev/nvme2n1p1 ro\n"
	                  "30 22 0:50 / /mnt/a\\040b\\012 rw - nfs4 server:/my\\040data rw,");
	memset(text + length, 'x', 5000);
	length += 5000;
	snprintf(text + length, sizeof(text) - (size_t)length,
	         "\n35 22 259:7 / /far2 ro,relatime - ext4 /dev/nvme3n1 ro,norecovery"
	         "\n31 22 0:51 / /dev/shm rw - tmpfs shm rw\n32 22 broken\n"
	         "33 22 0:52 / /gone rw\n34 22 0:53 / /lustre rw - lustre %0100d@tcp:/fs rw\n",
	         7);
	support_put(folder, "/proc/self/mountinfo", text);
	support_put(folder, "/sys/devices/pci0/nvme0/nvme0n1/queue/max_sectors_kb", "96\n");
	support_put(folder, "/sys/devices/pci0/nvme0/transport", "pcie\n");
	support_put(folder, "/sys/devices/pci0/nvme0/address", "0000:01:00.0\n");
	snprintf(at, sizeof(at), "%s/nvme1/transport", nvmf);
	support_put(folder, at, "tcp\n");
	snprintf(at, sizeof(at), "%s/nvme1/address", nvmf);
	support_put(folder, at, "traddr=10.0.0.1,trsvcid=4420,src_addr=10.0.0.2\n");
	snprintf(at, sizeof(at), "%s/nvme1n1/size", system);
	support_put(folder, at, "65536\n");
	snprintf(at, sizeof(at), "%s/nvme2/transport", nvmf);
	support_put(folder, at, "rdma\n");
	snprintf(at, sizeof(at), "%s/nvme2/address", nvmf);
	support_put(folder, at, "traddr=fe80::1,trsvcid=4420\n");
	snprintf(at, sizeof(at), "%s/nvme2/nvme2n1/nvme2n1p1/partition", nvmf);
	support_put(folder, at, "1\n");
	support_put(folder, "/sys/dev/block/empty", "");
	support_put(folder, "/sys/block/empty", "");
}

static void make_link(const char *name, const char *to)
{
	char at[600];

	snprintf(at, sizeof(at), "%s/sys/%s", folder, name);
	cr_assert_eq(symlink(to, at), 0);
}

static void make_mounts_and_links(void)
{
	make_mounts();
	make_link("block/nvme0n1", "../devices/pci0/nvme0/nvme0n1");
	make_link("block/nvme1n1", "../devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1");
	make_link("block/nvme2n1", "../devices/virtual/nvme-fabrics/ctl/nvme2/nvme2n1");
	make_link("devices/virtual/nvme-subsystem/nvme-subsys1/nvme1",
	          "../../nvme-fabrics/ctl/nvme1");
	make_link("dev/block/259:0", "../../block/nvme0n1");
	make_link("dev/block/259:2", "../../block/nvme1n1");
	make_link("dev/block/259:5", "../../block/nvme2n1/nvme2n1p1");
}

static void remove_mounts(void)
{
	support_remove(folder);
}

TestSuite(mount, .init = make_mounts_and_links, .fini = remove_mounts);

static void expect_text(dev_t device, const char *path, const char *expected)
{
	char text[RUNG__MOUNT_TEXT_BYTES];

	cr_expect_str_eq(rung__mount_text(folder, device, path, text), expected);
}

Test(mount, a_remote_drive_has_transport_and_address)
{
	expect_text(makedev(259, 2), "/far/ds/rows.npy", " (on /far, nvme-tcp 10.0.0.1:4420)");
	expect_text(makedev(259, 5), NULL, " (on /six, nvme-rdma [fe80::1]:4420)");
}

Test(mount, of_several_the_one_that_contains_the_path_is_used)
{
	expect_text(makedev(259, 2), "/etc/hosts", " (on /etc/hosts, nvme-tcp 10.0.0.1:4420)");
	expect_text(makedev(259, 2), "/farther", " (on /etc/hosts, nvme-tcp 10.0.0.1:4420)");
}

Test(mount, a_network_file_system_has_type_and_source)
{
	expect_text(makedev(0, 50), NULL, " (on /mnt/a b?, nfs4 server:/my data)");
}

Test(mount, local_drives_memory_and_unknown_devices_are_not_mentioned)
{
	struct rung__mount mount;

	expect_text(makedev(259, 0), "/x", "");
	expect_text(makedev(0, 51), "/dev/shm/x", "");
	expect_text(makedev(0, 52), "/gone/x", "");
	expect_text(makedev(8, 1), "/x", "");
	expect_text(0, NULL, "");
	cr_assert(rung__mount_find(folder, makedev(259, 0), NULL, &mount));
	cr_assert(mount.local);
	cr_assert_str_eq(mount.type, "ext4");
	cr_assert_str_eq(mount.source, "/dev/nvme0n1");
	cr_assert_not(rung__mount_find("/nowhere", makedev(259, 0), NULL, &mount));
}

static void expect_cure(dev_t device, const char *word)
{
	const char *cure = rung__mount_cure(folder, device);

	cr_expect(*word ? strstr(cure, word) != NULL : *cure == '\0', "%s", cure);
}

Test(mount, the_cure_depends_on_what_is_left_of_the_drive)
{
	char at[600];

	expect_cure(makedev(259, 2), "; restore the target");
	expect_text(makedev(259, 7), "/far2/x", " (on /far2, ext4 /dev/nvme3n1)");
	expect_cure(makedev(259, 7), "; its drive was removed");
	expect_cure(makedev(0, 50), "; check the server");
	expect_cure(makedev(259, 0), ""); /* a local drive, memory, and unknown devices */
	expect_cure(makedev(0, 51), "");
	expect_cure(makedev(8, 1), "");
	expect_cure(0, "");
	snprintf(at, sizeof(at), "%s/sys/dev", folder);
	support_remove(at);
	expect_cure(makedev(259, 7), ""); /* unknown without sysfs */
}

Test(mount, the_drive_is_named_by_its_disk_or_the_source_of_the_mount)
{
	char name[64];

	rung__mount_drive(folder, makedev(259, 5), name, sizeof(name));
	cr_assert_str_eq(name, "nvme2n1");
	rung__mount_drive(folder, makedev(0, 50), name, sizeof(name));
	cr_assert_str_eq(name, "server:/my data");
	rung__mount_drive(folder, makedev(0, 53), name, sizeof(name));
	cr_assert_eq(strlen(name), sizeof(name) - 1);
	rung__mount_drive(folder, makedev(0, 51), name, sizeof(name));
	cr_assert_str_eq(name, "");
	rung__mount_drive(folder, makedev(0, 99), name, sizeof(name));
	cr_assert_str_eq(name, "");
}
