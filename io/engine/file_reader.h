/* SPDX-License-Identifier: Apache-2.0 */
/** The ladder of engines: from the best down to one that works. */
#ifndef RUNG_IO_LADDER_H
#define RUNG_IO_LADDER_H

#include "engine/engine.h"

struct rung__ladder {
	const struct rung__engine_ops *ops;                     /* of the one in use */
	struct rung__engine *engine;                            /* NULL: none is open */
	struct rung_engine_step steps[RUNG_ENGINE_STEPS_MAX];   /* best first, the one in use last */
	uint32_t step_count;
	struct rung__engine_report report;                      /* of the one in use */
	char whys[RUNG_ENGINE_STEPS_MAX][RUNG__WHY_BYTES];      /* of the others */
	char why[2 * RUNG__WHY_BYTES];                          /* not a better one, of those that were to be tried */
};


/** The file and the memory that the probe reads with. */
struct rung__ladder_file {
	int fd;
	const char *path;          /* for messages */
	uint64_t bytes;
	uint32_t align;            /* of reads */
	bool direct;
};

/**
 * Open the engine that args->engine asks for, or with AUTO the best one that works: a step counts only when real reads through it
 * have brought what pread() brings. Called by the thread that will use it.
 *
 * @param ladder  all zero; its texts live as long as it does
 * @return 0; RUNG_E_NOSUP (the engine asked for does not work here: the reason), RUNG_E_IO (the file's first bytes cannot be read)
 */
int rung__ladder_start(struct rung__ladder *ladder, const struct rung__tier_args *args, const struct rung__ladder_file *file);

void rung__ladder_stop(struct rung__ladder *ladder);

#endif
