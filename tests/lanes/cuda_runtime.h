/* SPDX-License-Identifier: Apache-2.0 */
/** Included instead of CUDA's header by the .cu files that the lane tests compile. */
#include "cuda_lanes.h"
