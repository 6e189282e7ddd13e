/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, the last error of a thread, option structs of other versions, sizes, and the
 * allocation limit that other tests rely on. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/thread.h"
#include "dataset.h"
#include "expect_error.h"

/* ---- codes ---- */

static const int all_codes[] = {
#define CODE(code, value, text) code,
	RUNG_STATUS_LIST(CODE)
#undef CODE
};

Test(status, codes_are_negative_and_distinct)
{
	for (size_t i = 0; i < RUNG__ARRAY_LEN(all_codes); i++) {
		cr_assert_lt(all_codes[i], 0);
		for (size_t k = 0; k < i; k++) {
			cr_assert_neq(all_codes[i], all_codes[k], "codes %zu and %zu are both %d",
			              k, i, all_codes[i]);
			cr_assert_str_neq(rung_status_name(all_codes[i]),
			                  rung_status_name(all_codes[k]));
			cr_assert_str_neq(rung_status_text(all_codes[i]),
			                  rung_status_text(all_codes[k]));
		}
	}
}

Test(status, values_compiled_into_programs_stay)
{
	cr_assert_eq(RUNG_E_INVAL, -1);
	cr_assert_eq(RUNG_E_NOMEM, -2);
	cr_assert_eq(RUNG_E_IO, -3);
	cr_assert_eq(RUNG_E_NOENT, -8);
	cr_assert_eq(RUNG_E_CORRUPT, -13);
	cr_assert_eq(RUNG_E_BUSY, -16);
}

Test(status, each_code_has_a_name_and_a_text)
{
	cr_assert_str_eq(rung_status_name(RUNG_E_NOSPC), "RUNG_E_NOSPC");
	cr_assert_str_eq(rung_status_text(RUNG_E_NOSPC), "out of disk space");
}

Test(status, zero_and_counts_are_ok_and_other_codes_are_marked)
{
	cr_assert_str_eq(rung_status_name(0), "RUNG_OK");
	cr_assert_str_eq(rung_status_name(42), "RUNG_OK");
	cr_assert_str_eq(rung_status_name(-9999), "RUNG_E_?");
	cr_assert_str_eq(rung_status_text(-9999), "unknown status");
}

Test(status, the_version_has_three_numbers)
{
	int major, minor, patch, end = 0;

	cr_assert_eq(sscanf(rung_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
	cr_assert_eq((size_t)end, strlen(rung_version()), "text after the numbers: %s",
	             rung_version());
	cr_assert_gt(strlen(rung_commit()), 0);
}

Test(status, every_feature_reports_whether_it_is_built_in_and_why)
{
	static const char *const expected[] = { "io_uring", "numa", "openmp", "cuda" };
	unsigned count = 0;
	const char *name, *why;
	int built_in;

	for (; (name = rung_feature(count, &built_in, &why)); count++) {
		cr_assert_lt(count, RUNG__ARRAY_LEN(expected));
		cr_assert_str_eq(name, expected[count]);
		cr_assert(built_in == 0 || built_in == 1);
		cr_assert_gt(strlen(why), 0, "%s has no reason", name);
		cr_assert_str_eq(rung_feature(count, NULL, NULL), name);
	}
	cr_assert_eq(count, RUNG__ARRAY_LEN(expected));
	cr_assert_null(rung_feature(count + 1000, NULL, NULL));
}

/* ---- last error ---- */

Test(status, it_is_empty_before_any_failure)
{
	cr_assert_str_empty(rung_last_error());
}

Test(status, fail_records_the_message_and_returns_the_status)
{
	cr_assert_eq(rung__fail(RUNG_E_RANGE, "%s: edge %d", "graph.npy", 7), RUNG_E_RANGE);
	cr_assert_str_eq(rung_last_error(), "graph.npy: edge 7");
}

Test(status, a_failed_allocation_ends_with_the_reason)
{
	char text[100];

	cr_assert_eq(rung__fail(RUNG_E_NOMEM, "x.npy: %d bytes", 8), RUNG_E_NOMEM);
	cr_assert_str_eq(rung_last_error(), "x.npy: 8 bytes: out of memory");
	(void)rung__fail(RUNG_E_NOMEM, "%s", rung_last_error());
	cr_assert_str_eq(rung_last_error(), "x.npy: 8 bytes: out of memory");
	(void)rung__fail(RUNG_E_NOMEM, "x.npy: no memory for 8 bytes");
	cr_assert_str_eq(rung_last_error(), "x.npy: no memory for 8 bytes");
	(void)rung__fail_errno(ENOMEM, "x.npy");
	snprintf(text, sizeof(text), "x.npy: %s", strerror(ENOMEM));
	cr_assert_str_eq(rung_last_error(), text);
}

Test(status, it_may_be_an_argument_of_the_next_failure)
{
	(void)rung__fail(RUNG_E_IO, "inner");
	(void)rung__fail(RUNG_E_IO, "outer: %s", rung_last_error());
	cr_assert_str_eq(rung_last_error(), "outer: inner");
}

Test(status, a_message_that_is_too_long_is_cut_and_terminated)
{
	static char longer[3 * RUNG__ERROR_BYTES];

	memset(longer, 'x', sizeof(longer) - 1);
	(void)rung__fail(RUNG_E_IO, "%s", longer);
	cr_assert_eq(strlen(rung_last_error()), RUNG__ERROR_BYTES - 1);
	(void)rung__fail(RUNG_E_IO, "short");
	cr_assert_str_eq(rung_last_error(), "short");
}

Test(status, the_least_budget_is_kept_until_the_next_failure)
{
	cr_assert_eq(rung_last_error_min_bytes(), 0);
	cr_assert_eq(rung__fail_min_bytes(UINT64_C(1) << 40, "at least %d", 5), RUNG_E_INVAL);
	cr_assert_str_eq(rung_last_error(), "at least 5");
	cr_assert_eq(rung_last_error_min_bytes(), UINT64_C(1) << 40);
	(void)rung__fail(RUNG_E_INVAL, "something else");
	cr_assert_eq(rung_last_error_min_bytes(), 0);
}

Test(status, restored_text_is_not_used_as_a_format)
{
	cr_assert_eq(rung__fail_text(RUNG_E_IO, "100%s of %n"), RUNG_E_IO);
	cr_assert_str_eq(rung_last_error(), "100%s of %n");
}

Test(status, errno_becomes_a_status_and_its_text_is_appended)
{
	static const struct {
		int err, status;
	} cases[] = {
		{ ENOENT, RUNG_E_NOENT }, { ENOTDIR, RUNG_E_NOENT }, { EEXIST, RUNG_E_EXIST },
		{ ENOSPC, RUNG_E_NOSPC }, { EDQUOT, RUNG_E_NOSPC },  { ENOMEM, RUNG_E_NOMEM },
		{ EIO, RUNG_E_IO },       { EACCES, RUNG_E_IO },
	};
	char expected[256];

	for (size_t i = 0; i < RUNG__ARRAY_LEN(cases); i++) {
		snprintf(expected, sizeof(expected), "a file: %s", strerror(cases[i].err));
		cr_assert_eq(rung__fail_errno(cases[i].err, "a %s", "file"), cases[i].status,
		             "errno %d", cases[i].err);
		cr_assert_str_eq(rung_last_error(), expected);
	}
}

struct seen {
	char before[32];
	char after[32];
};

static void *fail_in_a_thread(void *arg)
{
	struct seen *seen = arg;

	snprintf(seen->before, sizeof(seen->before), "%s", rung_last_error());
	(void)rung__fail(RUNG_E_IO, "thread");
	snprintf(seen->after, sizeof(seen->after), "%s", rung_last_error());
	return NULL;
}

Test(status, each_thread_has_its_own_error)
{
	struct seen seen;
	pthread_t thread;

	(void)rung__fail(RUNG_E_IO, "main");
	cr_assert_eq(pthread_create(&thread, NULL, fail_in_a_thread, &seen), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_str_empty(seen.before, "another thread sees this one's error");
	cr_assert_str_eq(seen.after, "thread");
	cr_assert_str_eq(rung_last_error(), "main", "another thread's failure replaced this one's");
}

/* ---- options ---- */

struct known_opts {
	size_t size;
	uint32_t depth;
	uint32_t width;
};

struct older_opts {
	size_t size;
	uint32_t depth;
};

struct newer_opts {
	struct known_opts known;
	uint64_t colour;
};

Test(status, null_leaves_the_defaults)
{
	struct known_opts opts = { .depth = 64, .width = 3 };

	cr_assert_eq(rung__opts_copy_in(&opts, sizeof(opts), NULL, "opts"), 0);
	cr_assert_eq(opts.depth, 64);
	cr_assert_eq(opts.width, 3);
}

Test(status, the_same_size_is_copied)
{
	struct known_opts given = { .size = sizeof(given), .depth = 5, .width = 6 };
	struct known_opts opts = { 0 };

	cr_assert_eq(rung__opts_copy_in(&opts, sizeof(opts), &given, "opts"), 0);
	cr_assert_eq(opts.depth, 5);
	cr_assert_eq(opts.width, 6);
}

Test(status, an_older_caller_leaves_newer_fields_alone)
{
	struct {
		struct older_opts opts;
		unsigned char behind[64];
	} given;
	struct known_opts opts = { .width = 3 };

	/* bytes after the caller's struct must not be read */
	memset(&given, 0xff, sizeof(given));
	given.opts.size = offsetof(struct older_opts, depth) + sizeof(given.opts.depth);
	given.opts.depth = 9;
	cr_assert_eq(rung__opts_copy_in(&opts, sizeof(opts), &given, "opts"), 0);
	cr_assert_eq(opts.depth, 9);
	cr_assert_eq(opts.width, 3);
}

Test(status, a_newer_caller_without_new_options_is_accepted)
{
	struct newer_opts given = { .known = { .size = sizeof(given), .depth = 5, .width = 6 } };
	struct known_opts opts = { 0 };

	cr_assert_eq(rung__opts_copy_in(&opts, sizeof(opts), &given, "opts"), 0);
	cr_assert_eq(opts.width, 6);
}

Test(status, a_newer_caller_with_a_new_option_is_rejected)
{
	struct newer_opts given = { .known = { .size = sizeof(given), .depth = 5 },
		                    .colour = (uint64_t)1 << 56 };
	struct known_opts opts = { .depth = 64 };

	cr_assert_eq(rung__opts_copy_in(&opts, sizeof(opts), &given, "rung_known_opts"),
	             RUNG_E_ABI);
	cr_assert_not_null(strstr(rung_last_error(), "rung_known_opts"),
	                   "the message does not name the struct: %s", rung_last_error());
	cr_assert_eq(opts.depth, 64, "options were copied though the call failed");
}

Test(status, a_struct_without_its_size_is_rejected)
{
	struct known_opts given = { .depth = 5 };
	struct known_opts opts = { .depth = 64 };

	cr_assert_eq(rung__opts_copy_in(&opts, sizeof(opts), &given, "opts"), RUNG_E_INVAL);
	cr_assert_not_null(strstr(rung_last_error(), "initialiser"),
	                   "the message has no remedy: %s", rung_last_error());
	cr_assert_eq(opts.depth, 64);
}

/* ---- sizes ---- */

Test(status, products_and_sums_above_64_bits_are_detected)
{
	uint64_t out = 77;

	cr_assert(rung__mul(UINT32_MAX, UINT32_MAX, &out));
	cr_assert_eq(out, 0xfffffffe00000001u);
	cr_assert(rung__mul(0, UINT64_MAX, &out));
	cr_assert_eq(out, 0);
	out = 77;
	cr_assert_not(rung__mul((uint64_t)1 << 32, (uint64_t)1 << 32, &out));
	cr_assert_not(rung__add(UINT64_MAX, 1, &out));
	cr_assert_eq(out, 77, "written though the result does not fit");
	cr_assert(rung__add(UINT64_MAX - 1, 1, &out));
	cr_assert_eq(out, UINT64_MAX);
}

Test(status, aligning_rounds_to_the_neighbouring_multiple)
{
	for (uint64_t x = 0; x < 2000; x++) {
		uint64_t down = rung__align_down(x, 512), up = rung__align_up(x, 512);

		cr_assert(down % 512 == 0 && down <= x && x - down < 512);
		cr_assert(up % 512 == 0 && up >= x && up - x < 512);
	}
}

Test(status, ids_of_both_widths_are_stored)
{
	uint32_t narrow[2] = { 0, 0 };
	uint64_t wide[2] = { 0, 0 };

	rung__id_set(narrow, 4, 1, UINT32_MAX);
	rung__id_set(wide, 8, 1, (uint64_t)UINT32_MAX + 1);
	cr_assert_eq(narrow[0], 0);
	cr_assert_eq(rung__id_get(narrow, 4, 1), UINT32_MAX);
	cr_assert_eq(wide[0], 0);
	cr_assert_eq(rung__id_get(wide, 8, 1), (uint64_t)UINT32_MAX + 1);
}

/* ---- memory ---- */

Test(status, counts_that_overflow_give_null)
{
	void *one = rung__malloc_array(1, 1);

	cr_assert_null(rung__malloc_array((uint64_t)1 << 62, 8));
	cr_assert_null(rung__zalloc_array(UINT64_MAX, 2));
	cr_assert_null(rung__realloc_array(one, (uint64_t)1 << 61, 8));
	cr_assert_null(rung__malloc_aligned(4096, SIZE_MAX - 10));
	cr_assert_null(rung__malloc_huge(UINT64_MAX));
	rung__free(one);
}

Test(status, allocating_zero_bytes_returns_a_pointer)
{
	void *ptrs[] = { rung__malloc(0),
		         rung__zalloc(0),
		         rung__malloc_array(0, 8),
		         rung__zalloc_array(0, 8),
		         rung__malloc_aligned(64, 0),
		         rung__malloc_huge(0) };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(ptrs); i++) {
		cr_assert_not_null(ptrs[i], "allocation %zu", i);
		rung__free(ptrs[i]);
	}
}

Test(status, aligned_memory_is_aligned)
{
	for (size_t align = 64; align <= 65536; align *= 2) {
		unsigned char *ptr = rung__malloc_aligned(align, 100);

		cr_assert_not_null(ptr);
		cr_assert_eq((uintptr_t)ptr % align, 0);
		memset(ptr, 1, 100);
		rung__free(ptr);
	}
}

Test(status, large_memory_is_usable_to_its_last_byte)
{
	const uint64_t sizes[] = { 1,        4095,           (4u << 20) - 1,
		                   4u << 20, (4u << 20) + 1, (7u << 20) + 12345 };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(sizes); i++) {
		unsigned char *ptr = rung__malloc_huge(sizes[i]);

		cr_assert_not_null(ptr);
		cr_assert_eq((uintptr_t)ptr % (sizes[i] < (4u << 20) ? RUNG__HUGE_ALIGN : 2u << 20),
		             0);
		memset(ptr, 1, (size_t)sizes[i]);
		rung__free(ptr);
	}
}

Test(status, the_limit_allows_exactly_n_allocations)
{
	void *first, *second, *text;

	rung__alloc_limit(3);
	first = rung__malloc(8);
	second = rung__zalloc_array(2, 8);
	text = rung__format("%d rows", 5);
	cr_assert(first && second && text);
	cr_assert_str_eq(text, "5 rows");
	cr_assert_null(rung__malloc(8));
	cr_assert_null(rung__zalloc(8));
	cr_assert_null(rung__malloc_aligned(64, 64));
	cr_assert_null(rung__malloc_huge(64));
	cr_assert_null(rung__malloc_huge(64u << 20));
	cr_assert_null(rung__strdup("row"));
	cr_assert_null(rung__format("row"));
	cr_assert_null(rung__realloc_array(first, 2, 8));
	rung__alloc_limit(-1);
	first = rung__realloc_array(first, 2, 8);
	cr_assert_not_null(first);
	rung__free(first);
	rung__free(second);
	rung__free(text);
}

/* ---- threads that cannot be started ---- */

Test(status, a_thread_that_cannot_be_started_names_the_limit)
{
	struct rlimit processes;
	char root[256], ulimit[64];

	cr_assert_eq(support_tempdir(root, sizeof(root)), 0);
	rung__machine_root = root;
	getrlimit(RLIMIT_NPROC, &processes);
	processes.rlim_cur = 200;
	cr_assert_eq(setrlimit(RLIMIT_NPROC, &processes), 0);
	snprintf(ulimit, sizeof(ulimit), "x could not be started: ulimit -u is 200; raise it");
	assert_error(rung__fail_thread(EAGAIN, "x"), RUNG_E_AGAIN, ulimit);
	support_put(root, "/proc/self/cgroup", "0::/a/b\n");
	support_put(root, "/sys/fs/cgroup/a/pids.max", "90\n");
	support_put(root, "/sys/fs/cgroup/a/pids.current", "89\n");
	assert_error(rung__fail_thread(EAGAIN, "x"), RUNG_E_AGAIN, ulimit);
	support_put(root, "/sys/fs/cgroup/a/pids.current", "90\n");
	assert_error(rung__fail_thread(EAGAIN, "x"), RUNG_E_AGAIN,
	             "x could not be started: pids.max of the control group is 90; raise it");
	assert_error(rung__fail_thread(ENOMEM, "x"), RUNG_E_NOMEM, "x could not be started: ");
	cr_assert_null(strstr(rung_last_error(), "pids"));
	support_remove(root);
}
