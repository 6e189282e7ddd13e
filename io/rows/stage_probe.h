/* SPDX-License-Identifier: Apache-2.0 */
/** Rates of the devices. */
#ifndef RUNG_IO_STAGE_PROBE_H
#define RUNG_IO_STAGE_PROBE_H

#include "run/run.h"

/** Measure the devices of a source and of the output, for well under a second; zeros for a source
 * too small to be worth it. */
void rung__stage_probe(const struct rung__stage *stage, const struct rung_source *src,
                       struct rung__figures *figures_out);

#endif
