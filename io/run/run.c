/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the steps of one run of rung_stage() share: progress, the phases of the report,
 * finished files, and the memory that is held from the first phase to the last. */
#include "run/run.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "source/source.h"

int rung__stage_progress(const struct rung__stage *stage, const char *what, uint64_t done,
                         uint64_t total)
{
	const struct rung_stage_opts *opts = &stage->opts;

	if (opts->progress && opts->progress(opts->progress_ctx, what, done, total))
		return rung__fail(RUNG_E_CANCELED,
		                  "staging %s: canceled during %s; progress: %" PRIu64
		                  " of %" PRIu64,
		                  opts->out_dir, what, done, total);
	return 0;
}

int rung__stage_advance(struct rung__stage *stage, const char *what, uint64_t bytes)
{
	stage->step_done = RUNG__MIN(stage->step_done + bytes, stage->step_total);
	return rung__stage_progress(stage, what, stage->step_done, stage->step_total);
}

/* Bytes that the process has read and written through system calls, page cache included; 0 if the
 * kernel does not count them. */
static void process_bytes(uint64_t *read_out, uint64_t *written_out)
{
	FILE *file = fopen("/proc/self/io", "re");

	*read_out = *written_out = 0;
	if (file && fscanf(file, "rchar: %" SCNu64 " wchar: %" SCNu64, read_out, written_out) != 2)
		*read_out = *written_out = 0;
	if (file)
		fclose(file);
}

void rung__stage_phase(struct rung__stage *stage, const char *name)
{
	struct rung_stage_report *report = &stage->report;
	uint64_t read_bytes, written_bytes;

	process_bytes(&read_bytes, &written_bytes);
	if (report->phase_count) {
		struct rung_stage_phase *phase = &report->phases[report->phase_count - 1];

		phase->seconds = (double)(rung__now_ns() - stage->phase_ns) * 1e-9;
		phase->bytes_read = read_bytes - stage->phase_read_bytes;
		phase->bytes_written = written_bytes - stage->phase_written_bytes;
	}
	stage->phase_ns = rung__now_ns();
	stage->phase_read_bytes = read_bytes;
	stage->phase_written_bytes = written_bytes;
	if (name && report->phase_count < RUNG_STAGE_PHASES_MAX)
		report->phases[report->phase_count++].name = name;
}

struct rung__layout rung__stage_features_layout(const struct rung__stage *stage)
{
	struct rung__layout layout = rung__manifest_features_layout(stage->manifest);
	const struct rung__range *range = &layout.ranges[stage->opts.part];
	const uint64_t row_count = range->end - range->stored_first;

	if (stage->opts.part_count > 0) {
		layout.ranges[0] = rung__range_of_all(row_count, 1, row_count);
		layout.range_count = layout.file_count = 1;
	}
	return layout;
}

const char *rung__stage_features_name(const struct rung__stage *stage)
{
	return stage->manifest->files[stage->opts.part].name;
}

uint64_t rung__stage_rank_first(const struct rung__stage *stage)
{
	return stage->manifest->ranges[stage->opts.part].stored_first;
}

bool rung__stage_writes(const struct rung__stage *stage, uint32_t file)
{
	const struct rung_stage_opts *opts = &stage->opts;

	if (opts->part_count > 0 && file < opts->part_count)
		return file == opts->part;
	return opts->part == 0;
}

bool rung__stage_file_done(const struct rung__stage *stage, const char *name)
{
	return rung__journal_last_of(&stage->journal, "file", name) != NULL;
}

uint64_t rung__stage_source_count(const struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;

	return m->source_count ? m->source_count : m->vertex_count;
}

int rung__stage_copy_maps(struct rung__stage *stage)
{
	const struct rung__stage_member *member = stage->member;
	const struct rung__manifest *m = stage->manifest;

	memcpy(stage->vertex_of_rank, member->vertex_of_rank, m->vertex_count * m->index_bytes);
	if (member->rank_of_source) {
		memcpy(stage->rank_of_vertex, member->rank_of_source,
		       m->source_count * m->index_bytes);
		return 0;
	}
	for (uint64_t r = 0; r < m->vertex_count; r++)
		rung__id_set(stage->rank_of_vertex, m->index_bytes,
		             rung__id_get(stage->vertex_of_rank, m->index_bytes, r), r);
	return 0;
}

uint64_t rung__stage_map_bytes(const struct rung__stage *stage, unsigned maps)
{
	/* of two maps one has an entry per source */
	const uint64_t entries =
		maps == 2 ? stage->manifest->vertex_count + rung__stage_source_count(stage)
			  : maps * RUNG__MAX(stage->manifest->vertex_count,
	                                     rung__stage_source_count(stage));

	return stage->manifest->index_bytes * entries;
}

/* Memory that an open source holds: deflated members of a .npz use that of zlib, and small derived
 * sources are in memory. */
static uint64_t source_bytes(const struct rung_source *src)
{
	return src ? rung__source_location(src).memory_bytes : 0;
}

uint64_t rung__stage_fixed_bytes(const struct rung__stage *stage)
{
	const struct rung__manifest *m = stage->manifest;
	/* 8 bytes per checksum here, and per id of a split below */
	uint64_t bytes = RUNG__STAGE_BUFFER_BYTES + 8 * stage->block_count_max +
	                 source_bytes(stage->features) + source_bytes(stage->score_source) +
	                 stage->graph_source_bytes;

	for (uint32_t i = 0; i < stage->extra_count; i++)
		bytes += source_bytes(stage->extra_arrays[i].src);
	for (uint32_t i = 0; i < m->split_count; i++)
		bytes += 8 * m->splits[i].count;
	return bytes;
}

int rung__stage_fail_input(int rc, const char *option, const char *name, const char *of)
{
	if (rc >= 0 || rc == RUNG_E_NOMEM || rc == RUNG_E_CANCELED || rung_last_error_min_bytes())
		return rc;
	return rung__fail(rc, "%s%s%s%s%s%s: %s", option, name ? " '" : "", name ? name : "",
	                  name ? "'" : "", of ? " of " : "", of ? of : "", rung_last_error());
}
