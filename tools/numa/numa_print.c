/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topology as tables. Unknown values are "?", values that do not exist are "-".
 *
 * All *_cell() functions append one cell to a table. Without memory the table remembers it, and
 * tool_table_print() fails; only its result has to be checked.
 */
#include <stdlib.h>
#include <string.h>

#include "numa/numa.h"
#include "output/table.h"

char *numa_list_text(const struct rung_id_list *list)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = list->ids ? open_memstream(&text, &bytes) : NULL;

	if (!out)
		return NULL;
	if (list->count == 0)
		fputc('-', out);
	/* each step prints one range of consecutive numbers, ids[i] to ids[last]; the list is
	 * ascending */
	for (uint32_t i = 0, last; i < list->count; i = last + 1) {
		for (last = i;
		     last + 1 < list->count && list->ids[last + 1] == list->ids[last] + 1;)
			last++;
		fprintf(out, "%s%u", i ? "," : "", list->ids[i]);
		if (last > i)
			fprintf(out, "-%u", list->ids[last]);
	}
	if (fclose(out) != 0) { /* the stream had no memory to grow */
		free(text);
		return NULL;
	}
	return text;
}

static void list_cell(struct tool_table *table, const struct rung_id_list *list)
{
	char *text = numa_list_text(list);

	tool_table_cell(table, "%s", text ? text : "?");
	free(text);
}

/* @param per  "" for a size, "/s" for a rate */
static void bytes_cell(struct tool_table *table, uint64_t bytes, const char *per)
{
	char text[TOOL_TEXT_BYTES];

	if (bytes == RUNG_UNKNOWN)
		tool_table_cell(table, "?");
	else
		tool_table_cell(table, "%s%s", tool_bytes_text(text, (double)bytes), per);
}

static void text_cell(struct tool_table *table, const char *text)
{
	tool_table_cell(table, "%s", text ? text : "?");
}

static void node_cell(struct tool_table *table, int node)
{
	if (node < 0)
		tool_table_cell(table, "?");
	else
		tool_table_cell(table, "%d", node);
}

static void headings(struct tool_table *table, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tool_table_cell(table, "%s", names[i]);
}

#define HEADINGS(table, ...)                                                                       \
	headings(table, (const char *const[]){ __VA_ARGS__ },                                      \
	         sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* ---- machine ---- */

/* The plural ending of a noun. */
static const char *plural(uint32_t count)
{
	return count == 1 ? "" : "s";
}

/* Two lines: the machine, and the part of it that this process is allowed to use. */
static void print_machine(const struct rung_topology_info *info)
{
	char text[TOOL_TEXT_BYTES];
	char *cpus = numa_list_text(&info->cpus_allowed),
	     *nodes = numa_list_text(&info->nodes_allowed);

	printf("%u NUMA node%s", info->node_count, plural(info->node_count));
	if (!info->numa)
		printf(" (the kernel shows none: node 0 stands for the whole machine)");
	if (info->cpus.ids)
		printf(", %u CPU%s", info->cpus.count, plural(info->cpus.count));
	if (info->cpus_offline.count)
		printf(" and %u that %s off", info->cpus_offline.count,
		       info->cpus_offline.count == 1 ? "is" : "are");
	if (info->total_bytes != RUNG_UNKNOWN)
		printf(", %s of memory", tool_bytes_text(text, (double)info->total_bytes));
	printf(", %u GPU%s, %u NVMe drive%s\n", info->gpu_count, plural(info->gpu_count),
	       info->nvme_count, plural(info->nvme_count));
	printf("this process may use CPUs %s, memory of nodes %s", cpus ? cpus : "?",
	       nodes ? nodes : "?");
	if (info->available_bytes != RUNG_UNKNOWN)
		printf("; %s available", tool_bytes_text(text, (double)info->available_bytes));
	if (info->limit_bytes != RUNG_UNKNOWN)
		printf(", control groups allow %s",
		       tool_bytes_text(text, (double)info->limit_bytes));
	putchar('\n');
	free(cpus);
	free(nodes);
}

/* ---- nodes ---- */

/* "64", or "4 of 64" where not all are allowed. */
static void cpu_count_cell(struct tool_table *table, const struct rung_topology_node *node)
{
	if (!node->cpus.ids)
		tool_table_cell(table, "?");
	else if (node->cpus_allowed.ids && node->cpus_allowed.count < node->cpus.count)
		tool_table_cell(table, "%u of %u", node->cpus_allowed.count, node->cpus.count);
	else
		tool_table_cell(table, "%u", node->cpus.count);
}

/* "500 of 512 x 2.00 MiB" for each size; sizes without reserved pages are left out. */
static void huge_page_cell(struct tool_table *table, const struct rung_topology_node *node)
{
	char text[256] = "", size[TOOL_TEXT_BYTES],
	     free_text[TOOL_TEXT_BYTES]; /* room for the four sizes of ARM */

	for (size_t i = 0; i < node->huge_page_count; i++) {
		const struct rung_huge_pages *pages = &node->huge_pages[i];
		const size_t used = strlen(text);

		if (pages->total == 0 || pages->total == RUNG_UNKNOWN)
			continue;
		if (pages->free != RUNG_UNKNOWN)
			snprintf(free_text, sizeof(free_text), "%llu of ",
			         (unsigned long long)pages->free);
		else
			free_text[0] = 0;
		snprintf(text + used, sizeof(text) - used, "%s%s%llu x %s", used ? ", " : "",
		         free_text, (unsigned long long)pages->total,
		         tool_bytes_text(size, (double)pages->page_bytes));
	}
	tool_table_cell(table, "%s", text[0] ? text : "-");
}

/* Append a note, separated by a comma from the one before. */
static void add_note(FILE *out, const char *note, const char *more)
{
	fprintf(out, "%s%s%s", ftell(out) > 0 ? ", " : "", note, more);
}

/* Everything unusual about a node: GPU memory, no CPUs, no memory, restrictions, offline CPUs. */
static void note_cell(struct tool_table *table, const struct rung_topology_node *node)
{
	char *offline = node->cpus_offline.count ? numa_list_text(&node->cpus_offline) : NULL,
	     *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (out) {
		if (node->gpu) /* implies that the node has no CPUs */
			add_note(out, "memory of GPU ", node->gpu);
		else if (!node->has_cpu)
			add_note(out, "no CPUs", "");
		if (!node->has_memory)
			add_note(out, "no memory", "");
		else if (node->memory_allowed == 0)
			add_note(out, "memory not allowed", "");
		if (offline)
			add_note(out, "off: CPUs ", offline);
		fclose(out);
	}
	tool_table_cell(table, "%s", text ? text : "");
	free(text);
	free(offline);
}

static int print_nodes(const struct numa_machine *machine)
{
	struct tool_table *table = tool_table_new("rrrrlll");
	const struct rung_topology_node *node;

	HEADINGS(table, "node", "CPUs", "memory", "available", "free huge pages", "CPU list",
	         "notes");
	for (size_t i = 0; (node = numa_node(machine, i)) != NULL; i++) {
		tool_table_cell(table, "%u", node->node);
		cpu_count_cell(table, node);
		bytes_cell(table, node->total_bytes, "");
		/* not free_bytes: the page cache fills memory that can still be allocated. Older
		 * files have only those */
		bytes_cell(table,
		           node->available_bytes != RUNG_UNKNOWN ? node->available_bytes
		                                                 : node->free_bytes,
		           "");
		huge_page_cell(table, node);
		list_cell(table, &node->cpus);
		note_cell(table, node);
	}
	putchar('\n');
	return tool_table_print(table);
}

/* Layout of a matrix for tool_table_new(): a left-aligned column of names, then `count`
 * right-aligned ones. Free it with free(), after the table: the table does not copy it. */
static char *right_columns(size_t count)
{
	char *columns = malloc(count + 2);

	if (columns) {
		memset(columns, 'r', count + 1);
		columns[0] = 'l';
		columns[count + 1] = 0;
	}
	return columns;
}

/* The firmware's distances (SLIT): 10 is local. */
static int print_distances(const struct numa_machine *machine, size_t count)
{
	char *columns = right_columns(count);
	struct tool_table *table = columns ? tool_table_new(columns) : NULL;
	int rc;

	tool_table_cell(table, "distance");
	for (size_t to = 0; to < count; to++)
		tool_table_cell(table, "node%u", numa_node(machine, to)->node);
	for (size_t from = 0; from < count; from++) {
		tool_table_cell(table, "node%u", numa_node(machine, from)->node);
		for (size_t to = 0; to < count; to++) {
			uint32_t distance = numa_distance(machine, from, to);

			if (distance)
				tool_table_cell(table, "%u", distance);
			else
				tool_table_cell(table, "?");
		}
	}
	putchar('\n');
	rc = tool_table_print(table);
	free(columns);
	return rc;
}

static void latency_cell(struct tool_table *table, uint64_t ns)
{
	if (ns == RUNG_UNKNOWN)
		tool_table_cell(table, "?");
	else
		tool_table_cell(table, "%llu ns", (unsigned long long)ns);
}

/* Nonzero if two ratings differ at most in their access class. */
static int same_rating(const struct rung_memory_rating *a, const struct rung_memory_rating *b)
{
	return a->initiators.count == b->initiators.count &&
	       (a->initiators.count == 0 ||
	        memcmp(a->initiators.ids, b->initiators.ids,
	               a->initiators.count * sizeof(*a->initiators.ids)) == 0) &&
	       a->read_bytes_per_s == b->read_bytes_per_s &&
	       a->write_bytes_per_s == b->write_bytes_per_s &&
	       a->read_latency_ns == b->read_latency_ns &&
	       a->write_latency_ns == b->write_latency_ns;
}

/* Prints nothing if the firmware rates no memory, and one line if both classes are equal. */
static int print_ratings(const struct numa_machine *machine)
{
	struct tool_table *table = tool_table_new("rlrrrrr");
	const struct rung_topology_node *node;
	size_t count = 0;

	HEADINGS(table, "memory of", "from nodes", "access", "read", "write", "read latency",
	         "write latency");
	for (size_t i = 0; (node = numa_node(machine, i)) != NULL; i++) {
		for (size_t r = 0; r < node->rating_count; r++, count++) {
			if (r > 0 && same_rating(&node->ratings[r - 1], &node->ratings[r]))
				continue;
			tool_table_cell(table, "node%u", node->node);
			list_cell(table, &node->ratings[r].initiators);
			tool_table_cell(table, "%u", node->ratings[r].access);
			bytes_cell(table, node->ratings[r].read_bytes_per_s, "/s");
			bytes_cell(table, node->ratings[r].write_bytes_per_s, "/s");
			latency_cell(table, node->ratings[r].read_latency_ns);
			latency_cell(table, node->ratings[r].write_latency_ns);
		}
	}
	if (count == 0) {
		tool_table_free(table);
		return 0;
	}
	printf("\nas the firmware rates it, not measured:\n");
	return tool_table_print(table);
}

/* ---- devices ---- */

/* "16 GT/s x8"; "?" if either is unknown. */
static void speed_text(char text[TOOL_TEXT_BYTES], double gt_per_s, uint32_t width)
{
	if (gt_per_s > 0 && width > 0)
		snprintf(text, TOOL_TEXT_BYTES, "%g GT/s x%u", gt_per_s, width);
	else
		snprintf(text, TOOL_TEXT_BYTES, "?");
}

/* The current speed, and after "of" the highest if it differs: idle GPUs slow down their link. */
static void link_cell(struct tool_table *table, const struct rung_pcie_link *link)
{
	char now[TOOL_TEXT_BYTES], most[TOOL_TEXT_BYTES];

	speed_text(now, link->gt_per_s, link->width);
	speed_text(most, link->gt_per_s_max, link->width_max);
	if (strcmp(now, most) == 0 || strcmp(most, "?") == 0)
		tool_table_cell(table, "%s", now);
	else
		tool_table_cell(table, "%s of %s", now, most);
}

static int print_gpus(const struct numa_machine *machine, uint32_t count)
{
	struct tool_table *table = tool_table_new("lllllrlr");

	HEADINGS(table, "GPU", "bus id", "vendor", "model", "driver", "node", "PCIe link",
	         "own node");
	for (uint32_t i = 0; i < count; i++) {
		const struct rung_topology_device *gpu = numa_device(machine, i);

		tool_table_cell(table, "GPU%u", i);
		text_cell(table, gpu->name);
		text_cell(table, gpu->vendor);
		text_cell(table, gpu->model);
		tool_table_cell(table, "%s", gpu->driver ? gpu->driver : "-");
		node_cell(table, gpu->node);
		link_cell(table, &gpu->link);
		if (gpu->memory_node >= 0)
			tool_table_cell(table, "%d", gpu->memory_node);
		else
			tool_table_cell(table, "-");
	}
	putchar('\n');
	return tool_table_print(table);
}

/* Drives are the devices of the topology from `first` on, after the GPUs. */
static int print_drives(const struct numa_machine *machine, uint32_t first, uint32_t count)
{
	struct tool_table *table = tool_table_new("lllrrlrl");

	HEADINGS(table, "NVMe", "over", "bus id", "size", "sector", "model", "node", "PCIe link");
	for (uint32_t i = first; i < first + count; i++) {
		const struct rung_topology_device *drive = numa_device(machine, i);

		text_cell(table, drive->name);
		text_cell(table, drive->transport);
		tool_table_cell(table, "%s", drive->bus_id ? drive->bus_id : "-");
		bytes_cell(table, drive->bytes, "");
		if (drive->sector_bytes == RUNG_UNKNOWN)
			tool_table_cell(table, "?");
		else
			tool_table_cell(table, "%llu", (unsigned long long)drive->sector_bytes);
		text_cell(table, drive->model);
		node_cell(table, drive->node);
		link_cell(table, &drive->link);
	}
	putchar('\n');
	return tool_table_print(table);
}

/* Names of devices in the matrix: "GPU0", numbered by bus id as in nvidia-smi, or "nvme0n1". */
static void device_cell(struct tool_table *table, const struct numa_machine *machine, size_t idx)
{
	const struct rung_topology_device *device = numa_device(machine, idx);

	if (device->kind == RUNG_TOPOLOGY_GPU)
		tool_table_cell(table, "GPU%zu", idx);
	else
		tool_table_cell(table, "%s", device->name);
}

/* One matrix, devices by GPUs and nodes, in the form of nvidia-smi topo -m, with a legend. Links
 * between drives are only in the JSON: with many drives the table would be too wide. */
static int print_links(const struct numa_machine *machine, const struct rung_topology_info *info)
{
	size_t devices = (size_t)info->gpu_count + info->nvme_count;
	char *columns = right_columns((size_t)info->gpu_count + info->node_count);
	struct tool_table *table = columns ? tool_table_new(columns) : NULL;
	int rc;

	tool_table_cell(table, "link");
	for (size_t i = 0; i < info->gpu_count; i++)
		device_cell(table, machine, i);
	for (size_t n = 0; n < info->node_count; n++)
		tool_table_cell(table, "node%u", numa_node(machine, n)->node);
	for (size_t a = 0; a < devices; a++) {
		device_cell(table, machine, a);
		for (size_t b = 0; b < info->gpu_count; b++)
			tool_table_cell(table, "%s", rung_link_name(numa_link(machine, a, b)));
		for (size_t n = 0; n < info->node_count; n++)
			tool_table_cell(table, "%s", rung_link_name(numa_node_link(machine, a, n)));
	}
	putchar('\n');
	rc = tool_table_print(table);
	free(columns);
	if (rc == 0) {
		printf("X itself, PIX at most one PCIe switch, PXB several, PHB a host bridge, "
		       "NODE host bridges of\none node (between a device and a node: it is at that "
		       "node), SYS the interconnect between\nnodes, ? not known. NVLink is not "
		       "included.\n");
	}
	return rc;
}

int numa_topology_print(const struct numa_machine *machine)
{
	const struct rung_topology_info info = machine->info;
	int rc;

	print_machine(&info);
	rc = print_nodes(machine);
	/* tables that would be empty are left out, such as the distances without NUMA */
	if (rc == 0 && info.numa)
		rc = print_distances(machine, info.node_count);
	if (rc == 0)
		rc = print_ratings(machine);
	if (rc == 0 && info.gpu_count)
		rc = print_gpus(machine, info.gpu_count);
	if (rc == 0 && info.nvme_count)
		rc = print_drives(machine, info.gpu_count, info.nvme_count);
	if (rc == 0 && info.gpu_count + info.nvme_count)
		rc = print_links(machine, &info);
	return rc;
}
