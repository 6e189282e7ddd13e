/* SPDX-License-Identifier: Apache-2.0 */
/* rung doctor: check what this machine, this process and a folder permit, and print how to change
 * what is missing. */
#include <stdio.h>

#include "args/args.h"
#include "doctor/doctor.h"
#include "output/json.h"

struct doctor_args {
	const char *dir; /* NULL: only the machine */
	struct tool_common common;
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_output_set, struct doctor_args, common),
	{ 0 },
};
const struct tool_command tool_doctor_command = {
	.parts = parts,
	.operands = "[DIR]",
	.doc = "Check whether rung can work at full speed here: the kernel, io_uring, limits, NUMA "
	       "and GPU, and for a folder DIR its file system, drive and access. Nothing is "
	       "changed. Exit status 1: something is missing; its line ends with what to do.",
	.operand_kind = TOOL_OPERAND_DIR_OR_NOT,
	.dir = offsetof(struct doctor_args, dir),
	.examples = "  rung doctor\n  rung doctor graph.rung",
};

static const char *state_name(enum doctor_state state)
{
	return state == DOCTOR_OK ? "ok" : state == DOCTOR_ABSENT ? "absent" : "missing";
}

static int print_json(const char *name, const struct doctor *doctor, unsigned missing)
{
	json_t *root = json_object(), *checks = json_array();

	for (unsigned i = 0; i < doctor->count; i++) {
		const struct doctor_check *check = &doctor->checks[i];
		json_t *entry = json_object();

		tool_json_set(entry, "name", tool_json_text(check->name));
		tool_json_set(entry, "state", tool_json_text(state_name(check->state)));
		tool_json_set(entry, "what", tool_json_text(check->what));
		tool_json_set(entry, "cure", tool_json_text(*check->cure ? check->cure : NULL));
		tool_json_append(checks, entry);
	}
	tool_json_set(root, "checks", checks);
	tool_json_set(root, "ok", json_boolean(missing == 0));
	return tool_json_print(name, root);
}

static void print_text(const struct doctor *doctor, unsigned missing)
{
	for (unsigned i = 0; i < doctor->count; i++) {
		const struct doctor_check *check = &doctor->checks[i];

		printf("%-12s %-8s %s\n", check->name, state_name(check->state), check->what);
		if (*check->cure) /* below it, because the two would not fit into 100 columns */
			printf("%-12s %-8s -> %s\n", "", "", check->cure);
	}
	if (missing == 0) {
		printf("\nNothing that rung needs is missing here.\n");
		return;
	}
	printf("\n%u of %u checks failed:", missing, doctor->count);
	for (unsigned i = 0; i < doctor->count; i++) {
		if (doctor->checks[i].state == DOCTOR_MISSING)
			printf(" %s%s", doctor->checks[i].name, --missing ? "," : ".\n");
	}
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_args args = { 0 };
	struct doctor doctor = { .count = 0 };
	unsigned missing = 0;

	tool_args_parse(&tool_doctor_command, argc, argv, &args);
	doctor_check_machine(&doctor);
	if (args.dir)
		doctor_check_folder(&doctor, args.dir);
	for (unsigned i = 0; i < doctor.count; i++)
		missing += doctor.checks[i].state == DOCTOR_MISSING;
	if (!args.common.json)
		print_text(&doctor, missing);
	else if (print_json(argv[0], &doctor, missing) < 0)
		return TOOL_FAILED;
	return missing ? TOOL_FAILED : TOOL_DONE;
}
