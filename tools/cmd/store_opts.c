/* SPDX-License-Identifier: Apache-2.0 */
/* Options of stores and structures from those of the engine. */
#include "tool.h"

struct rung_store_opts tool_store_opts(const struct tool_store_args *args,
                                       const struct rung_store_opts *opts)
{
	struct rung_store_opts all = *opts;

	all.queue_depth = args->queue_depth;
	all.engine = args->engine;
	all.buffered = args->buffered;
	all.no_merge = args->no_merge;
	all.merge_gap_bytes = args->merge_gap_bytes;
	all.window = args->window;
	all.vertex_ids = args->vertex_ids;
	return all;
}
