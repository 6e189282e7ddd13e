/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: the folder that it writes, and which folders and files it replaces or keeps. */
#include <fcntl.h>
#include <sys/file.h>

#include "folder/stage_publish.h"
#include "stage_fixture.h"

TestSuite(stage_out, .init = setup, .fini = teardown, .timeout = 300);

Test(stage_out, invalid_outputs_are_rejected)
{
	char path[400];

	opts.out_dir = "/";
	fails(RUNG_E_INVAL, "not a valid name for a new folder");
	opts.out_dir = "..";
	fails(RUNG_E_INVAL, "not a valid name for a new folder");
	snprintf(path, sizeof(path), "%s/x.partial", dir);
	opts.out_dir = path;
	fails(RUNG_E_INVAL, ".partial");
	snprintf(path, sizeof(path), "%s/none/ds", dir);
	fails(RUNG_E_NOENT, "create it first");
	opts.out_dir = NULL;
	fails(RUNG_E_INVAL, "out_dir");
	snprintf(path, sizeof(path), "%s///", out);
	opts.out_dir = path;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(opens(out));
}

static void refuses_to_replace(const char *words)
{
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_EXIST, "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), words), "%s", rung_last_error());
	cr_assert(exists(out));
	cr_assert_not(exists(partial));
}

Test(stage_out, only_a_staged_dataset_is_replaced_and_only_with_force)
{
	char path[400];

	cr_assert_eq(support_write_file(out, "x", 1), 0);
	refuses_to_replace("exists");
	opts.force = 1;
	refuses_to_replace("is not a folder");
	cr_assert_eq(unlink(out), 0);
	cr_assert_eq(mkdir(out, 0777), 0);
	refuses_to_replace("is not a staged dataset");
	snprintf(path, sizeof(path), "%s/manifest.json", out);
	cr_assert_eq(support_write_file(path, "{\"name\": \"a web site's\"}", 23), 0);
	refuses_to_replace("is not a staged dataset");
	support_remove(out);
	cr_assert_eq(rung_stage(&opts, NULL), 0);
	opts.force = 0;
	refuses_to_replace("--force");
	opts.force = 1;
	snprintf(path, sizeof(path), "%s/notes.txt", out);
	cr_assert_eq(support_write_file(path, "mine", 4), 0);
	refuses_to_replace("notes.txt");
	cr_assert_eq(unlink(path), 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(opens(out) && !exists(partial));
	/* a damaged dataset is still a dataset */
	snprintf(path, sizeof(path), "%s/score.npy", out);
	cr_assert_eq(unlink(path), 0);
	cr_assert_not(opens(out));
	rung__stage_plain_rename = true;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(opens(out) && !exists(partial) && !exists(aside));
}

Test(stage_out, leftovers_are_removed_but_not_foreign_files)
{
	char path[400];

	cr_assert_eq(mkdir(partial, 0777), 0);
	snprintf(path, sizeof(path), "%s/features.000.npy", partial);
	cr_assert_eq(support_write_file(path, "half", 4), 0);
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_not(exists(partial));
	support_remove(out);
	cr_assert_eq(mkdir(partial, 0777), 0);
	snprintf(path, sizeof(path), "%s/thesis.tex", partial);
	cr_assert_eq(support_write_file(path, "years", 5), 0);
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_EXIST);
	cr_assert(strstr(rung_last_error(), "thesis.tex"));
	cr_assert(exists(path));
}

Test(stage_out, a_second_run_on_the_same_output_is_rejected)
{
	int fd;

	cr_assert_eq(mkdir(partial, 0777), 0);
	fd = open(partial, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_BUSY);
	cr_assert(strstr(rung_last_error(), "another process"), "%s", rung_last_error());
	cr_assert(exists(partial));
	close(fd);
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
}

Test(stage_out, a_dry_run_reports_and_writes_nothing)
{
	struct rung_stage_report dry, real;

	opts.dry_run = 1;
	cr_assert_eq(rung_stage(&opts, &dry), 0, "%s", rung_last_error());
	cr_assert_not(exists(out));
	cr_assert_not(exists(partial));
	opts.dry_run = 0;
	cr_assert_eq(rung_stage(&opts, &real), 0);
	cr_assert_eq(dry.edge_count, real.edge_count);
	/* parameters of the score are known only after it is computed: a few bytes of the
	 * manifest */
	cr_assert(real.bytes_written >= dry.bytes_written
	                  ? real.bytes_written - dry.bytes_written < 64
	                  : dry.bytes_written - real.bytes_written < 64);
	opts.dry_run = 1;
	cr_assert_eq(rung_stage(&opts, &dry), RUNG_E_EXIST);
	opts.out_dir = "/nowhere/at/all";
	cr_assert_eq(rung_stage(&opts, &dry), RUNG_E_NOENT);
}
