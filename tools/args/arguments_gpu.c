/* SPDX-License-Identifier: Apache-2.0 */
/* The options that choose what gathers, and what of GPU memory rows may take. */
#include <string.h>

#include "tool.h"

enum { KEY_DEVICE = 0x4101, KEY_GPU, KEY_PEERS, KEY_REPLICATE, KEY_GPUS };

static const struct argp_option options[] = {
	{ "device", KEY_DEVICE, "NAME", 0,
	  "What gathers: cpu, cuda, or auto, which takes the CPU where there is no GPU and says why (default: cpu; auto with any of "
	  "the options below)", 4 },
	{ "gpu", KEY_GPU, "SIZE", 0,
	  "Memory of each GPU for rows, as --host says sizes; 0: no rows there (default: all that is free but 1 GiB)", 4 },
	{ "peers", KEY_PEERS, "N", 0, "Interleave rows over N GPUs, the first of which gathers", 4 },
	{ "replicate", KEY_REPLICATE, "SIZE", 0,
	  "Of --gpu: the hottest rows, which the GPU that gathers has for itself (default: none)", 4 },
	{ "gpus", KEY_GPUS, "LIST", 0, "Which GPUs: 0,1 (default: the current one; with --peers 0 to N-1)", 4 },
	{ 0 },
};

static enum rung_device arg_device(const struct argp_state *state, const char *arg)
{
	for (int device = 0; rung_device_name((enum rung_device)device); device++) {
		if (strcmp(arg, rung_device_name((enum rung_device)device)) == 0)
			return (enum rung_device)device;
	}
	argp_error(state, "--device: '%s' is no device; give cpu, cuda or auto", arg);
	return RUNG_DEVICE_CPU;
}

/* What only makes sense together. `args->device` is what --device said; without it AUTO. */
static void check(const struct argp_state *state, struct tool_store_args *args)
{
	if (!args->device_option) {
		args->device = RUNG_DEVICE_CPU;
		return;
	}
	if (args->device == RUNG_DEVICE_CPU && strcmp(args->device_option, "--device") != 0)
		argp_error(state, "--device cpu and %s exclude each other: the CPU uses no GPU memory", args->device_option);
	if (args->peers && args->gpu_count && args->peers != args->gpu_count)
		argp_error(state, "--peers %u, but --gpus names %u; leave out one of them", args->peers, args->gpu_count);
	if (args->peers && !args->gpu_count) {
		for (args->gpu_count = 0; args->gpu_count < args->peers; args->gpu_count++)
			args->gpus[args->gpu_count] = (int)args->gpu_count;
	}
	if (args->replicate.given && args->gpu_count < 2)
		argp_error(state, "--replicate is for rows interleaved over several GPUs; give --peers 2 or --gpus 0,1 as well");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct tool_store_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		args->device = RUNG_DEVICE_AUTO;
		return 0;
	case KEY_DEVICE:
		args->device = arg_device(state, arg);
		args->device_option = args->device_option ? args->device_option : "--device";
		return 0;
	case KEY_GPU:
		args->gpu = tool_arg_size(state, "--gpu", arg);
		args->device_option = "--gpu";
		return 0;
	case KEY_PEERS:
		args->peers = tool_arg_u32(state, "--peers", arg, 1, RUNG_GPUS_MAX);
		args->device_option = "--peers";
		return 0;
	case KEY_REPLICATE:
		args->replicate = tool_arg_size(state, "--replicate", arg);
		args->device_option = "--replicate";
		return 0;
	case KEY_GPUS:
		args->gpu_count = tool_arg_gpus(state, "--gpus", arg, args->gpus);
		args->device_option = "--gpus";
		return 0;
	case ARGP_KEY_END:
		check(state, args);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp tool_gpu_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };
