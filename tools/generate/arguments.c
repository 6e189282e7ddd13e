/* SPDX-License-Identifier: Apache-2.0 */
/* The options that name a model and its scale. */
#include <string.h>

#include "args/args.h"
#include "generate.h"

#define SCALE_MAX 1000000

const struct gen_model *gen_arg_model(const struct argp_state *state, const char *arg)
{
	const struct gen_model *model = gen_model_find(arg);
	char names[160] = "";

	if (model)
		return model;
	for (size_t i = 0; gen_model_name(i); i++) {
		if (i > 0)
			strcat(names, gen_model_name(i + 1) ? ", " : " or ");
		strcat(names, gen_model_name(i));
	}
	argp_error(state, "--model: unknown value '%s'; %s", arg, tool_meant(arg, names, names));
	return NULL; /* argp_error() exits */
}

uint64_t gen_arg_scale(const struct argp_state *state, const char *arg)
{
	if (strcmp(arg, "1") == 0)
		return 1;
	if (strncmp(arg, "1/", 2) == 0)
		return tool_arg_u64(state, "--scale", arg + 2, 1, SCALE_MAX);
	argp_error(state, "--scale: '%s' is not of the form 1/N; give one such as 1/16", arg);
	return 0; /* argp_error() exits */
}
