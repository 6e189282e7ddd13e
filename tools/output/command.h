/* SPDX-License-Identifier: Apache-2.0 */
/** Commands that a report suggests to try next, as lines for a shell. */
#ifndef RUNG_TOOL_COMMAND_H
#define RUNG_TOOL_COMMAND_H

#include <stddef.h>
#include <stdio.h>

/** A change of a command line. */
struct command_change {
	const char *option; /**< "host" */
	const char *value;  /**< NULL: the option is left out; "": it has no value */
	int is_flag;        /**< nonzero: the next word of the command line is not its value */
};

/** Write a word, quoted if a shell would read it differently. */
void command_word(FILE *out, const char *word);

/**
 * This command line with some options changed.
 * @param argv  up to a NULL; the first word is "rung NAME"
 * @return the caller frees it; NULL without memory
 */
char *command_changed(char *const *argv, const struct command_change *changes, size_t count);

#endif
