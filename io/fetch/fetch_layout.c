/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of the result: those of the source, of which one can be divided. Its hottest ranks
 * then have a range with copied beginnings of its files, and the others a range in the files that
 * stay where they are. Files that are dealt in blocks keep these blocks, so the copied bytes and
 * their checksums are those of the source.
 */
#include "base/base.h"
#include "dataset/checksum.h"
#include "fetch/state.h"

/* The rank that divides a range: the wanted one, or the end of the round of blocks that has it, so
 * that every copied file has rows. */
static uint64_t divide(const struct rung__range *range, uint64_t rank)
{
	const uint64_t round = range->block_rows * range->file_count;
	uint64_t rows = rank - range->stored_first;

	if (range->file_count > 1)
		rows = (rows + round - 1) / round * round;
	return RUNG__MIN(range->stored_first + rows, range->end);
}

static void add_range(struct rung__manifest *m, const struct rung__range *range)
{
	struct rung__range *added = &m->ranges[m->range_count++];

	*added = *range;
	added->file_first = m->feature_file_count;
	m->feature_file_count += (uint32_t)range->file_count;
}

/* The files of the result's range number `i`, which are the source's from `file` on. */
static void add_files(struct rung__fetch_run *fetch, uint32_t i, uint64_t file, bool is_copied)
{
	const struct rung__range *range = &fetch->result->ranges[i];

	for (uint64_t f = 0; f < range->file_count; f++) {
		const struct rung__manifest_file *from = &fetch->source->files[file + f],
						 *to = &fetch->result->files[range->file_first + f];

		if (is_copied)
			fetch->files[fetch->file_count++] = (struct rung__fetch_file){
				.from = from,
				.to = to,
				.bytes = RUNG__MIN(rung__align_up(to->bytes, RUNG__BLOCK_BYTES),
				                   from->bytes),
				.fd = -1
			};
		else
			fetch->links[fetch->link_count++] =
				(struct rung__fetch_link){ .from = from, .to = to };
	}
}

/* A range of the result: the number of the source's range, and whether its files are copied. */
struct part {
	uint32_t range;
	bool is_copied;
};

/* Fill in the ranges of the result. @return their number */
static uint32_t choose_ranges(struct rung__fetch_run *fetch, uint64_t wanted, struct part *parts)
{
	const struct rung__manifest *m = fetch->source;
	struct rung__manifest *out = fetch->result;
	uint64_t begin = 0;

	out->range_count = out->feature_file_count = 0;
	for (uint32_t i = 0; i < m->range_count; i++) {
		struct rung__range range = m->ranges[i];
		const uint64_t end = wanted >= range.end ? range.end
		                     : wanted > begin    ? divide(&range, wanted)
		                                         : begin;

		if (end > begin && out->range_count < RUNG_FEATURE_FILES_MAX) {
			parts[out->range_count] = (struct part){ i, true };
			if (end < range.end)
				range.end = range.stored_end = end;
			add_range(out, &range);
		}
		if (end < m->ranges[i].end && out->range_count < RUNG_FEATURE_FILES_MAX) {
			parts[out->range_count] = (struct part){ i, false };
			add_range(out, &m->ranges[i]);
		}
		begin = m->ranges[i].end;
	}
	return out->range_count;
}

int rung__fetch_lay_out(struct rung__fetch_run *fetch)
{
	const struct rung__manifest *m = fetch->source;
	struct rung__manifest *out = fetch->result;
	const double share = fetch->opts.share;
	const uint64_t rows =
		share < 1 ? (uint64_t)(share * (double)m->vertex_count + 0.5) : m->vertex_count;
	struct part parts[RUNG_FEATURE_FILES_MAX];
	uint32_t range_count;
	int rc;

	if (m->is_part && share < 1)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: is a part of a typed dataset, which has its checksum; fetch "
		                  "all of it, without a share",
		                  fetch->origin.text);
	range_count = choose_ranges(fetch, RUNG__MAX(rows, 1u), parts);
	if (out->feature_file_count > RUNG_FEATURE_FILES_MAX ||
	    (range_count > 0 && out->ranges[range_count - 1].end < m->vertex_count))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: its rows are in %" PRIu32 " files, so a share of them would "
		                  "need more than %d; fetch all of it, or stage it in fewer files",
		                  fetch->origin.text, m->feature_file_count,
		                  RUNG_FEATURE_FILES_MAX);
	rc = rung__manifest_lay_out(out);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < range_count; i++)
		add_files(fetch, i, m->ranges[parts[i].range].file_first, parts[i].is_copied);
	/* the other files have the same order in both manifests */
	for (uint32_t i = m->feature_file_count; i < m->file_count; i++) {
		const struct rung__manifest_file *from = &m->files[i];

		fetch->files[fetch->file_count++] = (struct rung__fetch_file){
			.from = from,
			.to = &out->files[i - m->feature_file_count + out->feature_file_count],
			.bytes = from->bytes,
			.fd = -1
		};
	}
	for (uint32_t i = 0; i < fetch->file_count; i++)
		fetch->bytes_total += fetch->files[i].bytes;
	return 0;
}
