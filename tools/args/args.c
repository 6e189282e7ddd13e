/* SPDX-License-Identifier: Apache-2.0 */
/* Options out of tables. */
#include "args/args.h"

#include <stdlib.h>

#define KEY_FIRST  0x10000   /* no character, and none of the keys of options shared by several */
#define NAME_BYTES 64

static int option_count(const struct tool_option *options)
{
	int count = 0;

	while (options[count].name)
		count++;
	return count;
}

void tool_args_parse(const struct argp *argp, const struct tool_option *options, int argc,
		     char **argv, void *args)
{
	const int count = option_count(options);
	struct argp_option *listed = calloc((size_t)count + 1, sizeof(*listed));
	struct argp with_options = *argp;

	if (!listed)
		exit(tool_error(argv[0], TOOL_FAILED, "no memory for the options"));
	for (int i = 0; i < count; i++) {
		listed[i] = (struct argp_option){
			.name = options[i].name,
			.key = KEY_FIRST + i,
			.arg = options[i].value,
			.flags = options[i].help ? 0 : OPTION_HIDDEN,
			.doc = options[i].help,
			.group = options[i].group,
		};
	}
	with_options.options = listed;
	argp_parse(&with_options, argc, argv, 0, NULL, args);
	free(listed);
}

static void store(const struct tool_option *option, const struct argp_state *state,
		  const char *arg, void *args)
{
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
		*(uint32_t *)at = tool_arg_u32(state, name, arg, (uint32_t)option->low,
					       (uint32_t)option->high);
		break;
	case TOOL_TYPE_U64:
		*(uint64_t *)at = tool_arg_u64(state, name, arg, option->low, option->high);
		break;
	case TOOL_TYPE_REAL:
		*(double *)at = tool_arg_double(state, name, arg, option->real_low,
						option->real_high, option->bounds);
		break;
	case TOOL_TYPE_FANOUTS:
		*(struct tool_fanouts *)at = tool_arg_fanouts(state, name, arg);
		break;
	}
}

error_t tool_args_option(const struct tool_option *options, int key, char *arg,
			 const struct argp_state *state, void *args)
{
	if (key < KEY_FIRST || key >= KEY_FIRST + option_count(options))
		return ARGP_ERR_UNKNOWN;
	store(&options[key - KEY_FIRST], state, arg, args);
	return 0;
}
