/* SPDX-License-Identifier: Apache-2.0 */
/* What rung doctor checks about a folder: can its files be read, by which file system, from which
 * drive, and past the page cache. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "file/block_device.h"

#define BLOCK_BYTES 4096u /* O_DIRECT accepts blocks of this size wherever it is supported */

/*
 * Open the regular files of the folder. Of a dataset each one must be readable; elsewhere the first
 * large one is enough.
 * @param large_out  a descriptor of one with at least BLOCK_BYTES, or -1
 * @return 0, or -errno with the file's name in `name`
 */
static int open_files(int dir_fd, int is_dataset, int *large_out, char name[NAME_MAX + 1])
{
	DIR *dir = fdopendir(dup(dir_fd));
	struct dirent *entry;
	struct stat st;

	*large_out = -1;
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)) != NULL && (is_dataset || *large_out < 0)) {
		int fd;

		if (fstatat(dir_fd, entry->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode))
			continue;
		fd = openat(dir_fd, entry->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 && is_dataset) {
			const int err = errno;

			snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
			closedir(dir);
			return -err;
		}
		if (fd >= 0 && *large_out < 0 && st.st_size >= (off_t)BLOCK_BYTES)
			*large_out = fd;
		else if (fd >= 0)
			close(fd);
	}
	closedir(dir);
	return 0;
}

/* The type of the file system that is mounted with a device number, or "". */
static void file_system(const struct stat *st, char type[32])
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	unsigned major_number, minor_number;
	char *line = NULL, *dash;
	size_t room = 0;

	type[0] = 0;
	while (mounts && getline(&line, &room, mounts) > 0) {
		if (sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) == 2 &&
		    makedev(major_number, minor_number) == st->st_dev &&
		    (dash = strstr(line, " - ")) != NULL && sscanf(dash, " - %31s", type) == 1)
			break;
	}
	free(line);
	if (mounts)
		fclose(mounts);
}

static int is_remote(const char *type)
{
	static const char *const types[] = { "nfs", "nfs4", "cifs", "smb3", "9p", "ceph" };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(type, types[i]) == 0)
			return 1;
	}
	return strncmp(type, "fuse.", 5) == 0;
}

static void check_drive(struct doctor *doctor, const struct stat *st)
{
	struct rung__block_device device = { .name = "" };
	char type[32];

	file_system(st, type);
	if (is_remote(type))
		doctor_add(doctor, "file system", DOCTOR_MISSING, "stage to a local drive",
		           "%s, over a network or another process", type);
	else
		doctor_add(doctor, "file system", DOCTOR_OK, "", "%s",
		           type[0] ? type : "of unknown type");
	if (!rung__block_device("/sys", major(st->st_dev), minor(st->st_dev), &device))
		doctor_add(doctor, "drive", DOCTOR_ABSENT, "", "%s is not on a single block device",
		           type[0] ? type : "it");
	else
		doctor_add(doctor, "drive", DOCTOR_OK, "", "%s, blocks of %u bytes", device.name,
		           device.block_bytes);
}

/* The smallest block that O_DIRECT reads, 512 or 4096 bytes; 0 with errno if it is refused. */
static unsigned direct_block(int fd)
{
	char path[64];
	void *block = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
	unsigned bytes = 0;
	int direct, err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	direct = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	if (block && direct >= 0)
		bytes = pread(direct, block, 512, 512) == 512                 ? 512
		        : pread(direct, block, BLOCK_BYTES, 0) == BLOCK_BYTES ? BLOCK_BYTES
		                                                              : 0;
	err = errno;
	if (direct >= 0)
		close(direct);
	free(block);
	errno = err;
	return bytes;
}

/* @param fd  a file of the folder with at least BLOCK_BYTES; -1: a temporary one is written */
static void check_direct(struct doctor *doctor, const char *dir, int fd)
{
	static const char zeros[BLOCK_BYTES];
	int temp = -1;
	unsigned bytes;

	if (fd < 0) {
		fd = temp = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (temp >= 0 && (write(temp, zeros, BLOCK_BYTES) != BLOCK_BYTES || fsync(temp))) {
			close(temp);
			fd = temp = -1;
		}
	}
	if (fd < 0) {
		doctor_add(doctor, "O_DIRECT", DOCTOR_ABSENT, "",
		           "not tried: no file of 4 KiB here, and none can be written");
		return;
	}
	bytes = direct_block(fd);
	if (bytes)
		doctor_add(doctor, "O_DIRECT", DOCTOR_OK, "", "works, in blocks of %u bytes",
		           bytes);
	else
		doctor_add(doctor, "O_DIRECT", DOCTOR_MISSING,
		           "use ext4 or xfs; else reads pass through the page cache", "refused: %s",
		           strerror(errno));
	if (temp >= 0)
		close(temp);
}

static void check_dataset(struct doctor *doctor, const char *dir, int is_dataset)
{
	struct rung_dataset *ds;

	if (!is_dataset) {
		doctor_add(doctor, "dataset", DOCTOR_ABSENT, "", "none is staged here");
	} else if (rung_dataset_open(dir, &ds) < 0) {
		doctor_add(doctor, "dataset", DOCTOR_MISSING, "rung verify has the details", "%s",
		           rung_last_error());
	} else {
		doctor_add(doctor, "dataset", DOCTOR_OK, "", "%llu rows of %llu bytes",
		           (unsigned long long)rung_dataset_info(ds)->vertex_count,
		           (unsigned long long)rung_dataset_info(ds)->stored_row_bytes);
		rung_dataset_close(ds);
	}
}

void doctor_check_folder(struct doctor *doctor, const char *dir)
{
	const int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1] = "";
	int large = -1, is_dataset, rc = -errno;
	struct stat st;

	is_dataset = dir_fd >= 0 && faccessat(dir_fd, "manifest.json", F_OK, 0) == 0;
	if (dir_fd >= 0)
		rc = open_files(dir_fd, is_dataset, &large, name);

	if (rc < 0)
		doctor_add(doctor, "access", DOCTOR_MISSING,
		           rc == -EACCES ? "chmod it, or run as its owner" : "check the path",
		           "%s%s%s cannot be read: %s", dir, *name ? "/" : "", name, strerror(-rc));
	else
		doctor_add(doctor, "access", DOCTOR_OK, "", "%s can be read", dir);
	if (dir_fd >= 0 && fstat(dir_fd, &st) == 0) {
		check_drive(doctor, &st);
		check_direct(doctor, dir, large);
		check_dataset(doctor, dir, is_dataset);
	}
	if (large >= 0)
		close(large);
	if (dir_fd >= 0)
		close(dir_fd);
}
