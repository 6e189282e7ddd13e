/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * All of rung.
 */
#ifndef RUNG_RUNG_H
#define RUNG_RUNG_H

#include "dataset.h"
#include "device.h"
#include "dtype.h"
#include "edges.h"
#include "gpu_sampler.h"
#include "graph.h"
#include "loader.h"
#include "numa.h"
#include "plan.h"
#include "profile.h"
#include "rank.h"
#include "sampler.h"
#include "source.h"
#include "stage.h"
#include "stats.h"
#include "status.h"
#include "store.h"
#include "structure.h"
#include "trace.h"

#endif
