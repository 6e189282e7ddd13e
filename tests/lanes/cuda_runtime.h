/* SPDX-License-Identifier: Apache-2.0 */
/** Found in place of CUDA's by the .cu files that the lane tests compile. */
#include "cuda_lanes.h"
