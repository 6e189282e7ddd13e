/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that select the device that gathers, and the GPU memory available to rows. Any option
 * for GPU memory implies --device auto; without any of them the CPU gathers, even on a machine with
 * GPUs.
 */
#include "args/args.h"

static void set_gpus(const struct argp_state *state, void *ctx, const char *arg)
{
	struct tool_store_args *args = ctx;

	args->gpu_count = tool_arg_gpus(state, "--gpus", arg, args->gpus);
}

static const struct tool_word devices[] = {
	{ "cpu", RUNG_DEVICE_CPU },
	{ "cuda", RUNG_DEVICE_CUDA },
	{ "auto", RUNG_DEVICE_AUTO },
	{ 0 },
};

static const struct tool_option options[] = {
	{ "device", "NAME", 4,
	  "Device that gathers: cpu, cuda, or auto, which falls back to the CPU and prints why "
	  "(default: cpu; auto with any of the options below)",
	  TOOL_WORD(struct tool_store_args, device, devices, "cpu, cuda or auto"),
	  TOOL_NOTED(struct tool_store_args, device_given) },
	{ "gpu", "SIZE", 4,
	  "Memory of each GPU for rows, in the units of --host; 0: no rows there (default: all "
	  "free memory except 1 GiB)",
	  TOOL_SIZE(struct tool_store_args, gpu),
	  TOOL_NOTED(struct tool_store_args, device_option) },
	{ "peers", "N", 4, "Interleave rows over N GPUs, the first of which gathers",
	  TOOL_U32(struct tool_store_args, peers, 1, RUNG_GPUS_MAX),
	  TOOL_NOTED(struct tool_store_args, device_option) },
	{ "replicate", "SIZE", 4,
	  "Part of --gpu for the hottest rows, copied to the gathering GPU (default: none)",
	  TOOL_SIZE(struct tool_store_args, replicate),
	  TOOL_NOTED(struct tool_store_args, device_option) },
	{ "gpus", "LIST", 4,
	  "Numbers of the GPUs, such as 0,1 (default: the current one; with --peers 0 to N-1)",
	  TOOL_SET(set_gpus), TOOL_NOTED(struct tool_store_args, device_option) },
	{ 0 },
};

/* check() changes AUTO to CPU if no option for GPUs follows. */
static void begin(void *ctx)
{
	((struct tool_store_args *)ctx)->device = RUNG_DEVICE_AUTO;
}

/* Checks combinations, and completes the values. `args->device` is the value of --device; AUTO
 * without it. */
static void check(const struct argp_state *state, void *ctx)
{
	struct tool_store_args *args = ctx;

	if (!args->device_option && !args->device_given)
		args->device = RUNG_DEVICE_CPU;
	/* --device alone is recorded as well: rung bench --attach refuses any of these options, and
	 * names it */
	if (!args->device_option) {
		args->device_option = args->device_given;
		return;
	}
	if (args->device == RUNG_DEVICE_CPU)
		argp_error(state,
		           "--device cpu and --%s exclude each other: the CPU uses no GPU memory",
		           args->device_option);
	if (args->peers && args->gpu_count && args->peers != args->gpu_count)
		argp_error(state, "--peers %u: --gpus lists %u GPUs; omit one of the two options",
		           args->peers, args->gpu_count);
	/* --peers N alone is the list 0 to N-1; later code uses the list only */
	if (args->peers && !args->gpu_count) {
		for (args->gpu_count = 0; args->gpu_count < args->peers; args->gpu_count++)
			args->gpus[args->gpu_count] = (int)args->gpu_count;
	}
	if (args->replicate.given && args->gpu_count < 2)
		argp_error(state, "--replicate needs rows interleaved over several GPUs; add "
		                  "--peers or --gpus");
}

const struct tool_option_set tool_gpu_set = { options, begin, check };
