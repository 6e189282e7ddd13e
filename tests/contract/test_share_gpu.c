/* SPDX-License-Identifier: Apache-2.0 */
/* Stores with rows in GPU memory, shared between processes: CUDA IPC wants two of them, so one end is always a child. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share_child.h"
#include "share_fixture.h"

static struct share_fixture s;

static void set_up(void)
{
	if (!fixture_on_cuda())
		cr_skip_test("RUNG_TEST_DEVICE names no GPU tiers");
	share_fixture_open(&s);
}

static void tear_down(void)
{
	share_fixture_close(&s);
}

TestSuite(share_gpu, .init = set_up, .fini = tear_down);

/* Rows that one process has in GPU memory and others read there. */
static bool has_peer_rows(void)
{
	return rung_plan_tier(s.base.plan, fixture_tier(&s.base, "peer"))->row_count > 0;
}

Test(share_gpu, several_processes_gather_at_the_same_time)
{
	struct rung_store *creator = share_fixture_create(&s);

	share_fixture_compete(&s, creator, 2, 5);
	rung_store_close(creator);
}

Test(share_gpu, nobody_minds_an_attacher_that_is_killed)
{
	struct rung_store *creator = share_fixture_create(&s);
	struct share_child killed, child;

	cr_assert_eq(share_child_start(&killed, "attach", s.path, s.base.dir), 0, "%s", killed.line);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&killed, "go"), 0);
	share_child_kill(&killed);
	cr_assert_eq(share_child_ask(&child, "gather 4"), 0, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	share_fixture_check(&s, creator, 1);
	rung_store_close(creator);
}

/* Its GPU memory goes with it: those who read rows there are told, the others do not notice. */
Test(share_gpu, a_creator_that_is_killed_is_told_to_those_who_read_its_memory)
{
	struct share_child creator, child;
	int wanted = has_peer_rows() ? RUNG_E_NODEV : 0;

	cr_assert_eq(share_child_start(&creator, "create", s.path, s.base.dir), 0, "%s", creator.line);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&child, "gather 1"), 0, "%s", child.line);
	share_child_kill(&creator);
	cr_assert_eq(share_child_ask(&child, "gather 2"), wanted, "%s", child.line);
	cr_assert_eq(share_child_ask(&child, "gather 3"), wanted, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);   /* and it closes its store */
}

Test(share_gpu, a_creator_that_closes_is_told_as_well)
{
	struct rung_store *creator = share_fixture_create(&s);
	struct share_child child;

	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	rung_store_close(creator);
	cr_assert_eq(share_child_ask(&child, "gather 2"), has_peer_rows() ? RUNG_E_NODEV : 0, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
}

Test(share_gpu, a_driver_that_registers_no_read_only_memory_is_named)
{
	struct share_child child;
	struct rung_gpu_info info = { .size = sizeof(info) };

	cr_assert_eq(rung_gpu_info(-1, &info), 0);
	if (!strstr(info.name, "imulated"))
		cr_skip_test("a real GPU: what it registers is not ours to say");
	setenv("RUNG_SIM_READ_ONLY", "0", 1);
	cr_assert_eq(share_child_start(&child, "create", s.path, s.base.dir), RUNG_E_NOSUP, "%s", child.line);
	cr_assert(strstr(child.line, "open the store without share_path"), "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	unsetenv("RUNG_SIM_READ_ONLY");
}

Test(share_gpu, a_process_that_has_no_gpu_is_told_so)
{
	struct rung_store *creator = share_fixture_create(&s);
	struct share_child child;

	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	setenv("RUNG_SIM_GPUS", "0", 1);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), RUNG_E_NODEV, "%s", child.line);
	cr_assert(strstr(child.line, "cuda: looking for GPUs"), "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("RUNG_SIM_GPUS");
	rung_store_close(creator);
}
