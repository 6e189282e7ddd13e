/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads command lines by tables of options. The tables of a subcommand and of its parts are joined
 * to one list for argp; the key of an option is its position in that list, which leads back to the
 * table's row and to the struct that it sets.
 */
#include "args/args.h"

#include <stdlib.h>
#include <string.h>

#define KEY_FIRST  0x10000 /* above all characters, which argp would treat as short options */
#define NAME_BYTES 64      /* of "--" and an option's name */

/* A command line being read. */
struct reading {
	const struct tool_command *command;
	void *args;                 /* the subcommand's struct */
	struct argp_option *listed; /* [count], then a row of zeros, which ends it */
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

/* Append an entry under `name`. Headings have key 0: argp then prints the text alone. */
static void list_as(struct reading *reading, const struct tool_option *option, void *args,
                    const char *name, int flags)
{
	reading->targets[reading->count] = (struct target){ option, args };
	reading->listed[reading->count] = (struct argp_option){
		.name = name,
		.key = name ? KEY_FIRST + reading->count : 0,
		.arg = option->value,
		.flags = flags,
		.doc = option->help,
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

static void *part_args(const struct reading *reading, const struct tool_part *part)
{
	return (char *)reading->args + part->offset;
}

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
		argp_error(state, "%s: unknown value '%s'; use %s", name, arg, option->wrong);
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
		*(size_t *)((char *)args + option->count_offset) =
			tool_arg_u32s(state, name, arg, low, high, at, option->room);
		break;
	case TOOL_TYPE_FANOUTS:
		*(struct tool_fanouts *)at = tool_arg_fanouts(state, name, arg);
		break;
	}
	if (option->noted)
		*(const char **)((char *)args + option->noted) = option->name;
}

/* ---- the command line ---- */

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

	if (key >= KEY_FIRST && key < KEY_FIRST + reading->count) {
		const struct target *target = &reading->targets[key - KEY_FIRST];

		store(target->option, state, arg, target->args);
		return 0;
	}
	switch (key) {
	case ARGP_KEY_ARG:
		return operand(reading, state, arg);
	case ARGP_KEY_END:
		check(reading, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void tool_args_parse(const struct tool_command *command, int argc, char **argv, void *args)
{
	struct reading reading = { .command = command, .args = args };
	struct argp argp = { .parser = parse, .args_doc = command->operands, .doc = command->doc };
	const struct tool_part *part;
	int count = option_count(command->options);

	for (part = command->parts; part->set; part++)
		count += option_count(part->set->options);
	/* both lists live only during argp_parse(): no value points into them */
	reading.listed = calloc((size_t)count + 1, sizeof(*reading.listed));
	reading.targets = calloc((size_t)count + 1, sizeof(*reading.targets));
	if (!reading.listed || !reading.targets)
		exit(tool_error(argv[0], TOOL_FAILED, "no memory for the options"));
	list(&reading, command->options, args);
	for (part = command->parts; part->set; part++) {
		list(&reading, part->set->options, part_args(&reading, part));
		if (part->set->begin) /* defaults, before any option can replace them */
			part->set->begin(part_args(&reading, part));
	}
	argp.options = reading.listed;
	argp_parse(&argp, argc, argv, 0, NULL, &reading);
	free(reading.listed);
	free(reading.targets);
}
