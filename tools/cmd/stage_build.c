/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the lists that are built from options of rung stage. */
#include <stdlib.h>
#include <string.h>

#include "cmd/stage_build.h"

void *stage_own(struct stage_build *build, void *block)
{
	struct stage_typed *typed = build->typed;
	void **owned = realloc(typed->owned, (typed->owned_count + 1) * sizeof(*owned));

	if (owned)
		typed->owned = owned;
	if (!owned || !block) {
		free(block);
		build->code = tool_error(build->name, TOOL_FAILED, "no memory for the options");
		return NULL;
	}
	return owned[typed->owned_count++] = block;
}

void *stage_longer(struct stage_build *build, const void *list, size_t count, size_t item_bytes)
{
	void *copy = stage_own(build, calloc(count + 1, item_bytes));

	if (copy && count)
		memcpy(copy, list, count * item_bytes);
	return copy;
}

void stage_typed_free(struct stage_typed *typed)
{
	for (size_t i = 0; i < typed->owned_count; i++)
		free(typed->owned[i]);
	free(typed->owned);
	free(typed->labels.texts);
	free(typed->splits.texts);
	free(typed->arrays.texts);
	free(typed->quantize.texts);
	free(typed->edges.texts);
	free(typed->edge_rows.texts);
}
