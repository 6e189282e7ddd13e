/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of staging: of files before they are published, of datasets before a run reports them
 * as finished, and of inputs. */
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <utime.h>

#include "stage/stage_check.h"
#include "stage/stage_write.h"
#include "stage_killed.h"

TestSuite(stage_check, .init = setup, .fini = teardown, .timeout = 300);

static char years[300], scores[300];
static struct rung_stage_array arrays[] = { { "year", years } };

enum damage { MISSING, CUT, CHANGED, DAMAGES };

struct kept {
	char path[500];
	unsigned char *bytes;
	size_t count;
};

static void do_damage(enum damage damage, const char *folder, const char *name, struct kept *kept)
{
	snprintf(kept->path, sizeof(kept->path), "%s/%s", folder, name);
	kept->bytes = support_read_file(kept->path, &kept->count);
	cr_assert(kept->bytes != NULL, "%s", kept->path);
	if (damage == MISSING) {
		cr_assert_eq(unlink(kept->path), 0);
	} else if (damage == CUT) {
		cr_assert_eq(truncate(kept->path, 2000), 0);
	} else {
		kept->bytes[kept->count - 1] ^= 1;
		cr_assert_eq(support_write_file(kept->path, kept->bytes, kept->count), 0);
		kept->bytes[kept->count - 1] ^= 1;
	}
}

static void undo_damage(struct kept *kept)
{
	cr_assert_eq(support_write_file(kept->path, kept->bytes, kept->count), 0);
	free(kept->bytes);
}

static bool verifies(const char *path)
{
	struct rung_verify_report report = { 0 };
	int rc = rung_dataset_verify(path, NULL, &report);

	rung_verify_report_fini(&report);
	return rc == 0;
}

static const char *stop_at;

static int stop(void *ctx, const char *step, unsigned long long done, unsigned long long total)
{
	(void)ctx;
	(void)done;
	(void)total;
	return stop_at && strcmp(step, stop_at) == 0;
}

/* A finished dataset, and a run that was to replace it, stopped after all files were written. */
static void stop_before_publishing(void)
{
	snprintf(years, sizeof(years), "%s/labels.npy", dir);
	opts.arrays = arrays;
	opts.array_count = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.force = 1;
	opts.progress = stop;
	stop_at = "check";
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED, "%s", rung_last_error());
	stop_at = NULL;
	opts.resume = 1;
}

Test(stage_check, damaged_files_are_not_published_and_the_old_dataset_is_kept)
{
	static const char *const names[] = { "features.000.npy",   "graph_indptr.npy",
		                             "graph_indices.npy",  "vertex_of_rank.npy",
		                             "rank_of_vertex.npy", "score.npy",
		                             "labels.npy",         "features_year.npy",
		                             "split_train.npy",    "split_valid.npy" };
	struct rung_stage_report report;
	struct kept kept;

	stop_before_publishing();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (enum damage damage = MISSING; damage < DAMAGES; damage++) {
			do_damage(damage, partial, names[i], &kept);
			assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, names[i]);
			cr_assert(strstr(rung_last_error(), "--resume") &&
			                  strstr(rung_last_error(), "--force"),
			          "%s", rung_last_error());
			cr_assert(opens(out) && verifies(out), "%s", names[i]);
			cr_assert(exists(partial));
			undo_damage(&kept);
		}
	}
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.resumed, 1);
	cr_assert(verifies(out));
	no_leftovers(out);
}

static int cut_labels(void *ctx, const char *step, unsigned long long done,
                      unsigned long long total)
{
	char path[400];

	(void)ctx;
	(void)done;
	(void)total;
	snprintf(path, sizeof(path), "%s/labels.npy", partial);
	return strcmp(step, "check") == 0 && truncate(path, 4100) < 0;
}

Test(stage_check, damage_during_the_same_run_is_detected_too)
{
	opts.progress = cut_labels;
	assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, "labels.npy: has 4100 bytes");
	cr_assert_not(exists(out));
	cr_assert(exists(partial));
}

static int move_partial(void *ctx, const char *step, unsigned long long done,
                        unsigned long long total)
{
	(void)ctx;
	if (strcmp(step, "check") == 0 && done == total && exists(partial))
		cr_assert_eq(rename(partial, aside), 0);
	return 0;
}

Test(stage_check, a_renamed_folder_is_not_published)
{
	opts.progress = move_partial;
	assert_error(rung_stage(&opts, NULL), RUNG_E_NOENT, "was moved or removed");
	cr_assert_not(exists(out));
}

Test(stage_check, a_features_file_on_a_missing_drive_is_named)
{
	char one[300], two[300], away[300];
	const char *folders[] = { one, two };

	snprintf(one, sizeof(one), "%s/one", dir);
	snprintf(two, sizeof(two), "%s/two", dir);
	snprintf(away, sizeof(away), "%s/away", dir);
	cr_assert(mkdir(one, 0777) == 0 && mkdir(two, 0777) == 0);
	opts.stripe_dirs = folders;
	opts.stripe_count = 2;
	stop_before_publishing();
	cr_assert(rename(two, away) == 0 && mkdir(two, 0777) == 0);
	assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, "features.001.npy: links to");
	cr_assert(exists(out) && exists(partial));
	cr_assert(rmdir(two) == 0 && rename(away, two) == 0);
	cr_assert(verifies(out));
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(verifies(out));
}

/* ---- manifests ---- */

static struct rung__manifest *read_staged(int *fd_out)
{
	struct rung__manifest *m = NULL;

	*fd_out = open(out, O_RDONLY | O_DIRECTORY);
	cr_assert_geq(*fd_out, 0);
	cr_assert_eq(rung__manifest_read(*fd_out, out, &m), 0, "%s", rung_last_error());
	return m;
}

Test(stage_check, a_manifest_that_readers_refuse_is_not_published)
{
	struct rung__stage stage = { .dir.partial_path = out };

	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	stage.manifest = read_staged(&stage.dir.fd);
	for (uint32_t size = 2; size-- > 0;) {
		char *text = NULL, path[400];

		stage.manifest->batch_size = size;
		cr_assert_eq(rung__manifest_format(stage.manifest, &text), 0);
		snprintf(path, sizeof(path), "%s/" RUNG__MANIFEST_PARTIAL, out);
		cr_assert_eq(support_write_file(path, text, strlen(text)), 0);
		rung__free(text);
		if (size > 0)
			cr_assert_eq(rung__stage_check_manifest(&stage), 0, "%s",
			             rung_last_error());
		else
			assert_error(rung__stage_check_manifest(&stage), RUNG_E_FORMAT,
			             "batch_size");
	}
	rung__manifest_destroy(stage.manifest);
	close(stage.dir.fd);
}

/* What the writer accepts, the reader does too. */
Test(stage_check, every_number_of_a_manifest_is_read_again_at_its_limits)
{
#define FIELD(name, value)                                                                         \
	{                                                                                          \
#name, offsetof(struct rung__manifest, name),                                      \
			sizeof(((struct rung__manifest *)0)->name),                                \
			&(const __typeof__(((struct rung__manifest *)0)->name))                    \
		{                                                                                  \
			value                                                                      \
		}                                                                                  \
	}
	const struct {
		const char *name;
		size_t offset, bytes;
		const void *value;
	} fields[] = {
		FIELD(score_iterations, UINT32_MAX),
		FIELD(score_damping, DBL_MIN),
		FIELD(score_damping, nextafter(1, 0)),
		FIELD(score_damping, 4e-324),
		FIELD(score_tolerance, DBL_MIN),
		FIELD(score_tolerance, 1e6),
		FIELD(score_seed, INT64_MAX),
		FIELD(score_batches, INT64_MAX),
		FIELD(fanouts[0], 1),
		FIELD(fanouts[0], UINT32_MAX),
		FIELD(batch_size, 1),
		FIELD(batch_size, UINT32_MAX),
		FIELD(draws, RUNG_DRAWS_NEW),
		FIELD(edge_count, 0),
	};
	int fd;

	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	for (size_t i = 0; i < RUNG__ARRAY_LEN(fields); i++) {
		struct rung__manifest *m = read_staged(&fd), *again = NULL;
		char *text = NULL, *text_again = NULL;

		m->score_sampled = true;
		memcpy((char *)m + fields[i].offset, fields[i].value, fields[i].bytes);
		cr_assert_eq(rung__manifest_lay_out(m), 0);
		cr_assert_eq(rung__manifest_format(m, &text), 0, "%s", fields[i].name);
		cr_assert_eq(rung__manifest_parse(out, text, strlen(text), &again), 0, "%s: %s",
		             fields[i].name, rung_last_error());
		cr_assert_eq(rung__manifest_format(again, &text_again), 0);
		cr_assert_str_eq(text_again, text, "%s", fields[i].name);
		rung__free(text_again);
		rung__free(text);
		rung__manifest_destroy(again);
		rung__manifest_destroy(m);
		close(fd);
	}
}

Test(stage_check, options_at_their_limits_are_refused_or_give_a_dataset_that_opens)
{
	const uint32_t widest[] = { UINT32_MAX, UINT32_MAX };

	opts.force = 1;
	opts.fanouts = widest;
	opts.fanout_count = 2;
	opts.batch_size = UINT32_MAX;
	opts.score.method = RUNG_SCORE_RPAGERANK;
	for (unsigned i = 0; i < 8; i++) {
		opts.score.damping = i & 1 ? DBL_MIN : nextafter(1, 0);
		opts.score.tolerance = i & 2 ? 1e6 : DBL_TRUE_MIN;
		opts.score.iterations = i & 4 ? 1 : 3;
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%u: %s", i, rung_last_error());
		cr_assert(opens(out), "%u: %s", i, rung_last_error());
	}
	opts.score.tolerance = DBL_MAX;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "tolerance");
	opts.score.tolerance = INFINITY;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "tolerance");
	opts.score = (struct rung_score_opts)RUNG_SCORE_OPTS_INIT;
	opts.score.batches_max = 2;
	opts.score.seed = INT64_MAX;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(opens(out), "%s", rung_last_error());
	opts.score.seed++;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "seed");
}

Test(stage_check, the_first_the_last_and_one_in_64_blocks_of_a_large_file_are_read)
{
	const struct rung__manifest_file small = { .bytes = (UINT64_C(64) << 20) - 1,
		                                   .block_count = 64 };
	const struct rung__manifest_file large = { .bytes = (UINT64_C(1000) << 20) + 1,
		                                   .block_count = 1001 };
	uint64_t count = 0;

	for (uint64_t block = 0; block < large.block_count; block++)
		count += rung__block_is_checked(&large, block);
	cr_assert_eq(count, 1000 / 64 + 2);
	cr_assert(rung__block_is_checked(&large, 0) && rung__block_is_checked(&large, 640) &&
	          rung__block_is_checked(&large, 1000));
	for (uint64_t block = 0; block < small.block_count; block++)
		cr_assert(rung__block_is_checked(&small, block));
}

/* ---- finished already ---- */

static int forget_job(const char *folder)
{
	char path[400], *text, *plain = NULL;
	struct rung__manifest *m = NULL;
	size_t bytes;

	snprintf(path, sizeof(path), "%s/manifest.json", folder);
	text = (char *)support_read_file(path, &bytes);
	cr_assert_eq(rung__manifest_parse(path, text, bytes, &m), 0);
	free(text);
	rung__free(m->job);
	m->job = NULL;
	cr_assert_eq(rung__manifest_format(m, &plain), 0);
	cr_assert_eq(support_write_file(path, plain, strlen(plain)), 0);
	rung__free(plain);
	rung__manifest_destroy(m);
	return 0;
}

Test(stage_check, resuming_a_finished_job_does_nothing)
{
	struct rung_stage_report first, again;
	struct kept kept;

	opts.resume = 1;
	cr_assert_eq(rung_stage(&opts, &first), 0, "%s", rung_last_error());
	cr_assert_eq(first.already_staged, 0);
	for (int force = 0; force < 2; force++) {
		opts.force = force;
		cr_assert_eq(rung_stage(&opts, &again), 0, "%s", rung_last_error());
		cr_assert(again.already_staged && again.resumed &&
		          again.edge_count == first.edge_count);
		cr_assert_eq(again.bytes_written, first.bytes_written);
		no_leftovers(out);
	}
	for (enum damage damage = MISSING; damage < DAMAGES;
	     damage++) { /* no file must be deleted, even with force */
		do_damage(damage, out, "score.npy", &kept);
		assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, "score.npy");
		undo_damage(&kept);
	}
	opts.force = 0;
	do_damage(CHANGED, out, "manifest.json", &kept);
	assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, "manifest.json");
	undo_damage(&kept);
	cr_assert(verifies(out));
}

Test(stage_check, resuming_with_another_job_names_the_differences)
{
	struct utimbuf times = { 1000, 1000 };
	struct rung_stage_report report;

	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.resume = 1;
	opts.score.method = RUNG_SCORE_DEGREE;
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "score was 'blend");
	opts.score.method = RUNG_SCORE_DEFAULT;
	opts.split_count = 1;
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "splits was '2', now is '1'");
	opts.split_count = 2;
	cr_assert_eq(utime(features, &times), 0);
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "is '");
	cr_assert(strstr(rung_last_error(), "features.npy") &&
	                  strstr(rung_last_error(), "changed at 1000."),
	          "%s", rung_last_error());
	opts.force = 1; /* with force it is replaced */
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.already_staged, 0);
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.already_staged, 1);
	opts.force = 0;
	forget_job(out);
	cr_assert(opens(out));
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "without a record of its sources");
}

static bool exchanged;

static void kill_behind_exchange(const char *step)
{
	if (exchanged)
		kill(getpid(), SIGKILL);
	exchanged = strcmp(step, "exchange") == 0;
}

static int stage_in_child(void (*hook)(const char *step))
{
	pid_t child = fork();
	int status;

	cr_assert_geq(child, 0);
	if (child == 0) {
		rung__stage_step_hook = hook;
		_exit(-rung_stage(&opts, NULL));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? 1 : -WEXITSTATUS(status);
}

Test(stage_check, the_replaced_dataset_stays_until_the_new_one_is_checked)
{
	char old[400];
	struct kept kept;

	cr_assert_eq(stage_in_child(NULL), 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.force = 1;
	if (stage_in_child(kill_behind_exchange) != 1)
		cr_skip_test("the file system cannot exchange folders");
	snprintf(old, sizeof(old), "%s/features.000.npy", partial);
	cr_assert(exists(old));
	opts.resume = 1;
	do_damage(MISSING, out, "labels.npy", &kept);
	cr_assert_eq(stage_in_child(NULL), RUNG_E_CORRUPT);
	cr_assert(exists(old));
	undo_damage(&kept);
	opts.dry_run = 1;
	cr_assert_eq(stage_in_child(NULL), 0);
	cr_assert(exists(old));
	opts.dry_run = 0;
	cr_assert_eq(stage_in_child(NULL), 0);
	no_leftovers(out);
}

static void put_alien(const char *step)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/alien", out);
	if (strcmp(step, "exchange") == 0)
		cr_assert_eq(support_write_file(path, "mine", 4), 0);
}

Test(stage_check, a_replaced_dataset_that_cannot_be_removed_is_reported)
{
	struct rung_stage_report report;

	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.old_left, 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.force = 1;
	rung__stage_step_hook = put_alien;
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	rung__stage_step_hook = NULL;
	cr_assert_eq(report.old_left, 1);
	cr_assert(strstr(rung_last_error(), partial) && strstr(rung_last_error(), "'alien'"), "%s",
	          rung_last_error());
	cr_assert(verifies(out));
}

/* ---- inputs ---- */

static const char *changing;

static int change_input(void *ctx, const char *step, unsigned long long done,
                        unsigned long long total)
{
	struct utimbuf times = { 1000, 1000 };

	(void)ctx;
	(void)done;
	(void)total;
	if (strcmp(step, "features") == 0)
		cr_assert_eq(utime(changing, &times), 0);
	return 0;
}

Test(stage_check, an_input_that_changes_while_it_is_staged_is_named)
{
	const char *inputs[] = { features, edges, labels, train, scores };
	float score[VERTICES] = { 0 };
	char words[400];

	snprintf(scores, sizeof(scores), "%s/scores.f32", dir);
	cr_assert_eq(support_write_file(scores, score, sizeof(score)), 0);
	snprintf(words, sizeof(words), "raw:%s,f32,%u", scores, VERTICES);
	opts.score_spec = words;
	opts.progress = change_input;
	for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
		changing = inputs[i];
		assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT,
		             "changed while it was staged");
		cr_assert(strstr(rung_last_error(), inputs[i]), "%s: %s", inputs[i],
		          rung_last_error());
		cr_assert_not(exists(out));
		cr_assert(exists(partial));
		opts.force = 1;
	}
	opts.progress = NULL;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
}
