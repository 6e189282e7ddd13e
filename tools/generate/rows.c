/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels, years, splits and feature rows, in the order of ids.
 *
 * Value d of a row is noise + signal / sqrt(width) * code(class, d): the noise is normal with
 * variance 1, and the code of a class is a sequence of random signs. So `signal` is the distance of
 * a row from the noise along the code of its class. With a value near 2 a row alone determines its
 * class less than half of the time, but the mean of a few rows of the class does.
 *
 * A value takes 8 random bits, which select one of 256 quantiles of the noise.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"

#define CHUNK_ROWS  (1u << 16) /* of labels, years and splits */
#define NOISE       256
#define UNIT        1024 /* values are multiples of 1 / UNIT, which f16 and f32 hold exactly */
#define BLOCK_BYTES (4u << 20)
#define VALUES      8 /* that are written at once */
/* signal of the row of an author, and of an institution, relative to that of a paper: about the
 * share of their papers that are of the class of their community */
#define AUTHOR_SHARE      0.9
#define INSTITUTION_SHARE 0.5

uint64_t gen_row_bytes(const struct gen_job *job)
{
	return (uint64_t)job->width * rung_dtype_bytes(job->graph.model->dtype);
}

static uint64_t rows_of_block(const struct gen_job *job)
{
	const uint64_t rows = BLOCK_BYTES / gen_row_bytes(job);

	return rows ? rows : 1;
}

/* The last values of the last row may be written beyond it. */
uint64_t gen_rows_bytes(const struct gen_job *job)
{
	return rows_of_block(job) * gen_row_bytes(job) + VALUES * sizeof(float);
}

static uint64_t row_count(const struct gen_job *job)
{
	const struct gen_typed *typed = job->typed;

	return job->graph.vertices + (typed ? typed->authors + typed->institutions : 0);
}

static uint64_t edge_count(const struct gen_job *job)
{
	const struct gen_typed *typed = job->typed;

	return job->graph.edges + (typed ? typed->writes.edges + typed->affiliations.edges : 0);
}

uint64_t gen_bytes(const struct gen_job *job)
{
	const struct gen_graph *graph = &job->graph;
	const uint64_t ids = graph->split_count[GEN_TRAIN] + graph->split_count[GEN_VALID] +
	                     graph->split_count[GEN_TEST];

	return row_count(job) * gen_row_bytes(job) +
	       graph->vertices * sizeof(int16_t) * (graph->model->year ? 2 : 1) +
	       2 * edge_count(job) * sizeof(int32_t) + ids * sizeof(int64_t) +
	       (uint64_t)(job->typed ? GEN_FILES_MAX : GEN_FILES) * GEN_DATA;
}

/* ---- labels, years, splits ---- */

struct label_files {
	struct gen_file *label, *year, *split[GEN_SPLITS];
	uint64_t split_rows[GEN_SPLITS]; /* ids written so far */
};

struct label_chunk {
	int16_t label[CHUNK_ROWS], year[CHUNK_ROWS];
	unsigned char split[CHUNK_ROWS];
	int64_t ids[CHUNK_ROWS];
};

static int create_label_files(struct gen_job *job, struct label_files *files)
{
	static const char *const names[] = { "train.npy", "valid.npy", "test.npy" };
	const uint64_t rows = job->graph.vertices;
	int code = gen_folder_array(&job->folder, "labels.npy", RUNG_I16, rows, 0, &files->label);

	if (code == TOOL_DONE && job->graph.model->year)
		code = gen_folder_array(&job->folder, "year.npy", RUNG_I16, rows, 0, &files->year);
	for (int i = 0; i < GEN_SPLITS && code == TOOL_DONE; i++) {
		if (job->graph.split_count[i])
			code = gen_folder_array(&job->folder, names[i], RUNG_I64,
			                        job->graph.split_count[i], 0, &files->split[i]);
	}
	return code;
}

static void fill_chunk(const struct gen_job *job, uint64_t first, uint64_t rows,
                       struct label_chunk *chunk)
{
	const struct gen_graph *graph = &job->graph;

#pragma omp parallel for schedule(static) num_threads(job->threads)
	for (uint64_t i = 0; i < rows; i++) {
		const uint64_t position = gen_position(graph, first + i);
		const enum gen_split split = gen_split_of(graph, position);

		chunk->split[i] = (unsigned char)split;
		chunk->label[i] =
			split == GEN_UNLABELLED ? -1 : (int16_t)gen_class(graph, position);
		chunk->year[i] = graph->model->year ? (int16_t)gen_year(graph, position) : 0;
	}
}

/* @return an errno value, or 0, with the file in `failed_out` */
static int write_chunk(struct label_files *files, uint64_t first, uint64_t rows,
                       struct label_chunk *chunk, struct gen_file **failed_out)
{
	int err = gen_file_write(*failed_out = files->label, first * sizeof(int16_t), chunk->label,
	                         rows * sizeof(int16_t));

	if (!err && files->year)
		err = gen_file_write(*failed_out = files->year, first * sizeof(int16_t),
		                     chunk->year, rows * sizeof(int16_t));
	for (int split = 0; split < GEN_SPLITS && !err; split++) {
		uint64_t count = 0;

		for (uint64_t i = 0; i < rows; i++) {
			if (chunk->split[i] == split)
				chunk->ids[count++] = (int64_t)(first + i);
		}
		if (count)
			err = gen_file_write(*failed_out = files->split[split],
			                     files->split_rows[split] * sizeof(int64_t), chunk->ids,
			                     count * sizeof(int64_t));
		files->split_rows[split] += count;
	}
	return err;
}

int gen_write_labels(struct gen_job *job)
{
	const uint64_t vertices = job->graph.vertices;
	struct label_files files = { 0 };
	struct label_chunk *chunk;
	struct gen_file *failed = NULL;
	int err = 0, code = create_label_files(job, &files);

	if (code != TOOL_DONE)
		return code;
	chunk = malloc(sizeof(*chunk));
	if (!chunk)
		return tool_error(job->command, TOOL_FAILED, "no memory for a block of labels");
	for (uint64_t first = 0; first < vertices && !err; first += CHUNK_ROWS) {
		const uint64_t left = vertices - first;
		const uint64_t rows = left < CHUNK_ROWS ? left : CHUNK_ROWS;

		fill_chunk(job, first, rows, chunk);
		err = write_chunk(&files, first, rows, chunk, &failed);
		if (!err && tool_progress_update(&job->progress, "labels", first, vertices))
			err = ECANCELED;
	}
	free(chunk);
	return err ? gen_folder_refuse(&job->folder, failed, err) : TOOL_DONE;
}

/* ---- rows ---- */

/* Values of both signs of the code, as they are stored. */
struct row_values {
	uint16_t half[2][NOISE];
	float single[2][NOISE];
};

/* A multiple of 1 / UNIT as a half, exact up to 2 and rounded above; it is below 16. */
static uint16_t half_of(int value)
{
	const unsigned sign = value < 0 ? 0x8000 : 0;
	unsigned magnitude = (unsigned)abs(value), exponent = 15 + 10 - 10;

	if (magnitude == 0)
		return 0;
	/* 1024 to 2047 is 1 to 2: the exponent 15 of the format */
	while (magnitude < 1024) {
		magnitude <<= 1;
		exponent--;
	}
	while (magnitude >= 2048) {
		magnitude = (magnitude + 1) >> 1;
		exponent++;
	}
	return (uint16_t)(sign | (exponent << 10) | (magnitude & 1023));
}

static void fill_values(const struct gen_job *job, double share, struct row_values *values)
{
	const double step = share * job->graph.params.signal / sqrt((double)job->width) * UNIT;

	for (int i = 0; i < NOISE; i++) {
		const double noise = gen_normal_quantile((i + 0.5) / NOISE) * UNIT;

		for (int sign = 0; sign < 2; sign++) {
			const int value = (int)lround(noise + (sign ? step : -step));

			values->half[sign][i] = half_of(value);
			values->single[sign][i] = (float)value / UNIT;
		}
	}
}

/* Values from 64 random bits and the signs in the low bits of `code`. */
#define FILL_VALUES(row, table, bits, code)                                                        \
	do {                                                                                       \
		for (unsigned k = 0; k < VALUES; k++)                                              \
			(row)[k] = (table)[((code) >> k) & 1][((bits) >> (8 * k)) & 255];          \
	} while (0)

struct row_keys {
	uint64_t noise, code; /* of the vertex, of its class */
};

static void fill_half(const struct row_values *values, struct row_keys keys, uint32_t width,
                      uint16_t *row)
{
	for (uint32_t d = 0; d < width; d += 64) {
		uint64_t code = rung__rng_at(keys.code, d);

		for (uint32_t at = d; at < d + 64 && at < width; at += VALUES, code >>= VALUES) {
			const uint64_t bits = rung__rng_at(keys.noise, at);

			FILL_VALUES(row + at, values->half, bits, code);
		}
	}
}

static void fill_single(const struct row_values *values, struct row_keys keys, uint32_t width,
                        float *row)
{
	for (uint32_t d = 0; d < width; d += 64) {
		uint64_t code = rung__rng_at(keys.code, d);

		for (uint32_t at = d; at < d + 64 && at < width; at += VALUES, code >>= VALUES) {
			const uint64_t bits = rung__rng_at(keys.noise, at);

			FILL_VALUES(row + at, values->single, bits, code);
		}
	}
}

/* The rows of a vertex type. */
enum type { PAPERS, AUTHORS, INSTITUTIONS };

struct row_pass {
	struct gen_job *job;
	enum type type;
	const struct gen_file *file;
	struct row_values values;
	uint64_t key_noise, key_code, count, block_rows, row_bytes;
	int err;
};

static uint32_t class_of(const struct row_pass *pass, uint64_t id)
{
	const struct gen_graph *graph = &pass->job->graph;
	const struct gen_typed *typed = pass->job->typed;
	uint64_t position;

	if (pass->type == PAPERS)
		return gen_class(graph, gen_position(graph, id));
	if (pass->type == AUTHORS)
		return gen_class(graph, gen_permute_back(&typed->author_order, id));
	position = gen_permute_back(&typed->institution_order, id);
	return gen_class(graph, gen_institution_home(typed, graph, position));
}

static void fill_rows(const struct row_pass *pass, uint64_t first, uint64_t rows, char *block)
{
	const struct gen_graph *graph = &pass->job->graph;

	for (uint64_t i = 0; i < rows; i++) {
		const struct row_keys keys = {
			.noise = rung__key_join(pass->key_noise, first + i),
			.code = rung__key_join(pass->key_code, class_of(pass, first + i)),
		};
		void *row = block + i * pass->row_bytes;

		if (graph->model->dtype == RUNG_F16)
			fill_half(&pass->values, keys, pass->job->width, row);
		else
			fill_single(&pass->values, keys, pass->job->width, row);
	}
}

static void run_thread(struct row_pass *pass)
{
	struct gen_job *job = pass->job;
	const uint64_t vertices = pass->count;
	char *block = malloc(gen_rows_bytes(job));
	int err = block ? 0 : ENOMEM;

#pragma omp for schedule(dynamic, 1)
	for (uint64_t first = 0; first < vertices; first += pass->block_rows) {
		const uint64_t left = vertices - first;
		const uint64_t rows = left < pass->block_rows ? left : pass->block_rows;
		int stop;
#pragma omp atomic read
		stop = pass->err;
		if (!stop && !err) {
			fill_rows(pass, first, rows, block);
			err = gen_file_write(pass->file, first * pass->row_bytes, block,
			                     rows * pass->row_bytes);
			if (!err &&
			    tool_progress_update(&job->progress, "features", first, vertices))
				err = ECANCELED;
		}
		if (err) {
#pragma omp atomic write
			pass->err = err;
		}
	}
	free(block);
}

static int write_rows(struct gen_job *job, enum type type, const char *name, uint64_t count,
                      double share)
{
	/* of the noise of each type */
	static const uint64_t keys[] = { [PAPERS] = 10, [AUTHORS] = 24, [INSTITUTIONS] = 25 };
	struct row_pass pass = {
		.job = job,
		.type = type,
		.key_noise = rung__key_join(job->graph.seed, keys[type]),
		.key_code = rung__key_join(job->graph.seed, 11),
		.count = count,
		.row_bytes = gen_row_bytes(job),
	};
	struct gen_file *file;
	const int code = gen_folder_array(&job->folder, name, job->graph.model->dtype, count,
	                                  job->width, &file);

	if (code != TOOL_DONE)
		return code;
	fill_values(job, share, &pass.values);
	pass.file = file;
	pass.block_rows = rows_of_block(job);
#pragma omp parallel num_threads(job->threads)
	run_thread(&pass);
	return pass.err ? gen_folder_refuse(&job->folder, file, pass.err) : TOOL_DONE;
}

int gen_write_rows(struct gen_job *job)
{
	const struct gen_typed *typed = job->typed;
	int code = write_rows(job, PAPERS, "features.npy", job->graph.vertices, 1);

	if (typed && code == TOOL_DONE)
		code = write_rows(job, AUTHORS, "author_features.npy", typed->authors,
		                  AUTHOR_SHARE);
	if (typed && code == TOOL_DONE)
		code = write_rows(job, INSTITUTIONS, "institution_features.npy",
		                  typed->institutions, INSTITUTION_SHARE);
	return code;
}
