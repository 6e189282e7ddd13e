/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the soak. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soak.h"

#define USAGE                                                                                      \
	"usage: soak [--seconds N] [--seed S] [--stores N]\n"                                      \
	"       soak --make FOLDER\n"                                                              \
	"       soak --dataset FOLDER [--bad OFFSET]... [--any-error] [--buffered | --direct]\n"   \
	"            [--seconds N] [--seed S]\n"                                                   \
	"\n"                                                                                       \
	"Opens stores on a tier with scripted faults, for 5 seconds or as given; a full soak is\n" \
	"--seconds 600. A failure names the seed of its store: --seed S --stores 1 repeats it.\n"  \
	"\n"                                                                                       \
	"With --dataset the reads go to the file, whose device must fail: reads of the 512 "       \
	"bytes\n"                                                                                  \
	"at each --bad OFFSET always, and with --any-error other reads at random. --make FOLDER\n" \
	"stages the dataset in FOLDER/ds.\n"

struct soak_options soak_options = { .seconds = 5, .seed = 1, .stores = UINT64_MAX };

static uint64_t number_of(const char *text)
{
	char *end;
	uint64_t value = text ? strtoull(text, &end, 10) : 0;

	if (!text || *end || end == text) {
		fprintf(stderr, "soak: '%s' is not a number\n%s", text ? text : "", USAGE);
		exit(2);
	}
	return value;
}

void soak_parse(char **argv)
{
	for (char **arg = argv + 1; *arg; arg++) {
		bool known = true;

		if (strcmp(*arg, "--any-error") == 0)
			soak_options.any_error = true;
		else if (strcmp(*arg, "--buffered") == 0)
			soak_options.buffered = true;
		else if (strcmp(*arg, "--direct") == 0)
			soak_options.direct = true;
		else if (strcmp(*arg, "--seconds") == 0)
			soak_options.seconds = number_of(*++arg);
		else if (strcmp(*arg, "--seed") == 0)
			soak_options.seed = number_of(*++arg);
		else if (strcmp(*arg, "--stores") == 0)
			soak_options.stores = number_of(*++arg);
		else if (strcmp(*arg, "--bad") == 0 && soak_options.bad_count < SOAK_BAD_MAX)
			soak_options.bad[soak_options.bad_count++] = number_of(*++arg);
		else if (strcmp(*arg, "--make") == 0 && arg[1])
			soak_options.make = *++arg;
		else if (strcmp(*arg, "--dataset") == 0 && arg[1])
			soak_options.dataset = *++arg;
		else
			known = false;
		if (!known) {
			fprintf(stderr, "soak: unknown argument '%s'\n%s", *arg, USAGE);
			exit(2);
		}
	}
}
