/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the completion for bash to the file that is its argument. It is run during the build and
 * generates the script from the tables of options, so options and completion cannot differ.
 */
#include <stdio.h>

#include "args/args.h"
#include "rung_config.h"

static const struct {
	const char *name;
	const struct tool_command *command;
} commands[] = {
	{ "generate", &tool_generate_command }, { "stage", &tool_stage_command },
	{ "score", &tool_score_command },       { "verify", &tool_verify_command },
	{ "info", &tool_info_command },         { "plan", &tool_plan_command },
	{ "trace", &tool_trace_command },       { "numa", &tool_numa_command },
	{ "bench", &tool_bench_command },
#if RUNG_HAVE_BLAS
	{ "train", &tool_train_command },
#endif
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

typedef void option_fn(FILE *out, const char *command, const struct tool_option *option);

/* Visit the options of a table, without headings and without hidden ones: options with no help and
 * earlier spellings are accepted but not suggested. */
static void each_of(FILE *out, const char *command, const struct tool_option *option,
                    option_fn *visit)
{
	for (; option && (option->name || option->help); option++) {
		if (option->name && option->help)
			visit(out, command, option);
	}
}

/* Visit the options of a command and of the sets that it includes. */
static void each(FILE *out, size_t idx, option_fn *visit)
{
	const struct tool_command *command = commands[idx].command;

	each_of(out, commands[idx].name, command->options, visit);
	for (const struct tool_part *part = command->parts; part->set; part++)
		each_of(out, commands[idx].name, part->set->options, visit);
}

static void write_name(FILE *out, const char *command, const struct tool_option *option)
{
	(void)command;
	fprintf(out, " --%s", option->name);
}

/* Options with a value: after one of them bash must not suggest options. */
static void write_valued(FILE *out, const char *command, const struct tool_option *option)
{
	if (option->value)
		write_name(out, command, option);
}

/* A branch of the script's `case` for an option whose value is one of a list of words. */
static void write_words(FILE *out, const char *command, const struct tool_option *option)
{
	if (option->type != TOOL_TYPE_WORD)
		return;
	fprintf(out, "\t'%s --%s') words='", command, option->name);
	for (const struct tool_word *word = option->words; word->word; word++)
		fprintf(out, "%s%s", word == option->words ? "" : " ", word->word);
	fprintf(out, "' ;;\n");
}

/* The whole script: options of each command, words of each option, and the function that selects
 * the words for the position of the cursor. If it finds none, bash completes file names. */
static void write_all(FILE *out)
{
	fprintf(out, "# bash completion for rung, generated from its tables of options\n"
	             "_rung()\n{\n"
	             "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	             "\tlocal command=${COMP_WORDS[1]} options= valued= words=\n\n"
	             "\tCOMPREPLY=()\n"
	             "\tif [[ $cur == = ]]; then   # --option=WORD is three words\n"
	             "\t\tcur=\n"
	             "\telif [[ $prev == = ]]; then\n"
	             "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	             "\tfi\n"
	             "\tcase $command in\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		fprintf(out, "\t%s)\n\t\toptions='--help", commands[i].name);
		each(out, i, write_name);
		fprintf(out, "'\n\t\tvalued='");
		each(out, i, write_valued);
		fprintf(out, " '\n\t\t;;\n");
	}
	fprintf(out, "\tesac\n\tcase \"$command $prev\" in\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		each(out, i, write_words);
	fprintf(out, "\tesac\n\tif ((COMP_CWORD == 1)); then\n\t\twords='--help --version");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(out, " %s", commands[i].name);
	fprintf(out, "'\n"
	             "\telif [[ $cur == -* && $valued != *\" $prev \"* ]]; then\n"
	             "\t\twords=$options\n"
	             "\tfi\n"
	             "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))   # none: files\n"
	             "}\n"
	             "complete -o default -F _rung rung\n");
}

int main(int argc, char **argv)
{
	FILE *out = argc == 2 ? fopen(argv[1], "w") : NULL;
	int failed;

	if (!out)
		return TOOL_USAGE;
	write_all(out);
	failed = ferror(out); /* a truncated script must fail the build */
	return fclose(out) || failed ? TOOL_FAILED : TOOL_DONE;
}
