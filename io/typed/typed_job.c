/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of a typed dataset: the lines of the inputs of each part, with the folder of the part
 * before their keys, and the lines of the options that all parts share.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "stage/stage_job.h"
#include "typed/state.h"

/* A text in memory; failures to write are noticed when it is closed. */
struct job_text {
	FILE *stream;
	char *bytes;
	size_t length;
};

/* Add the lines of the inputs of a part. `opts` has nothing else. */
static int add_inputs(struct job_text *text, const char *folder, const struct rung_stage_opts *opts)
{
	struct rung__stage stage = { .opts = *opts };
	int rc = rung__stage_job_begin(&stage);

	for (const char *at = stage.job_inputs; rc == 0 && *at; at = strchr(at, '\n') + 1)
		fprintf(text->stream, "%s.%.*s\n", folder, (int)strcspn(at, "\n"), at);
	rung__free(stage.job_inputs);
	return rc;
}

static int add_type(const struct rung__typed *typed, struct job_text *text, uint32_t idx)
{
	const struct rung_stage_type *type = &typed->stage.opts.types[idx];
	const char *folder = typed->stage.manifest->types->types[idx].folder;
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;

	opts.features = type->features;
	opts.labels = type->labels;
	opts.splits = type->splits;
	opts.split_count = type->split_count;
	opts.arrays = type->arrays;
	opts.array_count = type->array_count;
	fprintf(text->stream,
	        "%s %" PRIu64 " vertices, splits %zu, arrays %zu, quantize %d, scales %d\n", folder,
	        typed->stage.manifest->types->types[idx].vertex_count, type->split_count,
	        type->array_count, (int)type->quantize, (int)type->quant_scales);
	return add_inputs(text, folder, &opts);
}

static int add_relation(const struct rung__typed *typed, struct job_text *text, uint32_t idx)
{
	const struct rung_stage_relation *relation = &typed->stage.opts.relations[idx];
	const struct rung__manifest *m = typed->stage.manifest;
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;

	opts.graph = rung__typed_graph_opts(typed, idx);
	opts.features = relation->rows;
	fprintf(text->stream, "%s graphs %zu, undirected %d, dedup %d, reversed %d, fanouts",
	        m->types->relations[idx].folder, relation->spec_count, !!relation->undirected,
	        !!relation->dedup, !!relation->reversed);
	for (uint32_t hop = 0; hop < m->fanout_count; hop++)
		fprintf(text->stream, " %" PRIu32, m->types->relations[idx].fanouts[hop]);
	fputc('\n', text->stream);
	return add_inputs(text, m->types->relations[idx].folder, &opts);
}

static int make(const struct rung__typed *typed, char **job_out)
{
	const struct rung__stage *stage = &typed->stage;
	const struct rung__manifest *m = stage->manifest;
	struct job_text text = { 0 };
	int rc = 0;

	text.stream = open_memstream(&text.bytes, &text.length);
	if (!text.stream)
		return rung__fail(RUNG_E_NOMEM, "staging: no memory for the record of its inputs");
	fprintf(text.stream,
	        "types %" PRIu32 ", relations %" PRIu32 ", seeds of type %s\n"
	        "sampling %" PRIu32 " hops, batches of %" PRIu32 ", draws %d\n"
	        "score %s, seed %" PRIu64 ", batches %" PRIu32 "\n"
	        "in-place %d, padding %d\n",
	        m->types->type_count, m->types->relation_count,
	        m->types->types[m->types->seed_type].name, m->fanout_count, m->batch_size,
	        (int)m->draws, m->score_method, stage->opts.score.seed,
	        stage->opts.score.batches_max, !!stage->opts.in_place, (int)stage->opts.pad);
	for (uint32_t i = 0; i < m->types->type_count && rc == 0; i++)
		rc = add_type(typed, &text, i);
	for (uint32_t i = 0; i < m->types->relation_count && rc == 0; i++)
		rc = add_relation(typed, &text, i);
	if (fclose(text.stream) != 0 && rc == 0)
		rc = rung__fail(RUNG_E_NOMEM, "staging: no memory for the record of its inputs");
	/* the memory of the stream is not rung's */
	*job_out = rc == 0 ? rung__strdup(text.bytes) : NULL;
	free(text.bytes);
	return rc == 0 && !*job_out ? rung__fail(RUNG_E_NOMEM, "staging: no memory for the record "
	                                                       "of its inputs")
	                            : rc;
}

int rung__typed_describe(struct rung__typed *typed)
{
	struct rung__stage *stage = &typed->stage;
	int rc = make(typed, &stage->job);

	/* a longer record would make the manifest too long for readers */
	if (rc < 0 || strlen(stage->job) > RUNG__JOB_BYTES_MAX)
		return rc;
	stage->manifest->job = rung__strdup(stage->job);
	return stage->manifest->job ? 0 : rung__fail(RUNG_E_NOMEM, "staging: no memory");
}

int rung__typed_unchanged(struct rung__typed *typed)
{
	char *now = NULL;
	const char *a = typed->stage.job, *b;
	int rc = make(typed, &now);

	if (rc < 0)
		return rc;
	for (b = now; *a && *a == *b; a++, b++)
		;
	if (*a || *b) {
		while (b > now && b[-1] != '\n')
			b--;
		rc = rung__fail(RUNG_E_CORRUPT,
		                "staging %s: an input changed while it was read: %.*s; start from "
		                "scratch with --force",
		                typed->stage.opts.out_dir, (int)strcspn(b, "\n"), b);
	}
	rung__free(now);
	return rc;
}
