/* SPDX-License-Identifier: Apache-2.0 */
/* Stores shared between processes: correct rows everywhere, deaths at either end, and every reason
 * for a refusal. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect_error.h"
#include "share_child.h"
#include "share_fixture.h"

static struct share_fixture s;

static void set_up(void)
{
	share_fixture_open(&s);
}

static void tear_down(void)
{
	share_fixture_close(&s);
}

TestSuite(share, .init = set_up, .fini = tear_down);

static bool there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* ---- rows ---- */

Test(share, an_attached_store_gives_the_same_rows)
{
	struct rung_store *creator = share_fixture_create(&s), *store = share_fixture_attach(&s);
	struct rung_store_stats stats = { .size = sizeof(stats) };
	struct rung_store_info info = { .size = sizeof(info) };

	share_fixture_check(&s, store, 1);
	share_fixture_check(&s, creator, 2);
	cr_assert_eq(rung_store_stats(store, &stats), 0);
	cr_assert_gt(stats.tiers[fixture_tier(&s.base, "host")].hits, 0);
	cr_assert_gt(stats.tiers[fixture_tier(&s.base, "nvme")].hits, 0);
	cr_assert_eq(stats.requests, 1);
	cr_assert_eq(rung_store_info(store, &info), 0);
	cr_assert_eq(info.attached, 1);
	cr_assert_eq(info.vertex_count, s.base.vertices);
	cr_assert_eq(info.features.row_bytes, s.base.row_bytes);
	cr_assert_str_eq(info.dataset_dir, s.base.dir);
	cr_assert_eq(rung_store_info(creator, &info), 0);
	cr_assert_eq(info.attached, 0);
	rung_store_close(store);
	rung_store_close(creator);
}

Test(share, stores_with_all_or_no_rows_in_memory_can_be_shared)
{
	static const uint64_t budgets[] = { RUNG_BYTES_MAX, 4 * 8192 };

	for (unsigned b = 0; b < RUNG__ARRAY_LEN(budgets); b++) {
		struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts),
			                            .host_bytes = budgets[b] };
		struct rung_store_opts opts = { .size = sizeof(opts), .share_path = s.path };
		struct rung_store *creator, *store;
		struct rung_plan *plan;

		if (fixture_in_place() && b > 0)
			plan_opts.host_bytes += s.base.vertices * rung_index_bytes(s.base.vertices);
		cr_assert_eq(rung_plan_create(s.base.ds, &plan_opts, &plan), 0, "%s",
		             rung_last_error());
		cr_assert_eq(rung_plan_tier(plan, 0)->row_count, b == 0 ? s.base.vertices : 0);
		cr_assert_eq(rung_store_open(s.base.ds, plan, &opts, &creator), 0, "%s",
		             rung_last_error());
		cr_assert_eq(rung_store_attach(s.path, NULL, &store), 0, "%s", rung_last_error());
		rung_plan_destroy(plan);
		share_fixture_check(&s, store, b);
		rung_store_close(creator);
		share_fixture_check(&s, store, b + 10);
		rung_store_close(store);
	}
}

Test(share, several_processes_gather_at_the_same_time)
{
	struct rung_store *creator = share_fixture_create(&s);

	share_fixture_compete(&s, creator, 3, 20);
	rung_store_close(creator);
}

/* The inode of the shared rows that a process has mapped; 0 if it has none. */
static unsigned long long mapped_inode(const char *pid, const char *name)
{
	unsigned long long inode = 0;
	char path[64], line[512];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		if (strstr(line, name))
			sscanf(line, "%*s %*s %*s %*s %llu", &inode);
	}
	if (maps)
		fclose(maps);
	return inode;
}

Test(share, the_memory_is_allocated_once)
{
	struct rung_store *creator = share_fixture_create(&s);
	struct share_child child;
	char pid[32];

	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	snprintf(pid, sizeof(pid), "%d", (int)child.pid);
	cr_assert_neq(mapped_inode("self", "memfd:rung-host"), 0);
	cr_assert_eq(mapped_inode("self", "memfd:rung-host"), mapped_inode(pid, "memfd:rung-host"));
	cr_assert_neq(mapped_inode("self", "memfd:rung-map"), 0);
	cr_assert_eq(mapped_inode("self", "memfd:rung-map"), mapped_inode(pid, "memfd:rung-map"));
	cr_assert_eq(share_child_end(&child), 0);
	rung_store_close(creator);
	cr_assert_eq(mapped_inode("self", "memfd:rung-"), 0);
}

Test(share, a_dataset_that_was_moved_is_still_read)
{
	struct rung_store *creator = share_fixture_create(&s), *store;
	char moved[600];

	snprintf(moved, sizeof(moved), "%s.moved", s.base.dir);
	cr_assert_eq(rename(s.base.dir, moved), 0);
	store = share_fixture_attach(&s);
	share_fixture_check(&s, store, 1);
	rung_store_close(store);
	rung_store_close(creator);
}

Test(share, vertex_ids_need_a_creator_that_has_the_map)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .share_path = s.path };
	struct rung_store_opts attach_opts = { .size = sizeof(attach_opts), .vertex_ids = 1 };
	struct rung_store *creator, *store;

	cr_assert_eq(rung_store_open(s.base.ds, s.base.plan, &opts, &creator), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_store_attach(s.path, &attach_opts, &store), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "vertex_ids"), "%s", rung_last_error());
	cr_assert_eq(rung_store_attach(s.path, NULL, &store), 0, "%s", rung_last_error());
	share_fixture_check(&s, store, 1);
	rung_store_close(store);
	rung_store_close(creator);
}

Test(share, an_attacher_without_vertex_ids_has_no_map)
{
	struct rung_store *creator = share_fixture_create(&s), *store;
	uint64_t vertex = 0;
	struct rung_ids ids = { &vertex, 1, RUNG_U64, RUNG_VERTICES };
	unsigned char out[512];

	cr_assert_eq(rung_store_attach(s.path, NULL, &store), 0);
	cr_assert_eq(rung_gather(store, &ids, out, 0), RUNG_E_INVAL);
	share_fixture_check(&s, store, 1);
	rung_store_close(store);
	rung_store_close(creator);
}

/* ---- deaths ---- */

Test(share, attachers_continue_when_the_creator_is_killed)
{
	struct share_child creator, children[2];
	struct rung_store *store;

	cr_assert_eq(share_child_start(&creator, "create", s.path, s.base.dir), 0, "%s",
	             creator.line);
	for (unsigned c = 0; c < 2; c++) {
		cr_assert_eq(share_child_start(&children[c], "attach", s.path, s.base.dir), 0, "%s",
		             children[c].line);
		cr_assert_eq(share_child_ask(&children[c], "go"), 0);
	}
	share_child_kill(&creator);
	for (unsigned c = 0; c < 2; c++) {
		cr_assert_eq(share_child_ask(&children[c], "stop"), 0, "%s", children[c].line);
		cr_assert_eq(share_child_ask(&children[c], "gather 99"), 0, "%s", children[c].line);
	}
	cr_assert(there(s.path));
	cr_assert_eq(rung_store_attach(s.path, NULL, &store), RUNG_E_NOENT);
	cr_assert(strstr(rung_last_error(), "start it again"), "%s", rung_last_error());
	store = share_fixture_create(&s); /* the stale socket is replaced */
	share_fixture_check(&s, store, 5);
	for (unsigned c = 0; c < 2; c++) {
		cr_assert_eq(share_child_ask(&children[c], "gather 7"), 0, "%s", children[c].line);
		cr_assert_eq(share_child_end(&children[c]), 0);
	}
	rung_store_close(store);
	cr_assert_not(there(s.path));
}

Test(share, a_killed_attacher_does_not_disturb_the_others)
{
	struct rung_store *creator = share_fixture_create(&s), *store;
	struct share_child killed, child;

	cr_assert_eq(share_child_start(&killed, "attach", s.path, s.base.dir), 0, "%s",
	             killed.line);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&killed, "go"), 0);
	cr_assert_eq(share_child_ask(&child, "go"), 0);
	share_child_kill(&killed);
	cr_assert_eq(share_child_ask(&child, "stop"), 0, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	share_fixture_check(&s, creator, 1);
	store = share_fixture_attach(&s);
	share_fixture_check(&s, store, 2);
	rung_store_close(store);
	rung_store_close(creator);
}

Test(share, attachers_continue_after_the_creator_closes_but_no_new_one_is_admitted)
{
	struct rung_store *creator = share_fixture_create(&s), *store = share_fixture_attach(&s),
			  *late;

	cr_assert_eq(rung_store_close(creator), 0);
	share_fixture_check(&s, store, 3);
	cr_assert_eq(rung_store_attach(s.path, NULL, &late), RUNG_E_NOENT);
	cr_assert(strstr(rung_last_error(), "no store is shared there"), "%s", rung_last_error());
	cr_assert_eq(rmdir(s.folder), 0); /* it is empty */
	rung_store_close(store);
}

/* ---- paths ---- */

Test(share, one_store_per_path)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .share_path = s.path };
	struct rung_store *creator = share_fixture_create(&s), *second;
	struct share_child child;

	cr_assert_eq(rung_store_open(s.base.ds, s.base.plan, &opts, &second), RUNG_E_BUSY);
	cr_assert(strstr(rung_last_error(), s.path), "%s", rung_last_error());
	cr_assert_eq(share_child_start(&child, "create", s.path, s.base.dir), RUNG_E_BUSY, "%s",
	             child.line);
	cr_assert_eq(share_child_end(&child), 0);
	second = share_fixture_attach(&s); /* the first store is unaffected */
	share_fixture_check(&s, second, 1);
	rung_store_close(second);
	rung_store_close(creator);
	creator = share_fixture_create(&s);
	rung_store_close(creator);
}

static void fails_to_share(const char *path, int status, const char *words)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .share_path = path };
	unsigned before = share_fixture_descriptors(NULL);
	struct rung_store *store;

	assert_error(rung_store_open(s.base.ds, s.base.plan, &opts, &store), status, words);
	cr_assert_eq(share_fixture_descriptors(NULL), before);
}

Test(share, folders_open_to_other_users_are_refused)
{
	static const mode_t modes[] = { 0755, 0710, 0701, 0770 };

	cr_assert_eq(mkdir(s.folder, 0700), 0);
	for (unsigned m = 0; m < RUNG__ARRAY_LEN(modes); m++) {
		cr_assert_eq(chmod(s.folder, modes[m]), 0);
		fails_to_share(s.path, RUNG_E_INVAL, "chmod 700");
	}
	cr_assert_eq(chmod(s.folder, 0700), 0);
	if (geteuid() == 0) {
		cr_assert_eq(chown(s.folder, SHARE_NOBODY, SHARE_NOBODY), 0);
		fails_to_share(s.path, RUNG_E_INVAL, "belongs to user 65534");
		cr_assert_eq(chown(s.folder, 0, 0), 0);
	}
	rung_store_close(share_fixture_create(&s));
}

Test(share, invalid_paths_are_refused)
{
	char path[600], longest[200];
	struct rung_store *store;

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	snprintf(path, sizeof(path), "%s/%s", s.folder, longest);
	fails_to_share(path, RUNG_E_INVAL, "give another path");
	cr_assert_eq(rung_store_attach(path, NULL, &store), RUNG_E_INVAL);
	fails_to_share("", RUNG_E_INVAL, "this one has 0");
	snprintf(path, sizeof(path), "%s/none/here/s", s.base.parent);
	fails_to_share(path, RUNG_E_NOENT, "cannot create the socket's folder");
	snprintf(path, sizeof(path), "%s/", s.folder);
	fails_to_share(path, RUNG_E_INVAL, "names a folder");
	cr_assert_eq(rung_store_attach(NULL, NULL, &store), RUNG_E_INVAL);
}

Test(share, a_file_at_the_path_is_not_overwritten)
{
	struct rung_store *store;
	FILE *file;

	cr_assert_eq(mkdir(s.folder, 0700), 0);
	file = fopen(s.path, "w");
	fclose(file);
	fails_to_share(s.path, RUNG_E_EXIST, "not a socket");
	cr_assert(there(s.path));
	cr_assert_eq(rung_store_attach(s.path, NULL, &store), RUNG_E_NOENT);
}

Test(share, a_relative_path_works)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .share_path = "socket" };
	struct rung_store *creator, *store;

	cr_assert_eq(mkdir(s.folder, 0700), 0);
	cr_assert_eq(chdir(s.folder), 0);
	cr_assert_eq(rung_store_open(s.base.ds, s.base.plan, &opts, &creator), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_store_attach("socket", NULL, &store), 0, "%s", rung_last_error());
	rung_store_close(store);
	rung_store_close(creator);
	cr_assert_eq(chdir("/"), 0);
}

Test(share, an_attached_store_cannot_be_shared_again)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .share_path = "/nowhere/s" };
	struct rung_store *creator = share_fixture_create(&s), *store;

	cr_assert_eq(rung_store_attach(s.path, &opts, &store), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "attached store cannot be shared"), "%s",
	          rung_last_error());
	rung_store_close(creator);
}

/* ---- leaks ---- */

Test(share, open_fails_cleanly_however_few_allocations_succeed)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .vertex_ids = 1,
		                        .share_path = s.path };
	unsigned before = share_fixture_descriptors(NULL);
	struct rung_store *creator, *store;
	int64_t allowed = 0;
	int rc;

	do {
		rung__alloc_limit(allowed++);
		rc = rung_store_open(s.base.ds, s.base.plan, &opts, &creator);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM || rc == RUNG_E_IO, "%s: %s",
		          rung_status_name(rc), rung_last_error());
		cr_assert(rc == 0 || share_fixture_descriptors(NULL) == before, "%s",
		          rung_last_error());
		cr_assert(rc == 0 || !there(s.path));
		cr_assert_lt(allowed, 1000);
	} while (rc < 0);
	cr_assert_gt(allowed, 15);
	opts.share_path = NULL;
	before = share_fixture_descriptors(NULL);
	allowed = 0;
	do {
		rung__alloc_limit(allowed++);
		rc = rung_store_attach(s.path, &opts, &store);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM || rc == RUNG_E_IO, "%s: %s",
		          rung_status_name(rc), rung_last_error());
		cr_assert(rc == 0 || share_fixture_descriptors_become(before), "%s",
		          rung_last_error());
		cr_assert_lt(allowed, 1000);
	} while (rc < 0);
	cr_assert_gt(allowed, 12);
	rung_store_close(store);
	rung_store_close(creator);
}

Test(share, descriptors_close_on_exec_and_none_leaks)
{
	unsigned open_ones = 0, inherited = 0, before = share_fixture_descriptors(&inherited);
	unsigned inherited_before = inherited;
	struct rung_store *creator = share_fixture_create(&s), *store = share_fixture_attach(&s);

	open_ones = share_fixture_descriptors(&inherited);
	cr_assert_gt(open_ones, before);
	cr_assert_eq(inherited, inherited_before);
	rung_store_close(store);
	rung_store_close(creator);
	cr_assert_eq(share_fixture_descriptors(NULL), before);
}
