/* SPDX-License-Identifier: Apache-2.0 */
/** Engines: ways of having many reads of one file in flight. The NVMe tier picks one at start. */
#ifndef RUNG_IO_ENGINE_H
#define RUNG_IO_ENGINE_H

#include "tier.h"

struct rung__engine;

struct rung__engine_args {
	int fd;
	const char *path;
	unsigned char *pool;
	uint64_t pool_bytes;
	uint32_t queue_depth;
};

struct rung__engine_ops {
	const char *name;
	/**
	 * Called by the thread that will submit and reap.
	 * @param why_out  a constant text: what this engine had to do without, "" for nothing; on failure the reason
	 * @return 0 or -errno, with nothing left behind
	 */
	int (*open)(const struct rung__engine_args *args, struct rung__engine **engine_out, const char **why_out);
	void (*close)(struct rung__engine *engine);
	int (*submit)(struct rung__engine *engine, const struct rung__fetch *fetch);   /* as in rung__tier_ops */
	int (*reap)(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max);
};

#include "rung_config.h"
#if RUNG_HAVE_IO_URING
extern const struct rung__engine_ops rung__engine_io_uring;
#endif
extern const struct rung__engine_ops rung__engine_pread;

#endif
