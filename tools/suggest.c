/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for misspelled words: commands, options and values. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

#define WORD_MAX 32u

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Number of letters to insert, remove, replace, or exchange with their neighbour until `from`
 * becomes `to` (Damerau and Levenshtein, without edits inside an exchanged pair). Both have at most
 * WORD_MAX letters.
 */
static unsigned distance(const char *from, size_t from_length, const char *to, size_t to_length)
{
	unsigned rows[3]
		     [WORD_MAX + 1]; /* for the last three letters of `from`, by letter of `to` */

	for (size_t j = 0; j <= to_length; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= from_length; i++) {
		const unsigned *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
		unsigned *row = rows[i % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= to_length; j++) {
			const int same = from[i - 1] == to[j - 1];

			row[j] = least(above[j - 1] + !same, least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[from_length % 3][to_length];
}

/* Edits after which a word of this length is still recognised: one in short words. */
static unsigned distance_max(size_t length)
{
	return length < 5 ? 1 : length < 9 ? 2 : 3;
}

/* Distance of a known word, as for distance(); the beginning of one is as near as one letter. */
static unsigned nearness(const char *word, const char *known, size_t known_length)
{
	const size_t length = strlen(word);

	if (length == 0 || length > WORD_MAX || known_length > WORD_MAX)
		return UINT32_MAX;
	if (length > 2 && known_length > length && strncmp(word, known, length) == 0)
		return 1;
	return distance(word, length, known, known_length);
}

const char *tool_meant(const char *word, const char *known, const char *accepted)
{
	static char text[256];
	const size_t length = strlen(word);
	unsigned best = distance_max(length);
	size_t used = 0;

	text[0] = 0;
	for (const char *next = known; *next;) {
		const size_t known_length = strcspn(next, " ,");
		const unsigned d = nearness(word, next, known_length);

		/* lists for people have an "or"; fewer edits than letters: "ab" is not a
		 * misspelled "x" */
		if (strncmp(next, "or ", 3) != 0 && d <= best && d < length && d < known_length) {
			if (d < best)
				used = 0;
			best = d;
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s",
			                         used ? " or " : "did you mean ", (int)known_length,
			                         next);
			if (used >= sizeof(text) - WORD_MAX - 8)
				break;
		}
		next += known_length;
		next += strspn(next, " ,");
	}
	if (used)
		snprintf(text + used, sizeof(text) - used, "?");
	else
		snprintf(text, sizeof(text), "use %s", accepted);
	return text;
}
