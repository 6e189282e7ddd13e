/* SPDX-License-Identifier: Apache-2.0 */
/** Measured rates of the devices, from which the order of rows is chosen. */
#ifndef RUNG_IO_STAGE_PROBE_H
#define RUNG_IO_STAGE_PROBE_H

#include "run/run.h"

/** Measure the devices of a source and of the output, in less than a second. All rates are 0 if the
 * source is small or in memory, or if a measurement fails: this is not a failure of staging. */
void rung__stage_probe(const struct rung__stage *stage, const struct rung_source *src,
                       struct rung__figures *figures_out);

#endif
