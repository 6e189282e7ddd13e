/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled kernels, used by a C program on any machine: they link, and without a GPU they
 * return an error. */
#include <criterion/criterion.h>
#include <string.h>

#include "../../../kernels/sampler_launch.h"

Test(kernels, block_counts_are_returned_or_the_missing_gpu_is_named)
{
	unsigned gather_blocks = 77, scatter_blocks = 77, sampler_blocks = 77;
	int rc = rung__cuda_gather_blocks(&gather_blocks);

	cr_assert_eq(rung__cuda_sampler_blocks(&sampler_blocks), rc);
	cr_assert_eq(rung__cuda_scatter_blocks(&scatter_blocks), rc);
	if (rc == 0) {
		cr_assert(gather_blocks > 0 && scatter_blocks > 0 && sampler_blocks > 0);
		return;
	}
	cr_assert_eq(rc, RUNG_E_NODEV, "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), "cuda: loading the scatter kernels: "), "%s",
	          rung_last_error());
	cr_assert_eq(gather_blocks, 77);
	cr_assert_eq(scatter_blocks, 77);
	cr_assert_eq(sampler_blocks, 77);
}

Test(kernels, arguments_are_checked_before_the_device)
{
	struct rung__cuda_gather gather = { .id_dtype = RUNG_F32,
		                            .row_bytes = 16,
		                            .out_stride = 16 };
	struct rung__cuda_scatter scatter = { .row_bytes = 0 };

	cr_assert_eq(rung__cuda_gather_launch(&gather, 1, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "use i32, u32, i64 or u64"), "%s", rung_last_error());
	cr_assert_eq(rung__cuda_scatter_launch(&scatter, 1, NULL), RUNG_E_INVAL);
}

/* A sampler of a graph of 10 vertices and 20 edges at any address: no test reads the graph. */
static struct rung__cuda_sampler small_sampler(const unsigned char *somewhere)
{
	const uint32_t fanout = 2;
	struct rung__cuda_sampler sampler = {
		.graph = { .vertex_count = 10,
		           .edge_count = 20,
		           .indptr = { .item_bytes = 8, .view_count = 1 },
		           .indices = { .item_bytes = 4, .view_count = 1 } },
		.fanouts = { fanout },
		.hop_count = 1,
	};
	const struct rung__cuda_view one_line = {
		.base = { somewhere }, .base_count = 1, .stride = 128, .rank_end = 1
	};

	sampler.graph.indptr.views[0] = one_line;
	sampler.graph.indices.views[0] = one_line;
	cr_assert_eq(rung__cuda_sample_capacity_max(10, 20, &fanout, 1, 4, &sampler.capacity), 0,
	             "%s", rung_last_error());
	return sampler;
}

Test(kernels, sampler_arguments_are_checked_before_the_device)
{
	static unsigned char room[65536] __attribute__((aligned(128)));
	struct rung__cuda_sampler sampler = small_sampler(room);
	struct rung__cuda_sample sample = {
		.seeds = (const uint64_t *)room,
		.seed_count = 5,
		.vertices = (uint64_t *)room,
		.indptr = { (uint64_t *)room },
		.indices = { (uint32_t *)room },
		.workspace = room,
		.workspace_bytes = sizeof(room),
		.report = (struct rung__cuda_sample_report *)room,
	};
	uint64_t bytes = 0;

	cr_assert_eq(rung__cuda_sampler_check(&sampler), 0, "%s", rung_last_error());
	cr_assert_eq(rung__cuda_sampler_workspace(&sampler, &bytes), 0);
	cr_assert(bytes > 0 && bytes <= sizeof(room));
	cr_assert_eq(rung__cuda_sample_launch(&sampler, &sample, 1, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "a batch of 5 seeds is out of range; use 1 to 4"), "%s",
	          rung_last_error());
	sample.seed_count = 4;
	sampler.graph.indices.views[0].rank_end = 0;
	cr_assert_eq(rung__cuda_sample_launch(&sampler, &sample, 1, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "not covered by a view"), "%s", rung_last_error());
}

Test(kernels, a_report_becomes_a_status)
{
	static unsigned char room[128] __attribute__((aligned(128)));
	const struct rung__cuda_sampler sampler = small_sampler(room);
	struct rung__cuda_sample_report report = { .outcome = RUNG__CUDA_SAMPLE_DONE };

	cr_assert_eq(rung__cuda_sample_status(&sampler, &report), 0);
	report = (struct rung__cuda_sample_report){ .outcome = RUNG__CUDA_SAMPLE_BAD_SEED,
		                                    .index = 3,
		                                    .value = 10 };
	cr_assert_eq(rung__cuda_sample_status(&sampler, &report), RUNG_E_RANGE);
	cr_assert(strstr(rung_last_error(), "seed 3 is 10, not below the vertex count 10"), "%s",
	          rung_last_error());
}

Test(kernels, a_scatter_of_nothing_needs_no_gpu)
{
	struct rung__cuda_scatter scatter = { .row_bytes = 16, .out_stride = 16 };

	cr_assert_eq(rung__cuda_scatter_launch(&scatter, 1, NULL), 0, "%s", rung_last_error());
}
