/* SPDX-License-Identifier: Apache-2.0 */
/* A small staged data set. */
#include <stdio.h>
#include <stdlib.h>

#include "dataset.h"
#include "rung/stage.h"

int support_dataset(const char *dir, uint64_t vertices, uint64_t edges, uint64_t row_bytes,
                    uint64_t seed)
{
	char graph[4096], features[4096], labels[4096], train[4096], valid[4096], out[4096];
	const char *specs[] = { graph };
	const struct rung_stage_split splits[] = { { "train", train }, { "valid", valid } };
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;

	if (support_sources(dir, vertices, edges, row_bytes, seed) < 0)
		return RUNG_E_IO;
	snprintf(graph, sizeof(graph), "%s/edges.npy", dir);
	snprintf(features, sizeof(features), "%s/features.npy", dir);
	snprintf(labels, sizeof(labels), "%s/labels.npy", dir);
	snprintf(train, sizeof(train), "%s/train.npy", dir);
	snprintf(valid, sizeof(valid), "%s/valid.npy", dir);
	snprintf(out, sizeof(out), "%s/ds", dir);
	opts.graph.specs = specs;
	opts.graph.spec_count = 1;
	opts.features = features;
	opts.out_dir = out;
	opts.labels = labels;
	opts.splits = splits;
	opts.split_count = 2;
	opts.in_place = getenv("RUNG_TEST_IN_PLACE") != NULL;
	/* a score without sampling: many tests stage such a dataset */
	opts.score.method = RUNG_SCORE_WRPAGERANK;
	return rung_stage(&opts, NULL);
}
