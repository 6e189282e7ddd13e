/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expected accesses of the first bytes of a table. A score is -log(1 - P), so P, the probability
 * that a batch accesses the row or list, is 1 - exp(-score), and the expected accesses per batch of
 * some rows are the sum of their P. Scores are read in blocks, so a table of any size needs little
 * memory.
 *
 * An access to a list that is partly in memory is served with the share of the list that is there,
 * because samplers draw its entries with equal probability. Empty lists are never read.
 */
#include <math.h>

#include "dataset/features.h"
#include "dataset/manifest.h"
#include "divide/curve.h"
#include "file/file.h"

#define BLOCK_ITEMS 65536u

struct score_reader {
	struct rung__features scores, indptr; /* indptr: of lists only */
	float *score;                         /* [BLOCK_ITEMS] */
	uint64_t *offset;                     /* [BLOCK_ITEMS + 1] */
	uint64_t row_bytes, index_bytes;
};

/* The sum up to now, and the point of the curve that is reached next. */
struct sums {
	struct rung__curve *curve;
	uint32_t next;
	double total;
};

/* Expected accesses of a row or list; a given score can be negative or no number. */
static double probability(float score)
{
	return score > 0 ? (double)-expm1f(-score) : 0;
}

/* Add the accesses of the bytes [begin, end). */
static void add(struct sums *sums, uint64_t begin, uint64_t end, double accesses)
{
	const struct rung__curve *curve = sums->curve;

	for (; sums->next < curve->count && curve->resident[sums->next] < end; sums->next++)
		curve->hits[sums->next] =
			sums->total + accesses * (double)(curve->resident[sums->next] - begin) /
					      (double)(end - begin);
	sums->total += accesses;
}

static int read_items(const struct rung__features *array, uint64_t first, uint64_t count,
                      uint64_t item_bytes, void *to)
{
	return rung__pread_all(array->files[0].fd, array->files[0].path, to, count * item_bytes,
	                       array->layout.data_offset + first * item_bytes);
}

/* Items [first, first + count). */
static int add_block(struct score_reader *reader, uint64_t first, uint64_t count, struct sums *sums)
{
	const bool is_lists = reader->row_bytes == 0;
	int rc = read_items(&reader->scores, first, count, sizeof(float), reader->score);

	if (rc == 0 && is_lists)
		rc = read_items(&reader->indptr, first, count + 1, sizeof(uint64_t),
		                reader->offset);
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		uint64_t begin = (first + i) * reader->row_bytes, end = begin + reader->row_bytes;

		if (is_lists) {
			begin = reader->offset[i] * reader->index_bytes;
			end = reader->offset[i + 1] * reader->index_bytes;
		}
		/* damaged offsets are found when the structure is opened */
		if (begin < end && (!is_lists || reader->offset[i] < reader->offset[i + 1]))
			add(sums, begin, end, probability(reader->score[i]));
	}
	return rc;
}

static int open_files(const struct rung_dataset *ds, struct score_reader *reader)
{
	int rc = rung__array_open(ds, RUNG__SCORE, &reader->scores);

	if (rc == 0 && reader->row_bytes == 0)
		rc = rung__array_open(ds, RUNG__INDPTR, &reader->indptr);
	if (rc < 0)
		return rc;
	reader->score = rung__malloc(BLOCK_ITEMS * sizeof(float));
	reader->offset = rung__malloc((BLOCK_ITEMS + 1) * sizeof(uint64_t));
	if (!reader->score || !reader->offset)
		return rung__fail(RUNG_E_NOMEM, "plan: out of memory");
	return 0;
}

int rung__curve_scores(const struct rung_dataset *ds, uint64_t row_bytes, struct rung__curve *curve)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct score_reader reader = { .row_bytes = row_bytes, .index_bytes = info->index_bytes };
	struct sums sums = { .curve = curve };
	int rc = open_files(ds, &reader);

	for (uint64_t first = 0; first < info->vertex_count && rc == 0; first += BLOCK_ITEMS)
		rc = add_block(&reader, first, RUNG__MIN(info->vertex_count - first, BLOCK_ITEMS),
		               &sums);
	for (; sums.next < curve->count; sums.next++)
		curve->hits[sums.next] = sums.total;
	curve->accesses = sums.total;
	rung__free(reader.score);
	rung__free(reader.offset);
	rung__features_close(&reader.scores);
	rung__features_close(&reader.indptr);
	return rc;
}
