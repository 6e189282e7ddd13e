/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads command lines by tables of options. The tables of a subcommand and of its parts are joined
 * to one list for argp; the key of an option is its position in that list, which leads back to the
 * table's row and to the struct that it sets.
 */
#include "args/args.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define KEY_FIRST  0x10000 /* above all characters, which argp would treat as short options */
#define NAME_BYTES 64      /* of "--" and an option's name */

#define NAMES_BYTES 2048 /* of all names of a subcommand */
#define WIDTH_MIN   50
#define WIDTH_MAX   100

/* A command line being read. */
struct reading {
	const struct tool_command *command;
	void *args;                 /* the subcommand's struct */
	struct argp_option *listed; /* [count], then -? and a row of zeros, which ends it */
	struct target {
		const struct tool_option *option;
		void *args; /* struct of the option's set, or of the subcommand */
	} * targets;        /* [count] */
	int count;
};

/* Nonzero for an option or a heading, zero for the row that ends a table. */
static int is_option(const struct tool_option *option)
{
	return option->name || option->help;
}

/* Number of entries that a table adds to argp's list: an earlier spelling is a separate entry. */
static int option_count(const struct tool_option *options)
{
	int count = 0;

	for (; options && is_option(options); options++)
		count += options->old ? 2 : 1;
	return count;
}

char tool_option_letter(const char *name)
{
	static const struct {
		const char *name;
		char letter;
	} letters[] = { { "help", 'h' },    { "json", 'j' },  { "quiet", 'q' },
		        { "threads", 't' }, { "out", 'o' },   { "force", 'f' },
		        { "memory", 'm' },  { "batch", 'b' }, { "rows", 'n' } };

	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (strcmp(letters[i].name, name) == 0)
			return letters[i].letter;
	}
	return 0;
}

/* Append an entry under `name`. Headings have key 0: argp then prints the text alone. */
static void list_as(struct reading *reading, const struct tool_option *option, void *args,
                    const char *name, int flags)
{
	/* an earlier spelling can be the present name of another option */
	const char letter = name && name == option->name ? tool_option_letter(name) : 0;

	reading->targets[reading->count] = (struct target){ option, args };
	reading->listed[reading->count] = (struct argp_option){
		.name = name,
		.key = letter ? letter
		       : name ? KEY_FIRST + reading->count
		              : 0,
		.arg = option->value,
		.flags = flags,
		.doc = name && strcmp(name, "threads") == 0 && reading->command->threads
		               ? reading->command->threads
		               : option->help,
		.group = option->group,
	};
	reading->count++;
}

static void list(struct reading *reading, const struct tool_option *option, void *args)
{
	for (; option && is_option(option); option++) {
		if (option->old)
			list_as(reading, option, args, option->old, OPTION_HIDDEN);
		list_as(reading, option, args, option->name, option->help ? 0 : OPTION_HIDDEN);
	}
}

/* Append the headings of the groups. General options are last, in group -1. */
static void list_headings(struct reading *reading)
{
	for (int group = 0; group <= TOOL_GROUPS_MAX; group++) {
		const int last = group == TOOL_GROUPS_MAX;
		const char *heading = last ? "General:" : reading->command->headings[group];

		if (heading)
			reading->listed[reading->count++] =
				(struct argp_option){ .doc = heading, .group = last ? -1 : group };
	}
}

static void *part_args(const struct reading *reading, const struct tool_part *part)
{
	return (char *)reading->args + part->offset;
}

/* ---- help ---- */

/* Lines of help fit the terminal, or $COLUMNS: 80 where both are unknown. */
static void set_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize window = { 0 };
	int width = columns ? atoi(columns) : 0;
	char format[64];

	if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
		width = window.ws_col;
	if (width <= 0)
		width = 80;
	width = width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
	/* argp's note that values of long options are also those of short ones adds nothing */
	snprintf(format, sizeof(format), "no-dup-args-note,rmargin=%d%s", width - 1,
	         width < 70 ? ",opt-doc-col=22" : "");
	setenv("ARGP_HELP_FMT", format, 0);
}

/* doc of struct argp: the text, and after '\v' what follows the options. */
static char *help_text(const struct tool_command *command)
{
	const char *after = strchr(command->doc, '\v') ? "\n\n" : "\v";
	char *text;

	if (!command->examples ||
	    asprintf(&text, "%s%sExamples:\n%s", command->doc, after, command->examples) < 0)
		text = strdup(command->doc);
	return text;
}

static void print_help(const struct argp_state *state, void *args, const char *arg)
{
	(void)args, (void)arg;
	argp_state_help(state, stdout, ARGP_HELP_STD_HELP); /* exits */
}

static void print_usage(const struct argp_state *state, void *args, const char *arg)
{
	(void)args, (void)arg;
	argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
}

/* Instead of argp's own, which have -? and not -h. */
static const struct tool_option help_options[] = {
	{ "help", NULL, -1, "Print this list of options", TOOL_SET(print_help) },
	{ "usage", NULL, -1, "Print a short summary of the options", TOOL_SET(print_usage) },
	{ 0 },
};

/* ---- values ---- */

/* A size in bytes, for a limit without a total of which it could be a share. */
static uint64_t arg_bytes(const struct tool_option *option, const struct argp_state *state,
                          const char *name, const char *arg)
{
	const struct tool_size size = tool_arg_size(state, name, arg);

	if (size.share >= 0 || size.bytes == RUNG_BYTES_MAX || size.bytes < option->low)
		argp_error(state, "%s: '%s' is %s", name, arg, option->wrong);
	/* 0 would select the library's default; the library refuses 1 as too little and names the
	 * minimum */
	return size.bytes ? size.bytes : 1;
}

static unsigned arg_word(const struct tool_option *option, const struct argp_state *state,
                         const char *name, const char *arg)
{
	const struct tool_word *word = option->words;

	while (word->word && strcmp(word->word, arg) != 0)
		word++;
	if (!word->word)
		argp_error(state, "%s: unknown value '%s'; %s", name, arg,
		           tool_meant(arg, option->wrong, option->wrong));
	return word->value;
}

/* Set the target of an option in `args`. Messages contain the current name of the option, even if
 * an earlier spelling was used. */
static void store(const struct tool_option *option, const struct argp_state *state, const char *arg,
                  void *args)
{
	const uint32_t low = (uint32_t)option->low, high = (uint32_t)option->high;
	void *at = (char *)args + option->offset;
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "--%s", option->name);
	switch (option->type) {
	case TOOL_TYPE_SET:
		option->set(state, args, arg);
		break;
	case TOOL_TYPE_FLAG:
		*(int *)at = 1;
		break;
	case TOOL_TYPE_TEXT:
		if (option->once)
			tool_set_once(state, name, at, arg);
		*(const char **)at = arg;
		break;
	case TOOL_TYPE_U32:
		*(uint32_t *)at = tool_arg_u32(state, name, arg, low, high);
		break;
	case TOOL_TYPE_U64:
		*(uint64_t *)at = tool_arg_u64(state, name, arg, option->low, option->high);
		break;
	case TOOL_TYPE_REAL:
		*(double *)at = tool_arg_double(state, name, arg, option->real_low,
		                                option->real_high, option->bounds);
		break;
	case TOOL_TYPE_TIME:
		*(double *)at =
			tool_arg_seconds(state, name, arg, option->real_low, option->real_high);
		break;
	case TOOL_TYPE_RATE:
		*(double *)at = tool_arg_rate(state, name, arg);
		break;
	case TOOL_TYPE_SIZE:
		*(struct tool_size *)at = tool_arg_size(state, name, arg);
		break;
	case TOOL_TYPE_BYTES:
		*(uint64_t *)at = arg_bytes(option, state, name, arg);
		break;
	case TOOL_TYPE_WORD:
		*(unsigned *)at = arg_word(option, state, name, arg);
		break;
	case TOOL_TYPE_LIST:
	case TOOL_TYPE_SIZES:
		*(size_t *)((char *)args + option->count_offset) = tool_arg_u32s(
			state, name, arg,
			option->type == TOOL_TYPE_LIST ? tool_arg_u32 : tool_arg_size32, low, high,
			at, option->room);
		break;
	case TOOL_TYPE_FANOUTS:
		*(struct tool_fanouts *)at = tool_arg_fanouts(state, name, arg);
		break;
	}
	if (option->noted)
		*(const char **)((char *)args + option->noted) = option->name;
}

/* ---- the command line ---- */

void tool_set_once(const struct argp_state *state, const char *option, const char **at,
                   const char *src)
{
	if (*at)
		argp_error(state,
		           "%s: '%s' is given, and '%s', too; give one SRC, such as both joined "
		           "with numpy.concatenate()",
		           option, *at, src);
	*at = src;
}

void tool_need_dir(const struct argp_state *state, const char *dir)
{
	if (!dir)
		argp_error(state, "DIR is missing; give the folder of the staged dataset");
}

static error_t operand(const struct reading *reading, const struct argp_state *state,
                       const char *arg)
{
	const struct tool_command *command = reading->command;
	const char **dir = (const char **)((char *)reading->args + command->dir);

	if (command->operand) {
		command->operand(state, reading->args, arg);
	} else if (command->operand_kind) {
		if (*dir)
			argp_error(state, "unexpected argument '%s'; give only one DIR", arg);
		*dir = arg;
	} else {
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* Run all checks, when every option is known. The parts are checked from the last to the first,
 * then the subcommand, which can rely on the values that they set. */
static void check(const struct reading *reading, const struct argp_state *state)
{
	const struct tool_command *command = reading->command;
	const struct tool_part *part = command->parts;

	while (part->set)
		part++;
	while (part-- != command->parts) {
		if (part->set->check)
			part->set->check(state, part_args(reading, part));
	}
	if (command->operand_kind == TOOL_OPERAND_DIR)
		tool_need_dir(state, *(const char **)((char *)reading->args + command->dir));
	if (command->check)
		command->check(state, reading->args);
}

/* argp's callback: for each option and operand in turn, and once at the end. */
static error_t parse(int key, char *arg, struct argp_state *state)
{
	const struct reading *reading = state->input;

	for (int i = 0; i < reading->count && key > 0; i++) {
		if (reading->listed[i].key == key) {
			store(reading->targets[i].option, state, arg, reading->targets[i].args);
			return 0;
		}
	}
	switch (key) {
	case ARGP_KEY_ARG:
		return operand(reading, state, arg);
	case '?': /* as argp's own help */
		print_help(state, NULL, NULL);
		return 0;
	case ARGP_KEY_END:
		check(reading, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The first option whose name begins with `length` letters of `name`; NULL: none. */
static const struct argp_option *find(const struct reading *reading, const char *name,
                                      size_t length)
{
	for (int i = 0; i < reading->count; i++) {
		if (reading->listed[i].name && strncmp(reading->listed[i].name, name, length) == 0)
			return &reading->listed[i];
	}
	return NULL;
}

static _Noreturn void unknown_option(const struct reading *reading, const char *command,
                                     const char *word)
{
	char name[NAME_BYTES], help[NAME_BYTES], known[NAMES_BYTES];
	size_t used = 0;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	for (int i = 0; i < reading->count && used < sizeof(known) - NAME_BYTES; i++) {
		if (reading->listed[i].name && !(reading->listed[i].flags & OPTION_HIDDEN))
			used += (size_t)snprintf(known + used, sizeof(known) - used, " --%s",
			                         reading->listed[i].name);
	}
	snprintf(help, sizeof(help), "%s --help to list the options", command);
	exit(tool_error(command, TOOL_USAGE, "unknown option '%s'; %s", name,
	                tool_meant(name, known, help)));
}

/* Whether the next word is the value of the last one of the letters in a word such as -qo. Exits
 * for the name of a long option, as in -host, which would be read as -h. */
static int letters_have_value(const struct reading *reading, const char *command, const char *word)
{
	const struct argp_option *same = find(reading, word + 1, strcspn(word + 1, "="));

	if (word[1] && word[2] && same && strlen(same->name) == strcspn(word + 1, "="))
		unknown_option(reading, command, word);
	for (const char *letter = word + 1; *letter; letter++) {
		for (int i = 0; i < reading->count; i++) {
			if (reading->listed[i].key == *letter && reading->listed[i].arg)
				return !letter[1];
		}
	}
	return 0;
}

/* Exit if a long option is unknown: getopt() would not suggest another one. As in getopt(), a
 * value follows '=' or is the next word, and "--" ends the options. */
static void check_names(const struct reading *reading, int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *name = argv[i] + 2;
		const size_t length = strcspn(name, "=");
		const struct argp_option *option;

		if (argv[i][0] != '-')
			continue;
		if (argv[i][1] != '-') {
			i += letters_have_value(reading, argv[0], argv[i]);
			continue;
		}
		option = find(reading, name, length);
		if (!option)
			unknown_option(reading, argv[0], argv[i]);
		if (option->arg && !name[length])
			i++;
	}
}

void tool_args_parse(const struct tool_command *command, int argc, char **argv, void *args)
{
	struct reading reading = { .command = command, .args = args };
	char *doc = help_text(command);
	struct argp argp = { .parser = parse, .args_doc = command->operands, .doc = doc };
	const struct tool_part *part;
	int count = option_count(help_options) + option_count(command->options) + TOOL_GROUPS_MAX;

	for (part = command->parts; part->set; part++)
		count += option_count(part->set->options);
	/* both lists live only during argp_parse(): no value points into them */
	reading.listed = calloc((size_t)count + 3, sizeof(*reading.listed));
	reading.targets = calloc((size_t)count + 1, sizeof(*reading.targets));
	if (!reading.listed || !reading.targets || !doc)
		exit(tool_error(argv[0], TOOL_FAILED, "no memory for the options"));
	list(&reading, command->options, args);
	for (part = command->parts; part->set; part++) {
		list(&reading, part->set->options, part_args(&reading, part));
		if (part->set->begin) /* defaults, before any option can replace them */
			part->set->begin(part_args(&reading, part));
	}
	list(&reading, help_options, args);
	list_headings(&reading);
	check_names(&reading, argc, argv);
	reading.listed[reading.count] = (struct argp_option){ .key = '?', .flags = OPTION_HIDDEN };
	argp.options = reading.listed;
	set_width();
	argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &reading);
	free(reading.listed);
	free(reading.targets);
	free(doc);
}
