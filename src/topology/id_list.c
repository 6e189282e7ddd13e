/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of CPUs and nodes in the kernel's format, and the intersection and difference of two lists.
 * Parsing is stricter than strtoul(): no signs, no blanks, no locale, nothing after the number
 * except the expected end.
 */
#include <string.h>

#include "topology/sysfs.h"

bool rung__number_of_text(const char *text, unsigned base, uint64_t most, const char *end,
                          uint64_t *number_out)
{
	uint64_t number = 0;
	const char *at = text;

	/* `text` is advanced, so that "0x" alone has no digits */
	if (base == 16 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		text = at += 2;
	for (;; at++) {
		/* 99: not a digit in any base */
		unsigned digit = *at >= '0' && *at <= '9' ? (unsigned)(*at - '0') : 99;

		if (base == 16 && *at >= 'a' && *at <= 'f')
			digit = (unsigned)(*at - 'a') + 10;
		if (digit >= base)
			break;
		if (!rung__mul(number, base, &number) || !rung__add(number, digit, &number))
			return false;
	}
	if (at == text || strcmp(at, end) != 0 || number > most)
		return false;
	*number_out = number;
	return true;
}

/* Parse the digits at *at, which then points past them. Stops at `limit`, so it cannot overflow:
 * limits are far below 2^32 / 10. */
static bool parse_number(const char **at, uint32_t limit, uint32_t *number_out)
{
	uint32_t number = 0;

	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; (*at)++) {
		number = number * 10 + (uint32_t)(**at - '0');
		if (number >= limit)
			return false;
	}
	*number_out = number;
	return true;
}

bool rung__ids_of_text(const char *text, uint32_t limit, uint32_t *ids, uint32_t *count_out)
{
	const char *at = text;
	uint32_t count = 0, next = 0; /* next: the smallest number that is allowed to follow */

	while (*at && *at != '\n') {
		uint32_t first, last;

		if (count > 0 && *at++ != ',')
			return false;
		if (!parse_number(&at, limit, &first))
			return false;
		last = first;
		if (*at == '-' && (at++, !parse_number(&at, limit, &last)))
			return false;
		if (first < next || last < first)
			return false;
		/* numbers ascend, so there are at most `limit` numbers */
		for (next = first; next <= last; next++, count++) {
			if (ids)
				ids[count] = next;
		}
	}
	if (*at == '\n' && at[1])
		return false;
	*count_out = count;
	return true;
}

bool rung__ids_have(const struct rung_id_list *list, uint32_t id)
{
	uint32_t low = 0, high = list->count;

	while (list->ids && low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->ids[middle] == id)
			return true;
		if (list->ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* The ids of a that are in b, or those that are not in b. ids is NULL in the result if one list is
 * unknown. */
static int pick(struct rung__arena *arena, const struct rung_id_list *a,
                const struct rung_id_list *b, bool both, struct rung_id_list *list_out)
{
	struct rung_id_list list = { NULL, 0 };
	uint32_t *ids;

	if (a->ids && b->ids) {
		ids = rung__arena_alloc(arena, a->count, sizeof(*ids));
		if (!ids)
			return rung__fail(RUNG_E_NOMEM, "topology: out of memory");
		for (uint32_t i = 0; i < a->count; i++) {
			if (rung__ids_have(b, a->ids[i]) == both)
				ids[list.count++] = a->ids[i];
		}
		list.ids = ids;
	}
	*list_out = list;
	return 0;
}

int rung__ids_both(struct rung__arena *arena, const struct rung_id_list *a,
                   const struct rung_id_list *b, struct rung_id_list *list_out)
{
	return pick(arena, a, b, true, list_out);
}

int rung__ids_without(struct rung__arena *arena, const struct rung_id_list *a,
                      const struct rung_id_list *b, struct rung_id_list *list_out)
{
	return pick(arena, a, b, false, list_out);
}
