/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts outside src/ that the core calls, each a table of functions. registry.c is the only
 * file of src/ that refers to io/ or kernels/ by name. Private to rung.
 */
#ifndef RUNG_REGISTRY_REGISTRY_H
#define RUNG_REGISTRY_REGISTRY_H

struct rung__device_ops;
struct rung__reader_ops;

/** The reader of features files. NULL if the core was built alone (RUNG_CORE_ONLY), without io/. */
const struct rung__reader_ops *rung__registry_reader(void);

/** The device "cuda". NULL if it is not built in. */
const struct rung__device_ops *rung__registry_cuda(void);

#endif
