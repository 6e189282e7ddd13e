/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and NVMe drives: their identity, node, bridges and link. Drives are listed by namespace,
 * because a namespace is the disk that holds files; its controller is the device on PCI. */
#include <stdio.h>
#include <string.h>

#include "topology/state.h"

#define PCI_DEVICES "sys/bus/pci/devices"
/* limit for GPUs and drives together: the matrix of links has the square of this many entries */
#define DEVICES_MAX   4096u
#define CLASS_DISPLAY 0x03u
#define WIDTH_UNKNOWN 255u /* a device that has fallen off the bus reads as all ones */
#define HEX           "0123456789abcdef"

static int no_memory(void)
{
	return rung__fail(RUNG_E_NOMEM, "topology: out of memory");
}

/* ---- names ---- */

/* Move *at past `least` to `most` hexadecimal digits and the character `end`, which must follow
 * them. With `end` 0 any character can follow, and is not skipped. */
static bool skip_hex(const char **at, size_t least, size_t most, char end)
{
	size_t digits = strspn(*at, HEX);

	if (digits < least || digits > most || (end && (*at)[digits] != end))
		return false;
	*at += digits + (end != 0);
	return true;
}

bool rung__is_bus_id(const char *name, size_t length)
{
	const char *at = name;

	return skip_hex(&at, 4, 8, ':') && skip_hex(&at, 2, 2, ':') && skip_hex(&at, 2, 2, '.') &&
	       *at >= '0' && *at <= '7' && at + 1 == name + length;
}

bool rung__is_host_bridge(const char *name, size_t length)
{
	const char *at = name;

	if (strncmp(name, "pci", 3) != 0)
		return false;
	at += 3;
	return skip_hex(&at, 4, 8, ':') && skip_hex(&at, 2, 2, 0) && at == name + length;
}

static bool is_device(const char *name)
{
	return rung__is_bus_id(name, strlen(name));
}

/* Whether a name has the form "nvme0" (`parts` is 1) or "nvme0n1" (`parts` is 2). Paths to a
 * namespace, "nvme0c1n1", are neither: the namespace itself is listed already. */
static bool is_nvme(const char *name, unsigned parts)
{
	if (strncmp(name, "nvme", 4) != 0)
		return false;
	name += 4;
	for (unsigned part = 1;; part++) {
		size_t digits = strspn(name, "0123456789");

		if (digits == 0 || digits > 9)
			return false;
		name += digits;
		if (part == parts)
			return *name == 0;
		if (*name++ != 'n')
			return false;
	}
}

static bool is_namespace(const char *name)
{
	return is_nvme(name, 2);
}

/* ---- properties of all devices on PCI ---- */

/*
 * Cut a path such as "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0" to the part from
 * the first host bridge to the last entry on a bus, in the arena. A host bridge can be below a
 * device (VMD). *bus_id_out is the last part of *path_out; both are NULL for a path without a PCI
 * device.
 */
static int cut_pci_path(struct rung__sys *sys, const char *location, const char **path_out,
                        const char **bus_id_out)
{
	const char *from = NULL, *last = NULL;
	char *path;

	*path_out = *bus_id_out = NULL;
	for (const char *at = location; *at;) {
		size_t length = strcspn(at, "/");

		if (rung__is_host_bridge(at, length))
			from = from ? from : at;
		else if (from && rung__is_bus_id(at, length))
			last = at;
		else if (from)
			break;
		at += length + (at[length] == '/');
	}
	if (!last)
		return 0;
	path = rung__arena_alloc(sys->arena, (size_t)(last - from) + strcspn(last, "/") + 1, 1);
	if (!path)
		return no_memory();
	memcpy(path, from, (size_t)(last - from) + strcspn(last, "/"));
	*path_out = path;
	*bus_id_out = path + (last - from);
	return 0;
}

/* Read the node of a device. The kernel reports -1 if the firmware does not assign one; *node_out
 * is then unchanged. */
static int read_node_number(struct rung__sys *sys, const char *folder, int *node_out)
{
	int rc = rung__sys_read(sys, "%s/numa_node", folder);
	uint64_t node;

	if (rc <= 0 || strcmp(sys->text, "-1") == 0)
		return rc;
	if (!rung__number_of_text(sys->text, 10, RUNG_NODES_MAX - 1, "", &node))
		return rung__sys_bad(sys, sys->text, "the number of a node below 1024, or -1");
	*node_out = (int)node;
	return rc;
}

/* Parse "8.0 GT/s PCIe", "8 GT/s" of older kernels, or "Unknown", which leaves the speed unchanged.
 * Not with strtod(), whose decimal point depends on the locale. */
static bool parse_speed(const char *text, double *gt_per_s_out)
{
	unsigned whole = 0, tenths = 0, digits = 0;

	if (strncmp(text, "Unknown", 7) == 0)
		return true;
	for (; *text >= '0' && *text <= '9' && digits < 4; text++, digits++)
		whole = whole * 10 + (unsigned)(*text - '0');
	if (digits == 0)
		return false;
	if (text[0] == '.' && text[1] >= '0' && text[1] <= '9') {
		tenths = (unsigned)(text[1] - '0');
		text += 2;
	}
	if (strcmp(text, " GT/s") != 0 && strcmp(text, " GT/s PCIe") != 0)
		return false;
	*gt_per_s_out = whole + tenths / 10.0;
	return true;
}

static int read_speed(struct rung__sys *sys, const char *folder, const char *name,
                      double *gt_per_s_out)
{
	int rc = rung__sys_read(sys, "%s/%s", folder, name);

	if (rc > 0 && !parse_speed(sys->text, gt_per_s_out))
		return rung__sys_bad(sys, sys->text, "a speed such as '16.0 GT/s PCIe'");
	return rc;
}

/* Read the number of lanes; 0: unknown. */
static int read_width(struct rung__sys *sys, const char *folder, const char *name,
                      uint32_t *width_out)
{
	uint64_t width = 0;
	int rc = rung__sys_number(sys, 10, WIDTH_UNKNOWN, &width, "%s/%s", folder, name);

	*width_out = width == WIDTH_UNKNOWN ? 0 : (uint32_t)width;
	return rc;
}

/* Read the link of a device. Devices inside the processor and emulated ones have no link: their
 * files exist, with "Unknown" and 0. */
static int read_link(struct rung__sys *sys, const char *folder, struct rung_pcie_link *link)
{
	int rc = read_speed(sys, folder, "current_link_speed", &link->gt_per_s);

	if (rc >= 0)
		rc = read_speed(sys, folder, "max_link_speed", &link->gt_per_s_max);
	if (rc >= 0)
		rc = read_width(sys, folder, "current_link_width", &link->width);
	if (rc >= 0)
		rc = read_width(sys, folder, "max_link_width", &link->width_max);
	return rc;
}

/*
 * Read the properties of a device on PCI; a device elsewhere, such as a drive over a network, keeps
 * its unknown values.
 * @param folder  path of the device's folder, perhaps through links
 */
static int read_pci(struct rung__sys *sys, const char *folder, struct rung_topology_device *device)
{
	const char *location;
	int rc = rung__sys_location(sys, &location, "%s", folder);

	if (rc > 0)
		rc = cut_pci_path(sys, location, &device->pci_path, &device->bus_id);
	if (rc < 0 || !device->pci_path)
		return rc;
	rc = read_node_number(sys, folder, &device->node);
	if (rc >= 0)
		rc = rung__sys_link(sys, &device->driver, "%s/driver", folder);
	if (rc >= 0)
		rc = read_link(sys, folder, &device->link);
	return rc;
}

/* Extend the array of `used` devices by `count` devices whose values are unknown. */
static int grow_devices(struct rung__sys *sys, struct rung_topology *topology, size_t used,
                        size_t count)
{
	struct rung_topology_device *devices;

	if (used + count > DEVICES_MAX)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: lists %zu GPUs and drives; at most %u are supported",
		                  sys->path, used + count, DEVICES_MAX);
	devices = rung__arena_alloc(sys->arena, used + count, sizeof(*devices));
	if (!devices)
		return no_memory();
	if (used > 0)
		memcpy(devices, topology->devices, used * sizeof(*devices));
	for (size_t i = used; i < used + count; i++) {
		devices[i] = (struct rung_topology_device){ .node = -1,
			                                    .memory_node = -1,
			                                    .bytes = RUNG_UNKNOWN,
			                                    .sector_bytes = RUNG_UNKNOWN };
	}
	topology->devices = devices;
	return 0;
}

/* ---- GPUs ---- */

/* Name of a GPU vendor by its PCI id; NULL: not a vendor of GPUs. */
static const char *vendor_name(uint64_t vendor)
{
	switch (vendor) {
	case 0x10de:
		return "nvidia";
	case 0x1002:
		return "amd";
	case 0x8086:
		return "intel";
	default:
		return NULL;
	}
}

/*
 * Whether a device on PCI is a GPU: a display controller of a GPU vendor, because display
 * controllers of other vendors belong to a server's management controller; or any device with a GPU
 * driver, because some accelerators are not in the display class. Virtual functions of a GPU, which
 * are for guests, are not included.
 * @return 1, 0, or a failure
 */
static int is_gpu(struct rung__sys *sys, const char *name, uint64_t *vendor_out)
{
	const char *driver = NULL, *physical;
	uint64_t class_code = 0;
	int rc;

	*vendor_out = 0;
	rc = rung__sys_number(sys, 16, 0xffffff, &class_code, PCI_DEVICES "/%s/class", name);
	if (rc >= 0)
		rc = rung__sys_number(sys, 16, 0xffff, vendor_out, PCI_DEVICES "/%s/vendor", name);
	if (rc < 0 || !vendor_name(*vendor_out))
		return rc < 0 ? rc : 0;
	rc = rung__sys_link(sys, &physical, PCI_DEVICES "/%s/physfn", name);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (class_code >> 16 == CLASS_DISPLAY)
		return 1;
	rc = rung__sys_link(sys, &driver, PCI_DEVICES "/%s/driver", name);
	return rc < 0 ? rc
	              : driver && (strcmp(driver, "nvidia") == 0 || strcmp(driver, "amdgpu") == 0);
}

/* Read the model from NVIDIA's driver, and on coherent platforms the node of the GPU's memory. The
 * node gets the GPU's name, so that its memory is not used for rows by default. */
static int read_nvidia(struct rung__sys *sys, struct rung_topology *topology,
                       struct rung_topology_device *gpu)
{
	const char *value = NULL;
	uint64_t node;
	int rc = rung__sys_read(sys, "proc/driver/nvidia/gpus/%s/information", gpu->name);

	if (rc > 0)
		rc = rung__sys_field(sys, "Model:", &gpu->model);
	if (rc >= 0)
		rc = rung__sys_read(sys, "proc/driver/nvidia/gpus/%s/numa_status", gpu->name);
	if (rc > 0)
		rc = rung__sys_field(sys, "Node:", &value);
	if (rc <= 0 || !value || strcmp(value, "-1") == 0)
		return rc;
	if (!rung__number_of_text(value, 10, RUNG_NODES_MAX - 1, "", &node))
		return rung__sys_bad(sys, value, "the number of a node below 1024, or -1");
	gpu->memory_node = (int)node;
	for (uint32_t n = 0; n < topology->info.node_count; n++) {
		if (topology->nodes[n].node == node)
			topology->nodes[n].gpu = gpu->name;
	}
	return 0;
}

static int read_gpu(struct rung__sys *sys, struct rung_topology *topology, const char *name,
                    uint64_t vendor, struct rung_topology_device *gpu)
{
	char folder[64];
	int rc;

	snprintf(folder, sizeof(folder), PCI_DEVICES "/%s", name);
	gpu->kind = RUNG_TOPOLOGY_GPU;
	gpu->name = name;
	gpu->vendor = vendor_name(vendor);
	rc = read_pci(sys, folder, gpu);
	return rc < 0 ? rc : read_nvidia(sys, topology, gpu);
}

/* Find and read all GPUs, in two passes, because their number is needed for the array. */
static int read_gpus(struct rung__sys *sys, struct rung_topology *topology)
{
	const char *const *names, **gpus;
	uint64_t *vendors;
	size_t count, gpu_count = 0;
	int rc = rung__sys_names(sys, is_device, &names, &count, PCI_DEVICES);

	if (rc < 0)
		return rc;
	gpus = rung__arena_alloc(sys->arena, count, sizeof(*gpus));
	vendors = rung__arena_alloc(sys->arena, count, sizeof(*vendors));
	if (!gpus || !vendors)
		return no_memory();
	for (size_t i = 0; i < count; i++) {
		/* vendors of the found GPUs are packed like `gpus`: the next candidate overwrites a
		 * rejected one */
		rc = is_gpu(sys, names[i], &vendors[gpu_count]);
		if (rc < 0)
			return rc;
		if (rc > 0)
			gpus[gpu_count++] = names[i];
	}
	rc = grow_devices(sys, topology, 0, gpu_count);
	for (size_t i = 0; rc >= 0 && i < gpu_count; i++)
		rc = read_gpu(sys, topology, gpus[i], vendors[i], &topology->devices[i]);
	topology->info.gpu_count = (uint32_t)gpu_count;
	return rc;
}

/* ---- NVMe ---- */

/*
 * Find the controller of a namespace. It is the folder above it; a namespace with several
 * controllers is in the folder of its subsystem, with links to them, and the first one is used.
 * *controller_out is NULL if no controller is found.
 */
static int find_controller(struct rung__sys *sys, const char *name, const char **controller_out)
{
	struct rung_id_list numbers = { NULL, 0 };
	const char *location, *parent;
	char *folder, *controller;
	int rc = rung__sys_location(sys, &location, "sys/block/%s", name);

	*controller_out = NULL;
	if (rc <= 0 || !strrchr(location, '/'))
		return rc;
	folder = rung__arena_alloc(sys->arena, strlen(location) + 1, 1);
	if (!folder)
		return no_memory();
	strcpy(folder, location);
	*strrchr(folder, '/') = 0;
	parent = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
	if (is_nvme(parent, 1)) {
		*controller_out = parent;
		return 0;
	}
	rc = rung__sys_numbered(sys, "nvme", "", UINT32_MAX, &numbers, "%s", folder);
	if (rc < 0 || numbers.count == 0)
		return rc;
	controller = rung__arena_alloc(sys->arena, sizeof("nvme4294967295"), 1);
	if (!controller)
		return no_memory();
	snprintf(controller, sizeof("nvme4294967295"), "nvme%" PRIu32, numbers.ids[0]);
	*controller_out = controller;
	return 0;
}

/* Read transport, model and PCI properties of a drive's controller. */
static int read_controller(struct rung__sys *sys, struct rung_topology_device *drive)
{
	char folder[64];
	int rc = rung__sys_text(sys, &drive->transport, "sys/class/nvme/%s/transport",
	                        drive->controller);

	if (rc >= 0)
		rc = rung__sys_text(sys, &drive->model, "sys/class/nvme/%s/model",
		                    drive->controller);
	snprintf(folder, sizeof(folder), "sys/class/nvme/%s/device", drive->controller);
	return rc < 0 ? rc : read_pci(sys, folder, drive);
}

/* Read one namespace. A drive without a known controller keeps its name, size and sector size. */
static int read_drive(struct rung__sys *sys, const char *name, struct rung_topology_device *drive)
{
	uint64_t sectors; /* in units of 512 bytes, whatever the sector size of the drive is */
	int rc;

	drive->kind = RUNG_TOPOLOGY_NVME;
	drive->name = name;
	rc = rung__sys_number(sys, 10, (UINT64_MAX - 1) / 512, &sectors, "sys/block/%s/size", name);
	if (rc > 0)
		drive->bytes = sectors * 512;
	if (rc >= 0)
		rc = rung__sys_number(sys, 10, UINT32_MAX, &drive->sector_bytes,
		                      "sys/block/%s/queue/logical_block_size", name);
	if (rc >= 0)
		rc = find_controller(sys, name, &drive->controller);
	return rc < 0 || !drive->controller ? rc : read_controller(sys, drive);
}

/* Read all drives, after the GPUs in the same array. */
static int read_drives(struct rung__sys *sys, struct rung_topology *topology)
{
	size_t count, used = topology->info.gpu_count;
	const char *const *names;
	int rc = rung__sys_names(sys, is_namespace, &names, &count, "sys/block");

	if (rc >= 0)
		rc = grow_devices(sys, topology, used, count);
	for (size_t i = 0; rc >= 0 && i < count; i++)
		rc = read_drive(sys, names[i], &topology->devices[used + i]);
	topology->info.nvme_count = (uint32_t)count;
	return rc;
}

int rung__topology_read_devices(struct rung__sys *sys, struct rung_topology *topology)
{
	int rc = read_gpus(sys, topology);

	return rc < 0 ? rc : read_drives(sys, topology);
}
