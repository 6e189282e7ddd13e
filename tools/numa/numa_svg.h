/* SPDX-License-Identifier: Apache-2.0 */
/** Parts of the picture of rung numa. Each is written from the height `y` on, and returns the
 * height of its end. */
#ifndef RUNG_TOOL_NUMA_SVG_H
#define RUNG_TOOL_NUMA_SVG_H

#include "numa/numa_results.h"

#define NUMA_SVG_WIDTH  560.0 /* so that it is readable at 400 pixels */
#define NUMA_SVG_MARGIN 20.0

/** The machine: its nodes with their CPUs, memory, GPUs and drives, and the measured rates. */
double numa_map_svg(const struct numa_measured *measured, double y, FILE *out);

#endif
