/* SPDX-License-Identifier: Apache-2.0 */
/* Edge lists between parts of the vertices, with ids that begin at 0 in each part: where a part
 * begins, and how many ids it has. */
#include <string.h>
#include <sys/stat.h>

#include "graph/edge_lists.h"

/* Digits before `end`, from `*at` backwards, as a number. @return false if there are none, or too
 * many */
static bool number_before(const char *spec, const char **at, uint64_t *value_out)
{
	const char *begin = *at;
	uint64_t value = 0;

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

/* "FIRST" or "FIRST:COUNT" with `before` in front of it, which is taken too. */
static bool range_before(const char *spec, const char **at, char before,
                         struct rung__id_range *range)
{
	*range = (struct rung__id_range){ .count = UINT64_MAX };
	if (!number_before(spec, at, &range->first))
		return false;
	if (*at > spec && (*at)[-1] == ':') {
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

static bool range_ok(const struct rung__id_range *range)
{
	return range->first <= INT64_MAX &&
	       (range->count == UINT64_MAX || range->count <= INT64_MAX - range->first);
}

/* A file may be called as a spec looks. */
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
		return rung__fail(RUNG_E_INVAL,
		                  "%s: ids of more than 63 bits; give the first vertex of the "
		                  "sources and of the destinations, and "
		                  "how many there are: SRC+FIRST:COUNT,FIRST:COUNT",
		                  spec);
	parts.src_length = (size_t)(at - spec);
	*parts_out = parts;
	return 0;
}
