/* SPDX-License-Identifier: Apache-2.0 */
/** Recorded and invented machines of tests/fixtures, made into folders. A step that fails ends the
 * program. */
#ifndef SUPPORT_MACHINE_H
#define SUPPORT_MACHINE_H

#include <stddef.h>

/** Make fixtures/NAME.machine in a new folder, which support_remove() takes away. */
void support_machine(const char *name, char *root, size_t root_bytes);

/** A symbolic link in it, in the place of what is there. */
void support_put_link(const char *root, const char *name, const char *target);

/** A node of a machine with two, with so many KiB of memory in all and free; the other one is 20
 * away. `cpus` as in cpulist. */
void support_put_node(const char *root, unsigned node, const char *cpus,
                      unsigned long long total_kib, unsigned long long free_kib);

/** The lowest CPU that this process may use. */
unsigned support_first_cpu(void);

#endif
