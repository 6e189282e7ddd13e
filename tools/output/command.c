/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines for a shell. */
#include "output/command.h"

#include <stdlib.h>
#include <string.h>

void command_word(FILE *out, const char *word)
{
	if (*word && !strpbrk(word, " \t\n\\\"'`$&|;<>()*?[]{}!#~")) {
		fputs(word, out);
		return;
	}
	fputc('\'', out);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", out);
		else
			fputc(*word, out);
	}
	fputc('\'', out);
}

/* The number of words of an option that is changed; 0: the word is another one. */
static int changed_words(const char *word, const struct command_change *changes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const size_t length = strlen(changes[i].option);

		if (strncmp(word, "--", 2) != 0 ||
		    strncmp(word + 2, changes[i].option, length) != 0)
			continue;
		if (word[2 + length] == '=' || (word[2 + length] == 0 && changes[i].is_flag))
			return 1;
		if (word[2 + length] == 0)
			return 2;
	}
	return 0;
}

char *command_changed(char *const *argv, const struct command_change *changes, size_t count)
{
	char *line = NULL;
	size_t bytes;
	FILE *out = open_memstream(&line, &bytes);

	if (!out)
		return NULL;
	fputs(*argv++, out);
	while (*argv) {
		const int words = changed_words(*argv, changes, count);

		if (words == 0) {
			fputc(' ', out);
			command_word(out, *argv++);
		}
		for (int i = 0; i < words && *argv; i++)
			argv++;
	}
	for (size_t i = 0; i < count; i++) {
		if (!changes[i].value)
			continue;
		fprintf(out, " --%s", changes[i].option);
		if (*changes[i].value) {
			fputc(' ', out);
			command_word(out, changes[i].value);
		}
	}
	if (fclose(out) != 0) {
		free(line);
		line = NULL;
	}
	return line;
}
