/* SPDX-License-Identifier: Apache-2.0 */
/* Staging typed graphs: every row, list and edge row against the sources, restart, damage. */
#include "graph/graph.h"
#include "stage/stage_memory.h"
#include "typed_fixture.h"

TestSuite(stage_typed, .init = setup_typed, .fini = teardown, .timeout = 300);

/* ---- reading a typed dataset ---- */

struct part {
	struct rung_dataset *ds;
	uint64_t *vertex_of_rank, *rank_of_vertex;
	unsigned char *rows; /* without the header */
	struct rung_graph *graph;
};

static struct rung_dataset *typed;

static void open_part(struct part *part, const char *folder)
{
	char path[600];
	uint64_t count;
	size_t bytes;

	snprintf(path, sizeof(path), "%s/%s", out, folder);
	*part = (struct part){ .ds = NULL };
	cr_assert_eq(rung_dataset_open(path, &part->ds), 0, "%s", rung_last_error());
	if (rung_dataset_info(part->ds)->has_maps) {
		cr_assert_eq(rung_dataset_load_ids(part->ds, "vertex_of_rank", &count,
		                                   &part->vertex_of_rank),
		             0);
		cr_assert_eq(rung_dataset_load_ids(part->ds, "rank_of_vertex", &count,
		                                   &part->rank_of_vertex),
		             0);
	}
	if (rung_dataset_info(part->ds)->has_graph)
		cr_assert_eq(rung_dataset_load_graph(part->ds, &part->graph), 0, "%s",
		             rung_last_error());
	if (rung_dataset_info(part->ds)->features.dtype != RUNG_DTYPE_NONE)
		part->rows = file_bytes(path, "features.000.npy", &bytes);
}

static void close_part(struct part *part)
{
	rung_dataset_close(part->ds);
	rung_graph_destroy(part->graph);
	rung_free(part->vertex_of_rank);
	rung_free(part->rank_of_vertex);
	free(part->rows);
}

static void stage(void)
{
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &typed), 0, "%s", rung_last_error());
}

/* ---- rows and maps ---- */

static void rows_are(const struct part *part, unsigned source, uint64_t count, uint64_t row_bytes)
{
	unsigned char row[ROW_BYTES_MAX];

	for (uint64_t r = 0; r < count; r++) {
		const uint64_t v = part->vertex_of_rank[r];

		cr_assert_eq(part->rank_of_vertex[v], r);
		support_row(v + 1000 * source, row_bytes, row);
		cr_assert_eq(memcmp(part->rows + 4096 + r * row_bytes, row, row_bytes), 0);
	}
}

static bool has_edge(unsigned relation, uint64_t source, uint64_t target, unsigned *times)
{
	unsigned found = 0;

	for (unsigned e = 0; relation == CITES_PAPER && e < CITES; e++) {
		const uint64_t u = (uint64_t)cites[0][e], v = (uint64_t)cites[1][e];

		found += u == source && v == target;
		found += u != v && v == source && u == target;
	}
	for (unsigned e = 0; relation == WRITES_PAPER && e < WRITES; e++)
		found += (uint64_t)writes[0][e] == source && (uint64_t)writes[1][e] == target;
	for (unsigned e = 0; relation == WRITTEN_BY && e < WRITES; e++)
		found += (uint64_t)writes[1][e] == source && (uint64_t)writes[0][e] == target;
	for (unsigned e = 0; relation == APPEARS_IN && e < PAPERS; e++)
		found += (uint64_t)venues[e][0] == source && (uint64_t)venues[e][1] == target;
	*times = found;
	return found > 0;
}

/* Every list has each edge as often as the source, and no others. */
static void lists_are(unsigned relation, const struct part *lists, const struct part *source,
                      const struct part *target)
{
	const struct rung_csc *csc = rung_graph_csc(lists->graph);
	uint64_t total = 0;

	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		for (uint64_t e = csc->indptr[r]; e < csc->indptr[r + 1]; e++) {
			const uint64_t u = rung__id_get(csc->indices, csc->index_bytes, e);
			unsigned times, here = 0;

			cr_assert_lt(u, rung__csc_sources(csc));
			cr_assert(has_edge(relation, source->vertex_of_rank[u],
			                   target->vertex_of_rank[r], &times));
			for (uint64_t f = csc->indptr[r]; f < csc->indptr[r + 1]; f++)
				here += rung__id_get(csc->indices, csc->index_bytes, f) == u;
			cr_assert_eq(here, times);
			total++;
		}
	}
	cr_assert_eq(total, csc->edge_count);
	cr_assert_eq(total, rung_dataset_info(typed)->relations[relation].edge_count);
}

/* Row p is that of the edge at position p of the lists. */
static void edge_rows_are(const struct part *rows, const struct part *lists,
                          const struct part *source, const struct part *target)
{
	const struct rung_csc *csc = rung_graph_csc(lists->graph);

	rows_are(rows, 7, WRITES, EDGE_BYTES);
	for (uint64_t r = 0; r < csc->vertex_count; r++) {
		for (uint64_t p = csc->indptr[r]; p < csc->indptr[r + 1]; p++) {
			const uint64_t edge = rows->vertex_of_rank[p],
				       u = rung__id_get(csc->indices, csc->index_bytes, p);

			cr_assert_eq((uint64_t)writes[0][edge], source->vertex_of_rank[u]);
			cr_assert_eq((uint64_t)writes[1][edge], target->vertex_of_rank[r]);
		}
	}
}

static void sources_are_staged(void)
{
	const struct rung_dataset_info *info = rung_dataset_info(typed);
	struct part parts[TYPES], lists, rows;

	for (unsigned t = 0; t < TYPES; t++)
		open_part(&parts[t], info->types[t].folder);
	rows_are(&parts[PAPER], 0, PAPERS, PAPER_BYTES);
	rows_are(&parts[AUTHOR], 1, AUTHORS, AUTHOR_BYTES);
	cr_assert_eq(parts[VENUE].rows, NULL);
	for (unsigned r = 0; r < RELATIONS; r++) {
		const struct part *source = &parts[info->relations[r].source_type],
				  *target = &parts[info->relations[r].target_type];

		open_part(&lists, info->relations[r].folder);
		lists_are(r, &lists, source, target);
		if (info->relations[r].rows_folder) {
			open_part(&rows, info->relations[r].rows_folder);
			edge_rows_are(&rows, &lists, source, target);
			close_part(&rows);
		}
		close_part(&lists);
	}
	for (unsigned t = 0; t < TYPES; t++)
		close_part(&parts[t]);
}

Test(stage_typed, every_row_and_list_is_that_of_the_source)
{
	const struct rung_dataset_info *info;

	stage();
	info = rung_dataset_info(typed);
	cr_assert_eq(info->format_version, 4);
	cr_assert_eq(info->type_count, TYPES);
	cr_assert_eq(info->relation_count, RELATIONS);
	cr_assert_eq(info->vertex_count, PAPERS + AUTHORS + VENUES);
	cr_assert_eq(info->seed_type, PAPER);
	cr_assert_str_eq(info->types[VENUE].name, "venue");
	cr_assert(info->types[AUTHOR].has_features && !info->types[VENUE].has_features);
	cr_assert_eq(info->relations[APPEARS_IN].fanouts[1], 0);
	cr_assert_eq(info->relations[WRITTEN_BY].fanouts[1], 3);
	sources_are_staged();
	rung_dataset_close(typed);
}

Test(stage_typed, graphs_in_files_give_the_same_bytes)
{
	char other[400];

	snprintf(other, sizeof(other), "%s/other", dir);
	stage();
	rung_dataset_close(typed);
	rung__stage_graph_in_files = true;
	opts.out_dir = other;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	rung__stage_graph_in_files = false;
	same_parts(out, other);
}

/* ---- restart ---- */

Test(stage_typed, a_run_that_is_killed_at_any_step_resumes_to_the_same_bytes)
{
	char whole[400];
	int step = 1, rc;

	snprintf(whole, sizeof(whole), "%s/whole", dir);
	opts.out_dir = whole;
	cr_assert_eq(stage_killed_at(0), 0);
	opts.out_dir = out;
	opts.resume = 1;
	for (;; step += 11) {
		support_remove(out);
		support_remove(partial);
		rc = stage_killed_at(step);
		if (rc == 0)
			break;
		cr_assert_eq(rc, 1, "step %d: %s", step, rung_status_name(-rc));
		cr_assert_eq(stage_killed_at(0), 0, "step %d", step);
		same_parts(whole, out);
		cr_assert_not(exists(partial), "step %d", step);
	}
	cr_assert_gt(step, 100);
}

static int publications;

/* Before part number `stop_step` gets its name; the whole is last. */
static void kill_at_publication(const char *step)
{
	if (strcmp(step, "rename manifest") == 0 && publications++ == stop_step)
		kill(getpid(), SIGKILL);
}

static void stage_until_publication(int number)
{
	pid_t child;
	int status;

	stop_step = number;
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		rung__stage_step_hook = kill_at_publication;
		_exit(-rung_stage(&opts, NULL));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status));
}

/* A changed byte of any file of any part stops a run with `resume`. @return number of files */
static unsigned resume_finds_damage(const char *folder, const char *cure)
{
	const struct rung_dataset_info *info = rung_dataset_info(typed);
	unsigned count = 0;

	for (size_t i = 0; part_of(folder, info, i); i++) {
		char part[600], path[700];
		struct rung_dataset *ds;

		snprintf(part, sizeof(part), "%s", part_of(folder, info, i));
		cr_assert_eq(rung_dataset_open(part, &ds), 0, "%s", rung_last_error());
		/* without manifest.json, which has its own checksum */
		for (size_t f = 0; f + 1 < rung_dataset_info(ds)->file_count; f++, count++) {
			snprintf(path, sizeof(path), "%s/%s", part, rung_dataset_file(ds, f)->name);
			support_flip(path, 4100);
			assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, path);
			cr_assert(strstr(rung_last_error(), cure), "%s", rung_last_error());
			support_flip(path, 4100);
		}
		rung_dataset_close(ds);
	}
	return count;
}

Test(stage_typed, damaged_parts_are_not_published_and_not_accepted_as_staged)
{
	struct rung_stage_report report = { 0 };
	char whole[400];
	uint64_t bytes;

	snprintf(whole, sizeof(whole), "%s/whole", dir);
	opts.out_dir = whole;
	cr_assert_eq(stage_killed_at(0), 0);
	cr_assert_eq(rung_dataset_open(whole, &typed), 0, "%s", rung_last_error());
	opts.out_dir = out;
	stage_until_publication(TYPES + RELATIONS + 1);
	opts.resume = 1;
	cr_assert_gt(resume_finds_damage(partial, "--resume"), 30);
	cr_assert_not(exists(out));
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	same_parts(whole, out);
	bytes = report.bytes_written;
	cr_assert_gt(bytes, PAPERS * PAPER_BYTES + AUTHORS * AUTHOR_BYTES + WRITES * EDGE_BYTES);
	resume_finds_damage(out, "rung verify --repair");
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.already_staged, 1);
	cr_assert_eq(report.bytes_written, bytes);
	rung_dataset_close(typed);
}

Test(stage_typed, damaged_scores_are_not_used)
{
	static const char *const names[] = { "score_000.npy", "score_002.npy", "score_004.npy",
		                             "score_006.npy", "score_007_edges.npy" };
	char whole[400], path[400];

	snprintf(whole, sizeof(whole), "%s/whole", dir);
	opts.out_dir = whole;
	cr_assert_eq(stage_killed_at(0), 0);
	opts.out_dir = out;
	stage_until_publication(0);
	opts.resume = 1;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(names); i++) {
		size_t size;
		unsigned char *kept;

		snprintf(path, sizeof(path), "%s/%s", partial, names[i]);
		cr_assert_eq(support_flip(path, 4097), 0);
		assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, names[i]);
		cr_assert_eq(support_flip(path, 4097), 0);
		kept = support_read_file(path, &size);
		cr_assert_eq(unlink(path), 0);
		assert_error(rung_stage(&opts, NULL), RUNG_E_CORRUPT, names[i]);
		cr_assert(strstr(rung_last_error(), "put the file back"));
		cr_assert_eq(support_write_file(path, kept, size), 0);
		free(kept);
	}
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	same_parts(whole, out);
}

Test(stage_typed, another_job_does_not_continue_unfinished_work)
{
	opts.resume = 1;
	cr_assert_eq(stage_killed_at(150), 1);
	opts.batch_size = 7;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "batches of 1024");
	opts.batch_size = 0;
	opts.resume = 0;
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "--resume");
	opts.force = 1;
	stage();
	sources_are_staged();
	rung_dataset_close(typed);
	/* complete: there is nothing to do, unless an input has changed */
	opts.force = 0;
	opts.resume = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	write_rows(1, AUTHORS, AUTHOR_BYTES);
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "vertices/author.features");
}

Test(stage_typed, a_folder_is_replaced_only_if_all_of_it_is_rungs)
{
	char path[600];

	stage();
	rung_dataset_close(typed);
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "--force");
	snprintf(path, sizeof(path), "%s/edges/paper.cites.paper/notes.txt", out);
	cr_assert_eq(support_write_file(path, "mine", 4), 0);
	opts.force = 1;
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "notes.txt");
	cr_assert_eq(unlink(path), 0);
	opts.batch_size = 7;
	stage();
	rung_dataset_close(typed);
	cr_assert_not(exists(partial));
}

/* ---- damage ---- */

static struct rung_verify_opts sources_opts(void)
{
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;

	verify.threads = 2;
	verify.types = types;
	verify.type_count = TYPES;
	verify.relations = relations;
	verify.relation_count = RELATIONS;
	return verify;
}

Test(stage_typed, verify_compares_every_part_with_its_sources)
{
	struct rung_verify_opts verify = sources_opts();
	struct rung_verify_report report;

	stage();
	rung_dataset_close(typed);
	cr_assert_eq(rung_dataset_verify(out, &verify, &report), 0, "%s", rung_last_error());
	cr_assert_eq(report.rows_compared, PAPERS + AUTHORS + WRITES);
	cr_assert_eq(report.lists_compared, PAPERS + PAPERS + AUTHORS + VENUES);
	cr_assert_eq(report.split_ids_compared, PAPERS / 3);
	rung_verify_report_fini(&report);
	relations[CITES_PAPER].undirected = 0;
	assert_error(rung_dataset_verify(out, &verify, &report), RUNG_E_CORRUPT,
	             "paper.cites.paper");
	rung_verify_report_fini(&report);
	relations[CITES_PAPER].undirected = 1;
	write_rows(7, WRITES, EDGE_BYTES);
	support_flip(typed_sources[7], 500);
	assert_error(rung_dataset_verify(out, &verify, &report), RUNG_E_CORRUPT, "edge_rows");
	rung_verify_report_fini(&report);
	verify.type_count = 2;
	assert_error(rung_dataset_verify(out, &verify, NULL), RUNG_E_INVAL, "other types");
	verify = (struct rung_verify_opts)RUNG_VERIFY_OPTS_INIT;
	verify.source = typed_sources[0];
	assert_error(rung_dataset_verify(out, &verify, NULL), RUNG_E_INVAL, "is typed");
}

/* A changed byte of any file of any part is found, named and repaired. */
Test(stage_typed, a_changed_byte_is_found_in_the_part_that_has_it)
{
	struct rung_verify_opts verify = sources_opts();
	struct rung_verify_report report;
	const struct rung_dataset_info *info;

	stage();
	info = rung_dataset_info(typed);
	verify.repair = 1;
	for (size_t i = 0; part_of(out, info, i); i++) {
		char folder[600], path[700], name[700];
		struct rung_dataset *ds;

		snprintf(folder, sizeof(folder), "%s", part_of(out, info, i));
		cr_assert_eq(rung_dataset_open(folder, &ds), 0);
		for (size_t f = 0; f + 1 < rung_dataset_info(ds)->file_count; f++) {
			snprintf(path, sizeof(path), "%s/%s", folder,
			         rung_dataset_file(ds, f)->name);
			snprintf(name, sizeof(name), "%s/%s", folder + strlen(out) + 1,
			         rung_dataset_file(ds, f)->name);
			/* scores have no source here */
			verify.repair = strstr(name, "score") == NULL;
			support_flip(path, 4100);
			if (verify.repair) {
				cr_assert_eq(rung_dataset_verify(out, &verify, &report), 0,
				             "%s: %s", name, rung_last_error());
				cr_assert_eq(report.repaired_count, 1, "%s", name);
				cr_assert_str_eq(report.repaired[0].file, name);
			} else {
				assert_error(rung_dataset_verify(out, &verify, &report),
				             RUNG_E_CORRUPT, name);
				support_flip(path, 4100);
			}
			rung_verify_report_fini(&report);
		}
		rung_dataset_close(ds);
	}
	rung_dataset_close(typed);
}

/* The part of another dataset does not fit, even if it is complete. */
Test(stage_typed, an_exchanged_part_is_refused)
{
	char other[400], from[600], to[600];

	snprintf(other, sizeof(other), "%s/other", dir);
	stage();
	rung_dataset_close(typed);
	opts.out_dir = other;
	opts.batch_size = 3;
	cr_assert_eq(rung_stage(&opts, NULL), 0);
	snprintf(from, sizeof(from), "%s/vertices/paper", other);
	snprintf(to, sizeof(to), "%s/vertices/paper", out);
	support_remove(to);
	assert_error(rung_dataset_open(out, &typed), RUNG_E_FORMAT, "vertices/paper");
	cr_assert_eq(rename(from, to), 0);
	assert_error(rung_dataset_open(out, &typed), RUNG_E_CORRUPT, "not the part");
}

/* ---- options ---- */

Test(stage_typed, invalid_options_are_named)
{
	opts.features = typed_sources[0];
	fails(RUNG_E_INVAL, "features, labels, a split");
	opts.features = NULL;
	opts.score.method = RUNG_SCORE_DEGREE;
	fails(RUNG_E_INVAL, "degree is not defined");
	opts.score.method = RUNG_SCORE_EXPECTED;
	opts.relation_count = 0;
	fails(RUNG_E_INVAL, "without a relation");
	opts.relation_count = RELATIONS;
	opts.seed_type = "editor";
	fails(RUNG_E_INVAL, "'editor'");
	opts.seed_type = NULL;
	types[AUTHOR].name = "paper";
	fails(RUNG_E_INVAL, "type paper is given twice");
	types[AUTHOR].name = "au/thor";
	fails(RUNG_E_INVAL, "not a valid name");
	types[AUTHOR].name = "author";
	types[VENUE].vertex_count = 0;
	fails(RUNG_E_INVAL, "type venue has no vertices");
	types[VENUE].vertex_count = VENUES;
	types[AUTHOR].vertex_count = 9;
	fails(RUNG_E_FORMAT, "9 vertices of type author");
	types[AUTHOR].vertex_count = 0;
	relations[WRITES_PAPER].source = "autor";
	fails(RUNG_E_INVAL, "connects 'autor'");
	relations[WRITES_PAPER].source = "author";
	relations[WRITES_PAPER].undirected = 1;
	fails(RUNG_E_INVAL, "cannot be undirected");
	relations[WRITES_PAPER].undirected = 0;
	relations[WRITES_PAPER].dedup = 1;
	fails(RUNG_E_INVAL, "cannot be merged");
	relations[WRITES_PAPER].dedup = 0;
	relations[CITES_PAPER].rows = typed_sources[7];
	fails(RUNG_E_INVAL, "which its reverse edges lack");
	relations[CITES_PAPER].rows = NULL;
	opts.fanout_count = 0;
	opts.fanouts = NULL;
	fails(RUNG_E_INVAL, "the number of hops");
}

Test(stage_typed, wrong_sources_are_found_before_anything_is_written)
{
	relations[WRITES_PAPER].rows = typed_sources[0];
	fails(RUNG_E_FORMAT, "90 rows, but writes has 260");
	relations[WRITES_PAPER].rows = typed_sources[7];
	types[PAPER].labels = typed_sources[1];
	fails(RUNG_E_FORMAT, "for 90");
	types[PAPER].labels = typed_sources[2];
	relations[WRITTEN_BY].reversed = 0;
	fails(RUNG_E_RANGE, "out of range");
	relations[WRITTEN_BY].reversed = 1;
	opts.dry_run = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(!exists(out) && !exists(partial));
}

Test(stage_typed, a_relation_without_edges_may_have_an_array_without_rows)
{
	struct rung_verify_opts verify = sources_opts();
	struct rung_verify_report report;

	write_source(5, "<i8", "(2, 0)", "", 0);
	write_source(7, "<f4", "(0, 4)", "", 0);
	stage();
	cr_assert_eq(rung_dataset_info(typed)->relations[WRITES_PAPER].edge_count, 0);
	cr_assert_eq(rung_dataset_info(typed)->relations[WRITES_PAPER].rows_folder, NULL);
	rung_dataset_close(typed);
	cr_assert_eq(rung_dataset_verify(out, &verify, &report), 0, "%s", rung_last_error());
	rung_verify_report_fini(&report);
	opts.resume = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	support_remove(out);
	/* but one with edges may not */
	opts.resume = 0;
	write_source(5, "<i8", "(2, 260)", writes, sizeof(writes));
	fails(RUNG_E_FORMAT, "has 0 rows, but the relation has 260 edges");
}
