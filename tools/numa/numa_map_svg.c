/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as a picture: a box for each node, two per row, with its GPUs and drives. */
#include <math.h>

#include "numa/numa_svg.h"
#include "output/svg.h"

#define GAP       90.0 /* between two boxes: has the rates of the link */
#define BOX_WIDTH ((NUMA_SVG_WIDTH - 2 * NUMA_SVG_MARGIN - GAP) / 2)
#define LINE      19.0
#define TEXT_MAX  128

/* Median of reads by all cores in GB/s, or of the idle latency in ns; NaN: not measured. */
static double value_of(const struct numa_measured *measured, enum rung_numa_matrix matrix, int cpus,
                       int memory)
{
	const struct rung_numa_result *result;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if (numa_is_of(result, matrix, matrix == RUNG_NUMA_BANDWIDTH ? "read" : NULL, 0) &&
		    result->cpu_node == cpus && result->memory_node == memory &&
		    (matrix != RUNG_NUMA_BANDWIDTH || result->all_cores > 0))
			return matrix == RUNG_NUMA_BANDWIDTH ? result->bytes_per_s.median / 1e9
			                                     : result->latency_ns.median;
	}
	return NAN;
}

/* The best measured rate of a device: copies from the node to a GPU, reads of a drive. Else the
 * speed of its link. */
static void device_text(char text[TEXT_MAX], const struct numa_measured *measured, size_t idx)
{
	const struct rung_topology_device *device = numa_device(measured->machine, idx);
	const int is_gpu = device->kind == RUNG_TOPOLOGY_GPU;
	const struct rung_numa_result *result;
	char rate[TOOL_TEXT_BYTES], name[TOOL_TEXT_BYTES];
	double most = 0;

	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++) {
		if (is_gpu && numa_is_of(result, RUNG_NUMA_GPU, "to_gpu", 0) &&
		    numa_alike(result->gpu_bus_id, device->bus_id))
			most = fmax(most, result->bytes_per_s.median / 1e9);
		if (!is_gpu && numa_is_of(result, RUNG_NUMA_NVME, NULL, 0) &&
		    numa_alike(result->drive, device->name))
			most = fmax(most, result->per_s.median / 1000);
	}
	if (is_gpu)
		snprintf(name, sizeof(name), "GPU%zu", idx);
	else
		snprintf(name, sizeof(name), "%.20s", device->name);
	if (most > 0)
		snprintf(text, TEXT_MAX, "%s: %s %s", name, numa_digits(rate, most),
		         is_gpu ? "GB/s" : "k reads/s");
	else if (device->link.gt_per_s > 0 && device->link.width > 0)
		snprintf(text, TEXT_MAX, "%s: PCIe %g GT/s x%u", name, device->link.gt_per_s,
		         device->link.width);
	else
		snprintf(text, TEXT_MAX, "%s", name);
}

/* The devices of a node (-1: those whose node is not known). @return their number; `out` may be
 * NULL to count them */
static size_t write_devices(const struct numa_measured *measured, int node, double x, double y,
                            FILE *out)
{
	const struct rung_topology_device *device;
	char text[TEXT_MAX];
	size_t count = 0;

	for (size_t i = 0; (device = numa_device(measured->machine, i)) != NULL; i++) {
		if (device->node != node)
			continue;
		if (out) {
			fprintf(out,
			        "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"11\" "
			        "height=\"11\" "
			        "rx=\"2\"/>\n",
			        device->kind == RUNG_TOPOLOGY_GPU ? 2 : 1, x,
			        y + LINE * (double)count - 10);
			device_text(text, measured, i);
			svg_text_at(out, x + 18, y + LINE * (double)count, "", text);
		}
		count++;
	}
	return count;
}

/* Size and measured rates of a node. @param node  NULL: the box of devices without a node */
static void write_box(const struct numa_measured *measured, const struct rung_topology_node *node,
                      double x, double y, double width, double height, FILE *out)
{
	char text[TEXT_MAX], a[TOOL_TEXT_BYTES], b[TOOL_TEXT_BYTES];
	double rate, ns;

	fprintf(out,
	        "<rect class=\"s0\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\" "
	        "fill=\"none\" stroke-width=\"2\"/>\n",
	        x, y, width, height);
	x += 12;
	if (!node) {
		svg_text_at(out, x, y + 22, "class=\"label\"", "node not known");
		write_devices(measured, -1, x, y + 22 + LINE, out);
		return;
	}
	snprintf(text, sizeof(text), "node %u", node->node);
	svg_text_at(out, x, y + 22, "class=\"label\"", text);
	snprintf(text, sizeof(text), "%u CPUs, %s", node->cpus.count,
	         node->total_bytes == RUNG_UNKNOWN ? "memory ?"
	                                           : tool_bytes_text(a, (double)node->total_bytes));
	svg_text_at(out, x, y + 22 + LINE, "", text);
	rate = value_of(measured, RUNG_NUMA_BANDWIDTH, (int)node->node, (int)node->node);
	ns = value_of(measured, RUNG_NUMA_LATENCY, (int)node->node, (int)node->node);
	snprintf(text, sizeof(text), "reads %s GB/s, %s ns",
	         isnan(rate) ? "?" : numa_digits(a, rate), isnan(ns) ? "?" : numa_digits(b, ns));
	svg_text_at(out, x, y + 22 + 2 * LINE, "", text);
	write_devices(measured, (int)node->node, x, y + 22 + 3 * LINE, out);
}

/* The link of two nodes in one row: the slower direction counts. */
static void write_link(const struct numa_measured *measured, const struct rung_topology_node *a,
                       const struct rung_topology_node *b, double y, FILE *out)
{
	const double x = NUMA_SVG_MARGIN + BOX_WIDTH,
		     rate = fmin(
			     value_of(measured, RUNG_NUMA_BANDWIDTH, (int)a->node, (int)b->node),
			     value_of(measured, RUNG_NUMA_BANDWIDTH, (int)b->node, (int)a->node)),
		     ns = fmax(value_of(measured, RUNG_NUMA_LATENCY, (int)a->node, (int)b->node),
	                       value_of(measured, RUNG_NUMA_LATENCY, (int)b->node, (int)a->node));
	char text[TEXT_MAX], digits[TOOL_TEXT_BYTES];

	fprintf(out,
	        "<line class=\"rule\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
	        "stroke-width=\"3\"/>\n",
	        x, y, x + GAP, y);
	if (isfinite(rate)) {
		snprintf(text, sizeof(text), "%s GB/s", numa_digits(digits, rate));
		svg_text_at(out, x + GAP / 2, y - 8, "text-anchor=\"middle\"", text);
	}
	if (isfinite(ns)) {
		snprintf(text, sizeof(text), "%s ns", numa_digits(digits, ns));
		svg_text_at(out, x + GAP / 2, y + 18, "text-anchor=\"middle\"", text);
	}
}

double numa_map_svg(const struct numa_measured *measured, double y, FILE *out)
{
	const size_t count = measured->machine->info.node_count,
		     stray = write_devices(measured, -1, 0, 0, NULL);
	const double width = count > 1 ? BOX_WIDTH : NUMA_SVG_WIDTH - 2 * NUMA_SVG_MARGIN;

	for (size_t i = 0; i < count; i += 2) {
		const struct rung_topology_node *left = numa_node(measured->machine, i),
						*right = numa_node(measured->machine, i + 1);
		size_t lines = write_devices(measured, (int)left->node, 0, 0, NULL), more;
		double height;

		more = right ? write_devices(measured, (int)right->node, 0, 0, NULL) : 0;
		lines = more > lines ? more : lines;
		height = 34 + LINE * (double)(2 + lines);
		write_box(measured, left, NUMA_SVG_MARGIN, y, width, height, out);
		if (right) {
			write_box(measured, right, NUMA_SVG_MARGIN + BOX_WIDTH + GAP, y, width,
			          height, out);
			write_link(measured, left, right, y + height / 2, out);
		}
		y += height + 14;
	}
	if (stray > 0) {
		const double height = 34 + LINE * (double)stray;

		write_box(measured, NULL, NUMA_SVG_MARGIN, y, width, height, out);
		y += height + 14;
	}
	return y + 12;
}
