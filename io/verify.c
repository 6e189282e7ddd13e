/* SPDX-License-Identifier: Apache-2.0 */
/* Verification: every byte of every file against its checksum, and every row against the source it came from. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "dataset_private.h"
#include "file.h"
#include "internal.h"
#include "npy.h"
#include "rows.h"
#include "tier.h"

#define GROUP_BLOCKS 32u /* checked between two calls of progress, each by one thread */

struct verify {
	struct rung_verify_opts opts;
	int threads;
	struct rung_dataset *ds;
	uint64_t *sums;          /* as checksums.npy has them */
	unsigned char *sums_bad; /* [checksums.block_count]: block of checksums.npy that cannot be relied on */
	unsigned char *buffers;  /* [GROUP_BLOCKS][RUNG__BLOCK_BYTES] */
	uint64_t bad_room;
	uint64_t blocks_total;
	struct rung_verify_report report;
};

static int add_bad(struct verify *v, const char *file, uint64_t block)
{
	struct rung_verify_report *report = &v->report;

	if (report->bad_count == v->bad_room) {
		uint64_t room = v->bad_room ? 2 * v->bad_room : 16;
		struct rung_bad_block *bad = rung__realloc_array(report->bad, room, sizeof(*bad));

		if (!bad)
			return rung__fail(RUNG_E_NOMEM, "verify: list of %" PRIu64 " bad blocks", room);
		report->bad = bad;
		v->bad_room = room;
	}
	report->bad[report->bad_count++] =
		(struct rung_bad_block){ .file = file, .block = block, .offset = block * RUNG__BLOCK_BYTES };
	return 0;
}

/* The file names lie in the dataset: give the list its own, behind the blocks, so that one rung_free() frees both. */
static int own_names(struct verify *v)
{
	struct rung_verify_report *report = &v->report;
	const uint64_t blocks_bytes = report->bad_count * sizeof(*report->bad);
	uint64_t bytes = blocks_bytes, at = blocks_bytes;
	unsigned char *list;

	if (report->bad_count == 0)
		return 0;
	for (uint64_t i = 0; i < report->bad_count; i++) {
		if (i == 0 || report->bad[i].file != report->bad[i - 1].file)
			bytes += strlen(report->bad[i].file) + 1;
	}
	list = rung__malloc((size_t)bytes);
	if (!list)
		return rung__fail(RUNG_E_NOMEM, "verify: names of %" PRIu64 " bad blocks", report->bad_count);
	for (uint64_t i = 0, start = 0; i < report->bad_count; i++) {
		struct rung_bad_block bad = report->bad[i];

		if (i == 0 || bad.file != report->bad[i - 1].file) {
			start = at;
			at += strlen(bad.file) + 1;
			strcpy((char *)list + start, bad.file);
		}
		bad.file = (char *)list + start;
		memcpy(list + i * sizeof(bad), &bad, sizeof(bad));
	}
	rung__free(report->bad);
	report->bad = (struct rung_bad_block *)(void *)list;
	return 0;
}

/* Read a block and compare. Too short, unreadable or different: false. */
static bool block_good(int fd, const struct rung__manifest_file *file, uint64_t block, uint64_t sum, unsigned char *buf)
{
	const uint64_t offset = block * RUNG__BLOCK_BYTES, bytes = RUNG__MIN(file->bytes - offset, RUNG__BLOCK_BYTES);

	return fd >= 0 && rung__pread_all(fd, file->name, buf, bytes, offset) == 0 && rung__checksum(buf, (size_t)bytes) == sum;
}

static bool sum_known(const struct verify *v, uint64_t block)
{
	const uint64_t at = RUNG__NPY_DATA_OFFSET + block * sizeof(uint64_t);

	return !v->sums_bad[at / RUNG__BLOCK_BYTES]; /* 8-byte entries at a multiple of 8: none lies in two blocks */
}

static int report_group(struct verify *v, const struct rung__manifest_file *file, uint64_t first, uint64_t count,
			const bool *good)
{
	int rc = 0;

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		v->report.blocks_checked++;
		v->report.bytes_checked += RUNG__MIN(file->bytes - (first + i) * RUNG__BLOCK_BYTES, RUNG__BLOCK_BYTES);
		if (!good[i])
			rc = add_bad(v, file->name, first + i);
	}
	if (rc == 0 && v->opts.progress &&
	    v->opts.progress(v->opts.progress_ctx, "verify", v->report.blocks_checked, v->blocks_total))
		rc = rung__fail(RUNG_E_CANCELED, "verify: canceled after %" PRIu64 " of %" PRIu64 " blocks",
				v->report.blocks_checked, v->blocks_total);
	return rc;
}

/*
 * `sums` are those of the file's blocks. A block whose checksum lies in a damaged block of checksums.npy passes unchecked:
 * that block is in the report, and nothing is known of this one.
 */
static int verify_blocks(struct verify *v, const struct rung__manifest_file *file, int fd, const uint64_t *sums,
			 bool sums_checked)
{
	bool good[GROUP_BLOCKS];
	int rc = 0;

	for (uint64_t first = 0; first < file->block_count && rc == 0; first += GROUP_BLOCKS) {
		uint64_t count = RUNG__MIN(file->block_count - first, GROUP_BLOCKS);

#pragma omp parallel for num_threads(v->threads) schedule(dynamic)
		for (int64_t i = 0; i < (int64_t)count; i++) {
			uint64_t block = first + (uint64_t)i;

			good[i] = (!sums_checked && !sum_known(v, file->first_block + block)) ||
				  block_good(fd, file, block, sums[block], v->buffers + (size_t)i * RUNG__BLOCK_BYTES);
		}
		rc = report_group(v, file, first, count, good);
	}
	return rc;
}

static int verify_file(struct verify *v, const struct rung__manifest_file *file, const uint64_t *sums, bool sums_checked)
{
	int fd = rung__dataset_open_file(v->ds, file->name, 0), rc;
	uint64_t bad_before = v->report.bad_count, last = file->bytes / RUNG__BLOCK_BYTES;
	struct stat st;

	rc = verify_blocks(v, file, fd, sums, sums_checked);
	/* bytes behind the end belong to no block: they are reported as the block they lie in */
	if (rc == 0 && fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size > file->bytes &&
	    (v->report.bad_count == bad_before || v->report.bad[v->report.bad_count - 1].block != last))
		rc = add_bad(v, file->name, last);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* The checksum file against the manifest's list; what cannot be read of it counts as damaged. */
static int verify_checksums(struct verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	const struct rung__manifest_file *file = &m->checksums;
	int fd, rc = verify_file(v, file, m->checksums_sums, true);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < v->report.bad_count; i++) {
		if (v->report.bad[i].block < file->block_count)
			v->sums_bad[v->report.bad[i].block] = 1;
	}
	fd = rung__dataset_open_file(v->ds, file->name, 0);
	if (fd < 0 || rung__pread_all(fd, file->name, v->sums, m->block_count * sizeof(*v->sums), RUNG__NPY_DATA_OFFSET) < 0)
		memset(v->sums_bad, 1, (size_t)file->block_count);
	if (fd >= 0)
		close(fd);
	return 0;
}

static int verify_files(struct verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	int rc = verify_checksums(v);

	for (uint32_t i = 0; i < m->file_count && rc == 0; i++)
		rc = verify_file(v, &m->files[i], v->sums + m->files[i].first_block, false);
	return rc;
}

struct compare {
	struct rung_source *src;
	struct rung__rows rows;
	void *vertex_of_rank;
	unsigned char *staged, *original;
	uint64_t count_max;
	struct rung__features features;
};

static int check_source(const struct verify *v, const struct rung_source *src)
{
	const struct rung_array_info *info = rung_source_info(src);
	const struct rung__manifest *m = v->ds->manifest;

	if (info->row_count != m->vertex_count || info->row_bytes != m->features.row_bytes)
		return rung__fail(RUNG_E_FORMAT,
				  "%s: has %" PRIu64 " rows of %" PRIu64 " bytes, %s has %" PRIu64 " of %" PRIu64
				  "; give the features it was staged from",
				  v->opts.source, info->row_count, info->row_bytes, v->ds->dir, m->vertex_count,
				  m->features.row_bytes);
	return 0;
}

static int read_staged(const struct compare *c, uint64_t first, uint64_t count)
{
	const struct rung__layout *layout = &c->features.layout;
	unsigned char *to = c->staged;
	int rc = 0;

	while (count > 0 && rc == 0) {
		uint64_t run = rung__row_run(layout, first, count), f = rung__row_file(layout, first);

		rc = rung__pread_all(c->features.files[f].fd, c->features.files[f].path, to, run * layout->row_bytes,
				     rung__row_offset(layout, first));
		first += run;
		count -= run;
		to += run * layout->row_bytes;
	}
	return rc;
}

static int compare_block(struct verify *v, struct compare *c, uint64_t first, uint64_t count)
{
	const struct rung__manifest *m = v->ds->manifest;
	const uint64_t row_bytes = m->features.row_bytes;
	int rc = rung__rows_gather(&c->rows, c->vertex_of_rank, m->index_bytes, first, count, c->original);

	if (rc == 0)
		rc = read_staged(c, first, count);
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		v->report.rows_compared++;
		if (memcmp(c->staged + i * row_bytes, c->original + i * row_bytes, (size_t)row_bytes) == 0)
			continue;
		if (v->report.rows_different++ == 0)
			v->report.first_different = rung__id_get(c->vertex_of_rank, m->index_bytes, first + i);
	}
	if (rc == 0 && v->opts.progress && v->opts.progress(v->opts.progress_ctx, "rows", first + count, m->vertex_count))
		rc = rung__fail(RUNG_E_CANCELED, "verify: canceled after %" PRIu64 " of %" PRIu64 " rows", first + count,
				m->vertex_count);
	return rc;
}

static int compare_all(struct verify *v, struct compare *c)
{
	const struct rung__manifest *m = v->ds->manifest;
	int rc = rung_dataset_load_array(v->ds, "vertex_of_rank", NULL, &c->vertex_of_rank);

	if (rc < 0)
		return rc;
	rc = rung__features_open(v->ds, &c->features);
	if (rc < 0)
		return rc;
	c->count_max = RUNG__MIN(rung__rows_per_block(m->features.row_bytes), m->vertex_count);
	c->staged = rung__malloc_array(c->count_max, (size_t)m->features.row_bytes);
	c->original = rung__malloc_array(c->count_max, (size_t)m->features.row_bytes);
	if (!c->staged || !c->original)
		return rung__fail(RUNG_E_NOMEM, "verify: blocks of %" PRIu64 " rows", c->count_max);
	rc = rung__rows_init(&c->rows, c->src, c->count_max, v->threads);
	for (uint64_t first = 0; first < m->vertex_count && rc == 0; first += c->count_max)
		rc = compare_block(v, c, first, RUNG__MIN(c->count_max, m->vertex_count - first));
	return rc;
}

static int compare_source(struct verify *v)
{
	struct compare c = { .count_max = 0 };
	int rc = rung_source_open(v->opts.source, &c.src);

	if (rc < 0)
		return rc;
	rc = check_source(v, c.src);
	if (rc == 0) {
		rc = compare_all(v, &c);
		/* damaged files that cannot be followed to the end are in the report already; rows_compared says how far it went
		 */
		if (v->report.bad_count > 0 && (rc == RUNG_E_IO || rc == RUNG_E_RANGE || rc == RUNG_E_FORMAT))
			rc = 0;
	}
	rung__rows_fini(&c.rows);
	rung__free(c.vertex_of_rank);
	rung__free(c.staged);
	rung__free(c.original);
	rung__features_close(&c.features);
	rung_source_close(c.src);
	return rc;
}

static int verify_all(struct verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	int rc;

	v->blocks_total = m->block_count + m->checksums.block_count;
	v->report.blocks_checked = 1; /* the manifest: it was opened, so its checksum is right */
	v->report.bytes_checked = m->text_bytes;
	v->sums = rung__malloc_array(m->block_count, sizeof(*v->sums));
	v->sums_bad = rung__zalloc_array(m->checksums.block_count, 1);
	v->buffers = rung__malloc_aligned(RUNG__PAGE_BYTES, (size_t)GROUP_BLOCKS * RUNG__BLOCK_BYTES);
	if (!v->sums || !v->sums_bad || !v->buffers)
		return rung__fail(RUNG_E_NOMEM, "verify: checksums of %" PRIu64 " blocks", m->block_count);
	rc = verify_files(v);
	return rc == 0 && v->opts.source ? compare_source(v) : rc;
}

static int conclude(struct verify *v, const char *dir)
{
	const struct rung_verify_report *report = &v->report;

	if (report->bad_count > 0)
		return rung__fail(RUNG_E_CORRUPT,
				  "%s/%s: block %" PRIu64 " at offset %" PRIu64 " does not have its checksum (%" PRIu64
				  " bad blocks in all); stage the dataset again",
				  dir, report->bad[0].file, report->bad[0].block, report->bad[0].offset, report->bad_count);
	if (report->rows_different > 0)
		return rung__fail(RUNG_E_CORRUPT,
				  "%s: %" PRIu64 " of %" PRIu64 " rows differ from %s, the first is that of vertex %" PRIu64
				  "; stage the dataset again",
				  dir, report->rows_different, report->rows_compared, v->opts.source, report->first_different);
	return 0;
}

int rung_dataset_verify(const char *dir, const struct rung_verify_opts *opts, struct rung_verify_report *report_out)
{
	struct verify v = { .opts = RUNG_VERIFY_OPTS_INIT };
	const uint64_t start_ns = rung__now_ns();
	int rc = rung__opts_take(&v.opts, sizeof(v.opts), opts, "rung_verify_opts");

	if (rc < 0)
		return rc;
	if (!dir)
		return rung__fail(RUNG_E_INVAL, "rung_dataset_verify: NULL given");
	v.threads = rung__threads(v.opts.threads);
	rc = rung__dataset_open(dir, false, &v.ds);
	if (rc == RUNG_E_CORRUPT) {
		v.report.blocks_checked = 1;
		rc = add_bad(&v, RUNG__MANIFEST, 0);
	} else if (rc == 0) {
		rc = verify_all(&v);
	}
	if (rc == 0)
		rc = own_names(&v);
	if (rc == 0) {
		rc = conclude(&v, dir);
		v.report.seconds = (double)(rung__now_ns() - start_ns) * 1e-9;
		if (report_out)
			*report_out = v.report;
		else
			rung_verify_report_fini(&v.report);
	} else {
		rung_verify_report_fini(&v.report);
	}
	rung_dataset_close(v.ds);
	rung__free(v.sums);
	rung__free(v.sums_bad);
	rung__free(v.buffers);
	return rc;
}

void rung_verify_report_fini(struct rung_verify_report *report)
{
	if (!report)
		return;
	rung__free(report->bad);
	report->bad = NULL;
	report->bad_count = 0;
}
