/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the completions for bash, zsh and fish to the three files that are its arguments. It is
 * run during the build and generates the scripts from the tables of options, so options and
 * completion cannot differ.
 */
#include <stdio.h>
#include <string.h>

#include "args/args.h"
#include "rung_config.h"

static const struct {
	const char *name;
	const struct tool_command *command;
} commands[] = {
	{ "generate", &tool_generate_command }, { "stage", &tool_stage_command },
	{ "score", &tool_score_command },       { "verify", &tool_verify_command },
	{ "fetch", &tool_fetch_command },       { "info", &tool_info_command },
	{ "plan", &tool_plan_command },         { "trace", &tool_trace_command },
	{ "numa", &tool_numa_command },         { "bench", &tool_bench_command },
	{ "doctor", &tool_doctor_command },     { "top", &tool_top_command },
#if RUNG_HAVE_BLAS
	{ "train", &tool_train_command },
#endif
};

#define TEXT_MAX      60 /* letters of a description */
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

/* The words that an option accepts, separated by blanks; nothing if it has none. */
static void write_known(FILE *out, const struct tool_option *option)
{
	const char *blank = "";

	if (option->type == TOOL_TYPE_WORD) {
		for (const struct tool_word *word = option->words; word->word; word++, blank = " ")
			fprintf(out, "%s%s", blank, word->word);
		return;
	}
	for (const char *word = option->known; word && *word; blank = " ") {
		const size_t length = strcspn(word, " ,");

		if (strncmp(word, "or ", 3) != 0)
			fprintf(out, "%s%.*s", blank, (int)length, word);
		word += length;
		word += strspn(word, " ,");
	}
}

static int has_known(const struct tool_option *option)
{
	return option->type == TOOL_TYPE_WORD || option->known;
}

/* Whether the value contains the name of a file or folder. */
static int is_path(const struct tool_option *option)
{
	static const char *const names[] = { "FILE", "DIR", "PATH", "SRC", "GRAPH", "ROOT" };

	for (size_t i = 0; option->value && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strstr(option->value, names[i]))
			return 1;
	}
	return 0;
}

/* The beginning of a text, without characters that have a meaning in a script. */
static void write_text(FILE *out, const char *text)
{
	const char *sentence = strstr(text, ". ");
	size_t length = sentence ? (size_t)(sentence - text) : strlen(text);

	if (length > TEXT_MAX) {
		for (length = TEXT_MAX; length > 1 && text[length] != ' '; length--)
			;
	}
	for (size_t i = 0; i < length; i++) {
		if (!strchr("'\"\\[]$`:", text[i]))
			fputc(text[i], out);
		else if (text[i] == ':')
			fputc(',', out); /* in zsh it begins another field */
	}
}

static void write_commands(FILE *out)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(out, " %s", commands[i].name);
}

/* ---- bash ---- */

/* Options with a value: after one of them bash must not suggest options. */
static void write_valued(FILE *out, const char *command, const struct tool_option *option)
{
	if (!option->value)
		return;
	write_name(out, command, option);
	if (tool_option_letter(option->name))
		fprintf(out, " -%c", tool_option_letter(option->name));
}

/* A branch of the script's `case` for an option whose value is one of a list of words. */
static void write_words(FILE *out, const char *command, const struct tool_option *option)
{
	if (!has_known(option))
		return;
	fprintf(out, "\t'%s --%s') words='", command, option->name);
	write_known(out, option);
	fprintf(out, "' ;;\n");
}

/* The whole script: options of each command, words of each option, and the function that selects
 * the words for the position of the cursor. If it finds none, bash completes file names. */
static void write_bash(FILE *out)
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
	fprintf(out, "\t'help help') words='");
	write_commands(out);
	fprintf(out, "' ;;\n\tesac\n\tif ((COMP_CWORD == 1)); then\n"
	             "\t\twords='--help --version help");
	write_commands(out);
	fprintf(out, "'\n"
	             "\telif [[ $cur == -* && $valued != *\" $prev \"* ]]; then\n"
	             "\t\twords=$options\n"
	             "\tfi\n"
	             "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))   # none: files\n"
	             "}\n"
	             "complete -o default -F _rung rung\n");
}

/* ---- zsh ---- */

/* A line for _arguments, such as '(-o --out)'{-o+,--out=}'[Folder to create]:DIR:_files'. */
static void write_zsh_option(FILE *out, const char *command, const struct tool_option *option)
{
	const char letter = tool_option_letter(option->name);
	const char *equals = option->value ? "=" : "";

	(void)command;
	if (letter)
		fprintf(out, "\t\t\t'(-%c --%s)'{-%c%s,--%s%s}'[", letter, option->name, letter,
		        option->value ? "+" : "", option->name, equals);
	else
		fprintf(out, "\t\t\t'*--%s%s[", option->name, equals);
	write_text(out, option->help);
	fputc(']', out);
	if (option->value) {
		fputc(':', out);
		write_text(out, option->value);
		fputc(':', out);
		if (has_known(option)) {
			fputc('(', out);
			write_known(out, option);
			fputc(')', out);
		} else {
			fputs(is_path(option) ? "_files" : " ", out);
		}
	}
	fputs("' \\\n", out);
}

static void write_zsh(FILE *out)
{
	fprintf(out, "#compdef rung\n"
	             "# zsh completion for rung, generated from its tables of options\n"
	             "_rung()\n{\n"
	             "\tlocal -a commands=(\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		fprintf(out, "\t\t'%s:", commands[i].name);
		write_text(out, commands[i].command->doc);
		fprintf(out, "'\n");
	}
	fprintf(out, "\t\t'help:Print the options of a command'\n\t)\n"
	             "\tif ((CURRENT == 2)); then\n"
	             "\t\t_describe command commands\n"
	             "\t\tcompadd -- --help --version\n"
	             "\t\treturn\n"
	             "\tfi\n"
	             "\tcase $words[2] in\n"
	             "\thelp) _describe command commands ;;\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		/* _arguments has the words after the command's name */
		fprintf(out, "\t%s)\n\t\tshift words; ((CURRENT--))\n\t\t_arguments -s -S \\\n",
		        commands[i].name);
		each(out, i, write_zsh_option);
		fprintf(out, "\t\t\t'(-h --help)'{-h,--help}'[Print the options]' \\\n"
		             "\t\t\t'*:DIR:_files'\n\t\t;;\n");
	}
	fprintf(out, "\tesac\n}\n_rung \"$@\"\n");
}

/* ---- fish ---- */

static void write_fish_option(FILE *out, const char *command, const struct tool_option *option)
{
	const char letter = tool_option_letter(option->name);

	fprintf(out, "complete -c rung -n '__fish_seen_subcommand_from %s' -l %s", command,
	        option->name);
	if (letter)
		fprintf(out, " -s %c", letter);
	if (has_known(option)) {
		fprintf(out, " -x -a '");
		write_known(out, option);
		fputc('\'', out);
	} else if (option->value) {
		fputs(is_path(option) ? " -r -F" : " -x", out);
	}
	fprintf(out, " -d '");
	write_text(out, option->help);
	fprintf(out, "'\n");
}

static void write_fish(FILE *out)
{
	fprintf(out, "# fish completion for rung, generated from its tables of options\n"
	             "complete -c rung -n __fish_use_subcommand -f\n"
	             "complete -c rung -n __fish_use_subcommand -l version -s V -d 'Print the "
	             "version'\n"
	             "complete -c rung -l help -s h -d 'Print the options'\n"
	             "complete -c rung -n '__fish_seen_subcommand_from help' -f -a '");
	write_commands(out);
	fprintf(out, "'\ncomplete -c rung -n __fish_use_subcommand -a help -d 'Print the options "
	             "of a command'\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		fprintf(out, "complete -c rung -n __fish_use_subcommand -a %s -d '",
		        commands[i].name);
		write_text(out, commands[i].command->doc);
		fprintf(out, "'\n");
		each(out, i, write_fish_option);
	}
}

int main(int argc, char **argv)
{
	static void (*const writers[])(FILE * out) = { write_bash, write_zsh, write_fish };
	int failed = argc != 4;

	for (int i = 0; i < 3 && !failed; i++) {
		FILE *out = fopen(argv[1 + i], "w");

		if (!out)
			return TOOL_FAILED;
		writers[i](out);
		failed = ferror(out); /* a truncated script must fail the build */
		failed |= fclose(out);
	}
	return failed ? TOOL_FAILED : TOOL_DONE;
}
