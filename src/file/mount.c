/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts in /proc/self/mountinfo, and controllers of NVMe drives in /sys.
 *
 * A line of mountinfo: "36 25 0:52 / /mnt/x rw,relatime shared:7 - nfs4 server:/export rw,…", with
 * any number of fields before the dash; blanks in names are octal (\040).
 *
 * The folder of an NVMe drive is in that of its controller. With multipath, which is the rule over
 * fabrics, it is in that of its subsystem, which has a link to each controller.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file/block_device.h"
#include "file/mount.h"

#define LINE_BYTES 4096u

/* Copy up to `length` bytes of a field, decoded and cut to the size of `to`. */
static void copy_field(const char *from, size_t length, char *to, size_t to_bytes)
{
	size_t at = 0;

	for (size_t i = 0; i < length && at + 1 < to_bytes; i++) {
		unsigned code = (unsigned char)from[i];

		if (from[i] == '\\' && i + 3 < length && from[i + 1] >= '0' && from[i + 1] <= '3' &&
		    from[i + 2] >= '0' && from[i + 2] <= '7' && from[i + 3] >= '0' &&
		    from[i + 3] <= '7') {
			code = (unsigned)((from[i + 1] - '0') * 64 + (from[i + 2] - '0') * 8 +
			                  (from[i + 3] - '0'));
			i += 3;
		}
		to[at++] = code < ' ' || code == 127 ? '?' : (char)code;
	}
	to[at] = '\0';
}

/* The next field of a line, or NULL. `at` is moved past it. */
static const char *next_field(const char **at, size_t *length_out)
{
	const char *field = *at + strspn(*at, " \n");

	*length_out = strcspn(field, " \n");
	*at = field + *length_out;
	return *length_out > 0 ? field : NULL;
}

/* Parse a line of mountinfo. @return false: it is for another device, or malformed */
static bool parse_line(const char *line, dev_t device, struct rung__mount *mount)
{
	unsigned major_number, minor_number;
	const char *at = line, *field;
	size_t length;

	if (sscanf(line, "%*d %*d %u:%u ", &major_number, &minor_number) != 2 ||
	    makedev(major_number, minor_number) != device)
		return false;
	for (int i = 0; i < 4; i++) /* ids, device, and the folder that is mounted */
		next_field(&at, &length);
	field = next_field(&at, &length);
	if (!field)
		return false;
	copy_field(field, length, mount->point, sizeof(mount->point));
	do
		field = next_field(&at, &length);
	while (field && !(length == 1 && *field == '-'));
	field = field ? next_field(&at, &length) : NULL;
	if (!field)
		return false;
	copy_field(field, length, mount->type, sizeof(mount->type));
	field = next_field(&at, &length);
	copy_field(field ? field : "", field ? length : 0, mount->source, sizeof(mount->source));
	return true;
}

static bool is_under(const char *path, const char *point)
{
	const size_t length = strlen(point);

	return strncmp(path, point, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0' || strcmp(point, "/") == 0);
}

/* Find the line of a device, of several the one with the longest mount point above `path`. */
static bool find_line(const char *root, dev_t device, const char *path, struct rung__mount *mount)
{
	char line[LINE_BYTES];
	struct rung__mount other = { .point = "" };
	bool found = false, whole = true, under = false;
	FILE *file;

	if ((size_t)snprintf(line, sizeof(line), "%s/proc/self/mountinfo", root) >= sizeof(line))
		return false;
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const bool begins = whole;

		whole = strchr(line, '\n') != NULL; /* options can make a line longer than ours */
		if (!begins || !parse_line(line, device, &other))
			continue;
		if (path && is_under(path, other.point) &&
		    (!under || strlen(other.point) >= strlen(mount->point))) {
			*mount = other;
			under = true;
		} else if (!found) {
			*mount = other;
		}
		found = true;
	}
	if (file)
		fclose(file);
	return found;
}

/* ---- NVMe ---- */

static bool read_word(const char *folder, const char *name, char *text, size_t text_bytes)
{
	char path[PATH_MAX];
	FILE *file;
	bool got;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return false;
	file = fopen(path, "re");
	got = file && fgets(text, (int)text_bytes, file);
	if (file)
		fclose(file);
	text[got ? strcspn(text, "\n") : 0] = '\0';
	return got && text[0];
}

/* Value of a key in "traddr=10.0.0.1,trsvcid=4420"; "" if it does not occur. */
static void value_of(const char *list, const char *key, char *value, size_t value_bytes)
{
	const size_t length = strlen(key);

	value[0] = '\0';
	for (const char *at = list; *at; at += *at == ',') {
		const size_t entry = strcspn(at, ",");

		if (entry > length && strncmp(at, key, length) == 0 && at[length] == '=')
			copy_field(at + length + 1, entry - length - 1, value, value_bytes);
		at += entry;
	}
}

/* Read transport and address of a controller. @return false if the folder is not a controller's */
static bool read_controller(const char *folder, struct rung__mount *mount)
{
	char address[256] = "", host[48], port[16];

	if (!read_word(folder, "transport", mount->transport, sizeof(mount->transport)))
		return false;
	read_word(folder, "address", address, sizeof(address));
	value_of(address, "traddr", host, sizeof(host));
	value_of(address, "trsvcid", port, sizeof(port));
	snprintf(mount->address, sizeof(mount->address),
	         strchr(host, ':') && port[0] ? "[%s]%s%s" : "%s%s%s", host, port[0] ? ":" : "",
	         port);
	return true;
}

/* Whether the name is that of a controller: "nvme1", not "nvme1n1". */
static bool is_controller(const char *name)
{
	return strncmp(name, "nvme", 4) == 0 && isdigit((unsigned char)name[4]) &&
	       name[4 + strspn(name + 4, "0123456789")] == '\0';
}

/* Find the controller of a drive. Of several, which are paths to the same drive, the first that the
 * folder has. */
static void find_controller(const char *root, const char *drive, struct rung__mount *mount)
{
	char link[PATH_MAX], folder[PATH_MAX], path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	if ((size_t)snprintf(link, sizeof(link), "%s/sys/block/%s", root, drive) >= sizeof(link) ||
	    !realpath(link, folder))
		return;
	*strrchr(folder, '/') = '\0'; /* realpath() gives an absolute path: it has a slash */
	if (read_controller(folder, mount))
		return;
	dir = opendir(folder);
	while (dir && (entry = readdir(dir))) {
		if (is_controller(entry->d_name) &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) <
		            sizeof(path) &&
		    read_controller(path, mount))
			break;
	}
	if (dir)
		closedir(dir);
}

/* ---- */

/* Whether the source identifies nothing outside this machine's memory. */
static bool in_memory(const struct rung__mount *mount)
{
	return strcmp(mount->type, "tmpfs") == 0 || strcmp(mount->type, "ramfs") == 0 ||
	       strcmp(mount->type, "overlay") == 0;
}

static bool find_drive(const char *root, dev_t device, struct rung__block_device *drive_out)
{
	char sys[PATH_MAX];

	return (size_t)snprintf(sys, sizeof(sys), "%s/sys", root) < sizeof(sys) &&
	       rung__block_device(sys, major(device), minor(device), drive_out);
}

/* Whether a drive was removed while it was mounted. File systems without a drive have major 0. */
static bool was_removed(const char *root, dev_t device)
{
	char folder[PATH_MAX];

	return major(device) != 0 &&
	       (size_t)snprintf(folder, sizeof(folder), "%s/sys/dev/block", root) <
	               sizeof(folder) &&
	       access(folder, F_OK) == 0; /* else sysfs is not mounted here */
}

bool rung__mount_find(const char *root, dev_t device, const char *path,
                      struct rung__mount *mount_out)
{
	struct rung__mount mount = { .point = "" };
	struct rung__block_device drive;

	if (!find_line(root, device, path, &mount))
		return false;
	if (find_drive(root, device, &drive)) {
		find_controller(root, drive.name, &mount);
		mount.local = !mount.transport[0] || strcmp(mount.transport, "pcie") == 0;
	} else {
		mount.local = in_memory(&mount);
		mount.removed = was_removed(root, device);
	}
	*mount_out = mount;
	return true;
}

const char *rung__mount_text(const char *root, dev_t device, const char *path,
                             char text[RUNG__MOUNT_TEXT_BYTES])
{
	struct rung__mount mount;

	text[0] = '\0';
	if (!rung__mount_find(root, device, path, &mount) || mount.local)
		return text;
	if (mount.transport[0])
		snprintf(text, RUNG__MOUNT_TEXT_BYTES, " (on %s, nvme-%s%s%s)", mount.point,
		         mount.transport, mount.address[0] ? " " : "", mount.address);
	else
		snprintf(text, RUNG__MOUNT_TEXT_BYTES, " (on %s, %s %s)", mount.point, mount.type,
		         mount.source);
	return text;
}

const char *rung__mount_cure(const char *root, dev_t device)
{
	struct rung__mount mount;

	if (!rung__mount_find(root, device, NULL, &mount) || mount.local)
		return "";
	if (mount.removed)
		return "; its drive was removed: connect and mount it again, and reopen the "
		       "dataset";
	if (mount.transport[0])
		return "; restore the target or the network: reads continue once the drive "
		       "reconnects";
	/* nothing is known about other sources, such as the name of a pool of ZFS */
	return strchr(mount.source, ':') || strncmp(mount.source, "//", 2) == 0
	               ? "; check the server and the network"
	               : "";
}

void rung__mount_drive(const char *root, dev_t device, char *name, size_t name_bytes)
{
	struct rung__block_device drive;
	struct rung__mount mount;

	name[0] = '\0';
	if (find_drive(root, device, &drive))
		copy_field(drive.name, strlen(drive.name), name, name_bytes);
	else if (find_line(root, device, NULL, &mount) && !in_memory(&mount))
		copy_field(mount.source, strlen(mount.source), name, name_bytes);
}
