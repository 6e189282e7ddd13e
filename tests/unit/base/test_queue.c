/* SPDX-License-Identifier: Apache-2.0 */
/* The intrusive list, and the assertions of its callers: no entry is put into two lists or released
 * twice. Assertions are on in debug and in sanitizer builds. */
#include <criterion/criterion.h>
#include <signal.h>

#include "base/base.h"
#include "base/queue.h"
#include "file/writer.h"
#include "state/state.h"

TestSuite(queue, .timeout = 60);

#if defined(NDEBUG) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#error "sanitizer builds must have assertions enabled"
#endif

#define ENTRIES 7

struct entry {
	int number;
	struct rung__link link, other;
};

static void expect(const struct rung__queue *queue, const char *numbers)
{
	char seen[ENTRIES + 1] = "";
	size_t count = 0;

	RUNG__QUEUE_EACH(entry, queue, struct entry, link)
	{
		cr_assert_lt(count, (size_t)ENTRIES);
		seen[count++] = (char)('0' + entry->number);
	}
	cr_assert_str_eq(seen, numbers);
	cr_assert_eq(rung__queue_is_empty(queue), count == 0);
}

Test(queue, entries_leave_in_the_order_of_the_list)
{
	struct entry entries[ENTRIES] = { { 0 } };
	struct rung__queue queue = { 0 }, others = { 0 };

	for (int i = 0; i < ENTRIES; i++)
		entries[i].number = i;
	expect(&queue, "");
	cr_assert_null(RUNG__ENTRY(rung__queue_pop(&queue), struct entry, link));
	rung__queue_push(&queue, &entries[1].link);
	expect(&queue, "1");
	rung__queue_push(&queue, &entries[2].link);
	rung__queue_push_first(&queue, &entries[0].link);
	expect(&queue, "012");
	rung__queue_push(&others, &entries[1].other); /* another link of the same entry */
	cr_assert_eq(RUNG__ENTRY(rung__queue_pop(&queue), struct entry, link), &entries[0]);
	cr_assert_not(rung__is_linked(&entries[0].link));
	expect(&queue, "12");
	rung__queue_push(&queue, &entries[0].link);
	expect(&queue, "120");
	cr_assert_eq(RUNG__ENTRY(rung__queue_pop(&others), struct entry, other), &entries[1]);
}

Test(queue, any_entry_can_be_removed)
{
	for (int out = 0; out < 3; out++) {
		static const char *const left[] = { "12", "02", "01" };
		struct entry entries[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };
		struct rung__queue queue = { 0 };

		for (int i = 0; i < 3; i++)
			rung__queue_push(&queue, &entries[i].link);
		rung__queue_remove(&queue, &entries[out].link);
		expect(&queue, left[out]);
		rung__queue_push(&queue, &entries[out].link);
		cr_assert_eq(RUNG__ENTRY(queue.last, struct entry, link), &entries[out]);
		for (int i = 0; i < 3; i++)
			rung__queue_remove(&queue, &entries[i].link);
		expect(&queue, "");
	}
}

Test(queue, one_list_is_appended_to_another)
{
	static const char *const joined[3][3] = { { "", "0", "01" },
		                                  { "0", "01", "012" },
		                                  { "01", "012", "0123" } };

	for (int first = 0; first < 3; first++) {
		for (int second = 0; second < 3; second++) {
			struct entry entries[ENTRIES] = { { 0 } };
			struct rung__queue queue = { 0 }, from = { 0 };

			for (int i = 0; i < first + second; i++) {
				entries[i].number = i;
				rung__queue_push(i < first ? &queue : &from, &entries[i].link);
			}
			rung__queue_join(&queue, &from);
			expect(&queue, joined[first][second]);
			expect(&from, "");
		}
	}
}

#ifndef NDEBUG
Test(queue, no_entry_is_put_into_two_lists, .signal = SIGABRT)
{
	struct rung__queue queue = { 0 }, other = { 0 };
	struct entry entry = { 0 };

	rung__queue_push(&queue, &entry.link);
	rung__queue_push(&other, &entry.link);
}

Test(queue, only_an_entry_of_a_list_is_removed, .signal = SIGABRT)
{
	struct rung__queue queue = { 0 };
	struct entry entry = { 0 }, other = { 0 };

	rung__queue_push(&queue, &entry.link);
	rung__queue_remove(&queue, &other.link);
}

Test(queue, a_buffer_is_returned_to_its_writer_once, .signal = SIGABRT)
{
	static unsigned char pool[2 * RUNG__PAGE_BYTES];
	const struct rung__direct none = { .fd = -1 };
	struct rung__writer *writer;
	unsigned char *buffer;

	cr_assert_eq(rung__writer_open(pool, RUNG__PAGE_BYTES, 2, &writer), 0);
	buffer = rung__writer_reserve(writer);
	rung__writer_put(writer, &none, buffer, 0, 0);
	rung__writer_put(writer, &none, buffer, 0, 0);
}

Test(queue, slots_are_returned_once, .signal = SIGABRT)
{
	uint32_t returned[1];
	struct rung__refill_box box = { .returned_max = 1 };

	rung__refill_box_init(&box);
	box.returned = returned;
	rung__refill_return(&box, 0);
	rung__refill_return(&box, 0);
}

Test(queue, a_request_is_freed_once, .signal = SIGABRT)
{
	static struct rung_request request;
	static struct rung_store store = { .requests = &request,
		                           .lock = PTHREAD_MUTEX_INITIALIZER };

	store.opts.requests_max = 1;
	request.store = &store;
	request.state = RUNG__REQUEST_DONE;
	rung__request_free(&request);
	rung__request_free(&request);
}
#endif
