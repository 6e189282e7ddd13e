/* SPDX-License-Identifier: Apache-2.0 */
/** Recorded and synthetic machines of tests/fixtures, written to folders. A step that fails ends
 * the program. */
#ifndef SUPPORT_MACHINE_H
#define SUPPORT_MACHINE_H

#include <stddef.h>

/** Write fixtures/NAME.machine to a new folder, which support_remove() removes. */
void support_machine(const char *name, char *root, size_t root_bytes);

/** Create a symbolic link in it; replaces an existing entry. */
void support_put_link(const char *root, const char *name, const char *target);

/** Write node `node` of a two-node machine with this total and free memory in KiB; the other node
 * is at distance 20. `cpus` has the format of the kernel's cpulist. */
void support_put_node(const char *root, unsigned node, const char *cpus,
                      unsigned long long total_kib, unsigned long long free_kib);

/** The lowest CPU that this process may use. */
unsigned support_first_cpu(void);

#endif
