/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `rung`: finds the subcommand and runs it. It also prepares the process for all
 * subcommands: standard streams, exit codes of argp, signals, and a check at exit that all output
 * was written.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "rung_config.h"
#include "tool.h"

struct subcommand {
	const char *name;
	/* argv[0] of the subcommand, so that argp's messages start with it */
	const char *full_name;
	int (*run)(int argc, char **argv); /* NULL: not in this build */
	const char *summary;               /* a line of rung --help */
};

/* Without BLAS the command is still listed, with the reason why it does not run. */
#if RUNG_HAVE_BLAS
#define RUN_TRAIN cmd_train
#else
#define RUN_TRAIN NULL
#endif

static const struct subcommand subcommands[] = {
	{ "generate", "rung generate", cmd_generate,
	  "write a scale model of a public graph, with features" },
	{ "stage", "rung stage", cmd_stage,
	  "score and rank a graph, write its features in that order" },
	{ "score", "rung score", cmd_score,
	  "compute how often each row will be requested, and write a file" },
	{ "verify", "rung verify", cmd_verify,
	  "re-read a staged dataset and compare its checksums" },
	{ "fetch", "rung fetch", cmd_fetch,
	  "copy a staged dataset, or its hottest rows, from another machine" },
	{ "info", "rung info", cmd_info, "print the contents of a staged dataset" },
	{ "plan", "rung plan", cmd_plan,
	  "compare memory budgets, and predict the hits and the time of an epoch" },
	{ "trace", "rung trace", cmd_trace,
	  "sample epochs, and count the hits of tiers and row orders" },
	{ "numa", "rung numa", cmd_numa,
	  "print and measure NUMA nodes, GPUs, NVMe drives and their links" },
	{ "bench", "rung bench", cmd_bench, "measure gathers from a staged dataset" },
	{ "doctor", "rung doctor", cmd_doctor,
	  "check kernel, limits, drive and GPU, and print what to change" },
	{ "top", "rung top", cmd_top, "show what the stores of running processes do" },
	{ "train", "rung train", RUN_TRAIN, "train a small GraphSAGE on a staged dataset" },
};

#define SUBCOMMAND_COUNT (sizeof(subcommands) / sizeof(subcommands[0]))

static void print_usage(FILE *out)
{
	fprintf(out, "Usage: rung COMMAND [OPTION...]\n"
	             "Feature rows of graph neural networks on a ladder of memory tiers.\n\n");
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
		fprintf(out, "  %-8s %s%s\n", subcommands[i].name, subcommands[i].summary,
		        subcommands[i].run ? "" : " (not in this build)");
	}
	fprintf(out,
	        "\n  rung help COMMAND   options of a command; man rung-COMMAND has the "
	        "details\n  rung --version      version and built-in features\n\nExit status: 0 "
	        "done, 1 failed, 2 wrong usage, 3 data do not verify, 4 worse, 77 no hardware.\n");
}

static int is_one_of(const char *word, const char *name, const char *letter)
{
	return strcmp(word, name) == 0 || strcmp(word, letter) == 0;
}

static void print_version(void)
{
	const char *name, *why;
	int built_in;

	printf("rung %s (%s)\n", rung_version(), rung_commit());
	for (unsigned i = 0; (name = rung_feature(i, &built_in, &why)) != NULL; i++)
		printf("  %-9s %-4s %s\n", name, built_in ? "yes" : "no", why);
	printf("  %-9s %-4s %s\n", "blas", RUNG_HAVE_BLAS ? "yes" : "no", RUNG_WHY_BLAS);
	printf("\nThese parts are built in; rung doctor checks what this machine permits.\n");
}

/* Report an unknown command, with the nearest one or the list of all. @return an exit code */
static int unknown(const char *word)
{
	char known[256] = "", accepted[320];

	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
		strcat(known, " ");
		strcat(known, subcommands[i].name);
	}
	snprintf(accepted, sizeof(accepted), "one of%s", known);
	strcat(known, " help --help --version");
	return tool_error("rung", TOOL_USAGE, "unknown command '%s'; %s", word,
	                  tool_meant(word, known, accepted));
}

static int run_command(int argc, char **argv)
{
	const struct subcommand *command = subcommands;

	while (command < subcommands + SUBCOMMAND_COUNT && strcmp(argv[0], command->name) != 0)
		command++;
	if (command == subcommands + SUBCOMMAND_COUNT)
		return unknown(argv[0]);
	if (!command->run) {
		return tool_error(command->full_name, TOOL_FAILED, "not in this build: %s",
		                  RUNG_WHY_BLAS);
	}
	argv[0] = (char *)(uintptr_t)command->full_name; /* argp only reads it */
	tool_interrupt_init(command->full_name);
	tool_ask_listen();
	return command->run(argc, argv);
}

/* Open something as each standard stream that is closed. Otherwise the next file that is opened,
 * such as one of a dataset, would get its number, and results would be written into it. */
static void keep_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			/* open() returns the lowest free number, which is fd. Opened for reading
			 * only, so that writing to it fails as it would with a closed stream */
			open("/dev/null", O_RDONLY);
	}
}

/* Runs at every exit, including argp's after --help: lost results are a failure, whatever the exit
 * code was. on_exit() instead of atexit(), because the handler needs that code. */
static void check_output(int code, void *ctx)
{
	(void)ctx;
	if (tool_flush("rung") != TOOL_DONE)
		_exit(code ? code : TOOL_FAILED);
}

int main(int argc, char **argv)
{
	int code = TOOL_DONE;

	keep_streams(); /* before anything opens a file */
	on_exit(check_output, NULL);
	/* ignored, so that a write() beyond the file size limit fails; the command reports that and
	 * cleans up */
	signal(SIGXFSZ, SIG_IGN);
	argp_err_exit_status = TOOL_USAGE;
	if (argc < 2) {
		print_usage(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "help") == 0 && argc > 2) {
		char help[] = "--help", *args[] = { argv[2], help, NULL };

		code = run_command(2, args);
	} else if (is_one_of(argv[1], "--help", "-h") || strcmp(argv[1], "help") == 0) {
		print_usage(stdout);
	} else if (is_one_of(argv[1], "--version", "-V")) {
		print_version();
	} else {
		code = run_command(argc - 1, argv + 1);
	}
	/* a signal was received in a grace period, and the command has cleaned up since; stdio is
	 * flushed here, because a death by signal does not flush it */
	if (tool_interrupted()) {
		tool_flush(argv[1]);
		tool_interrupt_end();
	}
	return code;
}
