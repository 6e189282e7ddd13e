/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The mount that holds a file, for messages and names of drives. Only /proc and /sys are read, and
 * never the file system itself, which may not answer. Private to rung.
 */
#ifndef RUNG_MOUNT_H
#define RUNG_MOUNT_H

#include <sys/types.h>

#include "base/base.h"

#define RUNG__MOUNT_TEXT_BYTES 384u

/** Texts that are too long are cut; bytes that a terminal could interpret are replaced. */
struct rung__mount {
	char point[160];
	char source[128];   /* "server:/export", "/dev/nvme1n1" */
	char type[24];      /* "nfs4" */
	char transport[16]; /* of an NVMe drive: "tcp", "pcie"; "" for other file systems */
	char address[72];   /* "10.0.0.1:4420"; "" if there is none */
	bool local;         /* a drive of this machine, or memory */
	bool removed;       /* the kernel has no such drive any more, and only the mount is left */
};

/**
 * Find the mount of a file system. With several the first one is used, unless `path` is under
 * another.
 *
 * @param root    "", in tests a folder with recorded proc/self/mountinfo and sys
 * @param device  st_dev of a file
 * @param path    of the file; NULL: unknown
 * @return false if the kernel lists no such mount; btrfs has other numbers there
 */
bool rung__mount_find(const char *root, dev_t device, const char *path,
                      struct rung__mount *mount_out);

/** Write " (on /mnt/x, nvme-tcp 10.0.0.1:4420)" or " (on /mnt/x, nfs4 server:/export)" for
 * messages; "" if the mount is local or unknown. @return text */
const char *rung__mount_text(const char *root, dev_t device, const char *path,
                             char text[RUNG__MOUNT_TEXT_BYTES]);

/** What to do when a read of the file fails, for the end of a message: "; " and a sentence, or ""
 * if the mount is local or its kind is unknown. */
const char *rung__mount_cure(const char *root, dev_t device);

/**
 * Write the name of the drive that holds the file system: the kernel's name of the disk, or else
 * the source of the mount, cut to the size of `name`. "" if neither is known, and for memory and
 * overlays, whose source identifies nothing.
 */
void rung__mount_drive(const char *root, dev_t device, char *name, size_t name_bytes);

#endif
