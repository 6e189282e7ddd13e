/* SPDX-License-Identifier: Apache-2.0 */
/* The merge gap: measured once for a large file, or a default. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine_fixture.h"

TestSuite(merge_gap, .init = set_up, .fini = tear_down);

/* A mock engine: reads complete at once, without data, and are counted. */
struct script {
	struct rung__fetch queue[64];
	unsigned count;
	uint64_t reads, bytes;
	int32_t err;
};

static int scripted_submit(struct rung__engine *handle, const struct rung__fetch *fetch)
{
	struct script *engine = (struct script *)(void *)handle;

	cr_assert_lt(engine->count, 64);
	cr_assert_leq(fetch->offset + fetch->bytes, reader.geometry.file_bytes);
	cr_assert_leq(fetch->to + fetch->bytes, reader.args.probe_at + reader.args.probe_bytes);
	engine->queue[engine->count++] = *fetch;
	engine->reads++;
	return 0;
}

static int scripted_reap(struct rung__engine *handle, uint32_t want, uint64_t timeout_ns,
                         struct rung__fetched *fetched, uint32_t max)
{
	struct script *engine = (struct script *)(void *)handle;
	unsigned count = RUNG__MIN(engine->count, max);

	(void)timeout_ns;
	cr_assert_geq(engine->count, want);
	for (unsigned i = 0; i < count; i++)
		fetched[i] =
			(struct rung__fetched){ engine->queue[i].token,
			                        engine->err ? engine->err
			                                    : (int32_t)engine->queue[i].bytes };
	engine->count -= count;
	memmove(engine->queue, engine->queue + count, engine->count * sizeof(engine->queue[0]));
	return (int)count;
}

static const struct rung__engine_ops scripted = { .name = "scripted",
	                                          .submit = scripted_submit,
	                                          .reap = scripted_reap };
static struct script script;

static uint32_t measured(void)
{
	uint32_t gap = 1;

	reader.ops = &scripted;
	reader.engine = (struct rung__engine *)(void *)&script;
	cr_assert_eq(rung__merge_gap_measure(&rung__file_reader, &reader, 131072, &gap), 0);
	reader.engine = NULL; /* the mock cannot be closed */
	cr_assert_eq(script.count, 0, "reads are still in flight");
	return gap;
}

Test(merge_gap, it_is_measured_once_for_a_large_file)
{
	uint64_t reads;
	uint32_t gap;

	reader.geometry.file_bytes = 64u << 20;
	cr_assert_eq(truncate(path, (off_t)reader.geometry.file_bytes), 0);
	reader.direct = true;
	gap = measured();
	reads = script.reads;
	cr_assert_gt(reads, 0);
	cr_assert_leq(gap, 65536);
	cr_assert_eq(gap % reader.geometry.align, 0);
	cr_assert_eq(measured(), gap);
	cr_assert_eq(script.reads, reads, "the gap was measured again");
}

Test(merge_gap, it_is_the_default_if_it_cannot_be_measured)
{
	reader.direct = true;
	cr_assert_eq(measured(), RUNG__MERGE_GAP_DEFAULT);
	reader.geometry.file_bytes = 64u << 20;
	reader.direct = false;
	cr_assert_eq(measured(), RUNG__MERGE_GAP_DEFAULT);
	cr_assert_eq(script.reads, 0);
	reader.direct = true;
	script.err = -EIO;
	cr_assert_eq(measured(), RUNG__MERGE_GAP_DEFAULT);
	cr_assert_gt(script.reads, 0);
}

Test(merge_gap, it_is_bandwidth_over_reads_per_second)
{
	cr_assert_eq(rung__merge_gap_of(1.6e9, 1e5, 512), 15872); /* 16000 in whole sectors */
	cr_assert_eq(rung__merge_gap_of(1.6e9, 1e5, 4096), 12288);
	cr_assert_eq(rung__merge_gap_of(1e8, 100, 512), 65536); /* a hard disk */
	cr_assert_eq(rung__merge_gap_of(0, 1e5, 512), RUNG__MERGE_GAP_DEFAULT);
	cr_assert_eq(rung__merge_gap_of(1e9, 0, 512), RUNG__MERGE_GAP_DEFAULT);
}
