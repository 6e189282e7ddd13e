/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled kernels as a C program meets them, on any machine: they link, and without a GPU they say so. */
#include <criterion/criterion.h>
#include <string.h>

#include "../../kernels/launch.h"

Test(kernels, blocks_are_counted_or_the_missing_gpu_is_named)
{
	unsigned gather_blocks = 77, scatter_blocks = 77;
	int rc = rung__cuda_gather_blocks(&gather_blocks);

	cr_assert_eq(rung__cuda_scatter_blocks(&scatter_blocks), rc);
	if (rc == 0) {
		cr_assert(gather_blocks > 0 && scatter_blocks > 0);
		return;
	}
	cr_assert_eq(rc, RUNG_E_NODEV, "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), "cuda: loading the scatter kernels: "), "%s", rung_last_error());
	cr_assert_eq(gather_blocks, 77);
	cr_assert_eq(scatter_blocks, 77);
}

Test(kernels, arguments_are_looked_at_before_the_device)
{
	struct rung__cuda_gather gather = { .id_dtype = RUNG_F32, .row_bytes = 16, .out_stride = 16 };
	struct rung__cuda_scatter scatter = { .row_bytes = 0 };

	cr_assert_eq(rung__cuda_gather_launch(&gather, 1, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "give i32, u32, i64 or u64"), "%s", rung_last_error());
	cr_assert_eq(rung__cuda_scatter_launch(&scatter, 1, NULL), RUNG_E_INVAL);
}

Test(kernels, a_scatter_of_nothing_needs_no_gpu)
{
	struct rung__cuda_scatter scatter = { .row_bytes = 16, .out_stride = 16 };

	cr_assert_eq(rung__cuda_scatter_launch(&scatter, 1, NULL), 0, "%s", rung_last_error());
}
