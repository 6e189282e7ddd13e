/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Specs of edge lists that connect parts of the vertices: "SRC+FIRST[:COUNT],FIRST[:COUNT]".
 *
 * Ids begin at 0 in each part; the numbers are the first vertex of a part and the number of its
 * ids. SRC may contain any character, also '+' and ',', so the spec is parsed from its end.
 */
#include <string.h>
#include <sys/stat.h>

#include "graph/edge_lists.h"

/* Parse the digits that end at *at, and move *at to the first of them. @return false if the text
 * before *at does not end in a digit, or the number needs more than 64 bits */
static bool number_before(const char *spec, const char **at, uint64_t *value_out)
{
	const char *begin = *at;
	uint64_t value = 0;

	/* find the beginning, then parse forwards */
	while (begin > spec && begin[-1] >= '0' && begin[-1] <= '9')
		begin--;
	if (begin == *at)
		return false;
	for (const char *digit = begin; digit < *at; digit++) {
		if (!rung__mul(value, 10, &value) ||
		    !rung__add(value, (uint64_t)(*digit - '0'), &value))
			return false;
	}
	*at = begin;
	*value_out = value;
	return true;
}

/* Parse "FIRST" or "FIRST:COUNT" that ends at *at, and the character `before` in front of it. */
static bool range_before(const char *spec, const char **at, char before,
                         struct rung__id_range *range)
{
	*range = (struct rung__id_range){ .count = UINT64_MAX };
	if (!number_before(spec, at, &range->first))
		return false;
	if (*at > spec && (*at)[-1] == ':') { /* the number was the count */
		range->count = range->first;
		--*at;
		if (!number_before(spec, at, &range->first))
			return false;
	}
	if (*at == spec || (*at)[-1] != before)
		return false;
	--*at;
	return true;
}

/* Whether all vertices of a range have at most 63 bits, so that sums of ids do not overflow. */
static bool range_ok(const struct rung__id_range *range)
{
	return range->first <= INT64_MAX &&
	       (range->count == UINT64_MAX || range->count <= INT64_MAX - range->first);
}

/* Whether the whole spec is the name of a file, which may look like a spec with numbers. */
static bool is_file(const char *spec)
{
	struct stat st;

	return stat(spec, &st) == 0 && !S_ISDIR(st.st_mode);
}

int rung__edge_spec_parse(const char *spec, struct rung__edge_spec *parts_out)
{
	const char *at = spec + strlen(spec);
	struct rung__edge_spec parts;

	if (is_file(spec) || !range_before(spec, &at, ',', &parts.destination) ||
	    !range_before(spec, &at, '+', &parts.source)) {
		const struct rung__id_range all = { .count = UINT64_MAX };

		*parts_out = (struct rung__edge_spec){ .src_length = strlen(spec),
			                               .source = all,
			                               .destination = all };
		return 0;
	}
	if (!range_ok(&parts.source) || !range_ok(&parts.destination))
		return rung__fail(
			RUNG_E_INVAL,
			"%s: its ids need more than 63 bits; use SRC+FIRST:COUNT,FIRST:COUNT "
			"(first vertex and count of the sources, then of the destinations)",
			spec);
	parts.src_length = (size_t)(at - spec);
	*parts_out = parts;
	return 0;
}
