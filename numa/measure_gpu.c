/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What GPUs read and write: memory of each node, over the link, and memory of each other and their own.
 *
 * Copies are those of the copy engines, gathers those of the store's kernel, out of memory that is several times what caches hold; src/device/meter.h says
 * how they are timed. Rows are drawn once, in lists that take turns, so that a gather does not find the rows of the one before in a cache. Bytes are
 * counted once: those that come over, not those that are read and written.
 *
 * What CUDA refuses is a fact about the machine, and the reason why a value is absent.
 */
#include "measure_gpu.h"

#define CALIBRATIONS_MAX 4u
#define LISTS_MAX 8u             /* of rows to be gathered */
#define SEQUENCE_ROW_BYTES 4096u /* of rows that are read in sequence */
#define IDS_SEED UINT64_C(0x6770752d726f7773)

static int no_memory(void)
{
	return rung__fail(RUNG_E_NOMEM, "measuring: out of memory");
}

/* ---- one value ---- */

struct work {
	const struct rung__meter_ops *ops;
	struct rung__meter *meter;
	struct rung__meter_copy copies[2];
	unsigned copy_count;                 /* 0: it is a gather */
	struct rung__meter_gather gather;
};

static int run(const struct work *work, uint64_t passes, double *seconds_out)
{
	return work->copy_count ? work->ops->copy(work->meter, work->copies, work->copy_count, passes, seconds_out)
	                        : work->ops->gather(work->meter, &work->gather, passes, seconds_out);
}

/* As rung__measure_calibrate() and rung__measure_passes(). @param samples  seconds a pass */
static int take_samples(const struct rung__measuring *m, const struct work *work, double *samples)
{
	uint64_t passes = 1;
	double seconds;
	int rc = run(work, 1, &seconds);

	for (unsigned tries = 0; tries < CALIBRATIONS_MAX && rc == 0; tries++) {
		rc = run(work, passes, &seconds);
		if (rc < 0 || seconds >= m->opts.sample_seconds)
			break;
		passes = (uint64_t)((double)passes * RUNG__MIN(1.2 * m->opts.sample_seconds / RUNG__MAX(seconds, 1e-7), 1e6)) + 1;
	}
	for (uint32_t i = 0; i < m->opts.samples && rc == 0; i++) {
		rc = run(work, passes, &samples[i]);
		samples[i] /= (double)passes;
	}
	return rc;
}

static int add_value(struct rung__measuring *m, const struct rung_numa_result *like, uint32_t group, const struct work *work)
{
	double *samples = rung__malloc_array(m->opts.samples, sizeof(*samples));
	struct rung_numa_result *result;
	const char *why = NULL;
	double bytes = 0;
	int rc = samples ? take_samples(m, work, samples) : no_memory();

	if (rc < 0) {
		rc = samples ? rung__measure_why(m, rc, &why) : rc;
		if (rc == 0)
			rc = rung__measure_absent(m, like, group, why);
		goto free_samples;
	}
	for (unsigned i = 0; i < work->copy_count; i++)
		bytes += (double)work->copies[i].bytes;
	if (work->copy_count == 0)
		bytes = (double)(work->gather.row_count * work->gather.row_bytes);
	rc = rung__measure_add(m, like, group, &result);
	if (rc == 0)
		rc = rung__measure_set(m, &result->bytes_per_s, samples, bytes, false);
	if (rc == 0 && like->row_bytes)
		rc = rung__measure_set(m, &result->per_s, samples, (double)work->gather.row_count, false);
free_samples:
	rung__free(samples);
	return rc;
}

/* ---- gathers ---- */

/* GPU memory of the one that copies and gathers: rows come to `buffer`, of the table's size. */
struct place {
	const struct rung__measure_gpus *gpus;
	const struct rung__measured_gpu *gpu;
	unsigned char *table;     /* pinned memory of the host, or a GPU's */
	unsigned char *buffer;
	int over_link;
	struct rung_numa_result like;
	uint32_t group;
};

/* Lists until the rows in them are as many bytes as the table, if that is not too many. */
static struct rung__meter_gather gather_of(const struct rung__measuring *m, const struct place *place, uint32_t row_bytes)
{
	const uint64_t batch_bytes = RUNG__MIN(m->gpu_sizes.batch_bytes, m->gpu_sizes.table_bytes);
	const uint64_t row_count = RUNG__MAX(RUNG__MIN(batch_bytes / row_bytes, m->gpu_sizes.batch_rows_max), 1);

	return (struct rung__meter_gather){
		.table = place->table,
		.table_rows = m->gpu_sizes.table_bytes / row_bytes,
		.row_bytes = row_bytes,
		.over_link = place->over_link,
		.row_count = row_count,
		.list_count = RUNG__MAX(RUNG__MIN(m->gpu_sizes.table_bytes / (row_count * row_bytes), LISTS_MAX), 1),
		.out = place->buffer,
	};
}

/* @param ids_out  the GPU's, free with give_back() */
static int put_ids(const struct place *place, const struct rung__meter_gather *gather, bool in_sequence, void **ids_out)
{
	const uint64_t count = gather->row_count * gather->list_count;
	uint64_t *ids = rung__malloc_array(count, sizeof(*ids));
	void *on_gpu = NULL;
	int rc;

	if (!ids)
		return no_memory();
	for (uint64_t i = 0; i < count; i++)
		ids[i] = (in_sequence ? i : rung__mix64(IDS_SEED + i)) % gather->table_rows;
	rc = place->gpus->ops->take(place->gpu->number, count * sizeof(*ids), &on_gpu);
	if (rc == 0) {
		rc = place->gpus->ops->put(place->gpu->number, on_gpu, ids, count * sizeof(*ids));
		if (rc < 0)
			place->gpus->ops->give_back(place->gpu->number, on_gpu);
		else
			*ids_out = on_gpu;
	}
	rung__free(ids);
	return rc;
}

static int measure_rows(struct rung__measuring *m, const struct place *place, uint32_t row_bytes, bool in_sequence)
{
	struct work work = { .ops = place->gpus->ops, .meter = place->gpu->meter, .gather = gather_of(m, place, row_bytes) };
	struct rung_numa_result like = place->like;
	const char *why = NULL;
	void *ids = NULL;
	int rc = put_ids(place, &work.gather, in_sequence, &ids);

	like.kind = in_sequence ? "read" : "gather";
	like.row_bytes = in_sequence ? 0 : row_bytes;
	if (rc < 0) {
		rc = rung__measure_why(m, rc, &why);
		return rc < 0 ? rc : rung__measure_absent(m, &like, place->group, why);
	}
	work.gather.ids = ids;
	rc = add_value(m, &like, place->group, &work);
	work.ops->give_back(place->gpu->number, ids);
	return rc;
}

static int measure_all_rows(struct rung__measuring *m, const struct place *place)
{
	int rc = 0;

	for (size_t i = 0; i < m->row_count && rc == 0; i++)
		rc = measure_rows(m, place, m->rows[i], false);
	return rc;
}

static int measure_copies(struct rung__measuring *m, const struct place *place, const char *kind, const struct rung__meter_copy *copies, unsigned count)
{
	struct work work = { .ops = place->gpus->ops, .meter = place->gpu->meter, .copy_count = count };
	struct rung_numa_result like = place->like;

	for (unsigned i = 0; i < count; i++)
		work.copies[i] = copies[i];
	like.kind = kind;
	return add_value(m, &like, place->group, &work);
}

/* One for each kind and row, for the same reason. */
static int absent_all(struct rung__measuring *m, const struct rung_numa_result *like, uint32_t group, const char *const *kinds, size_t kind_count,
                      const char *why)
{
	struct rung_numa_result result = *like;
	int rc = 0;

	for (size_t i = 0; i < kind_count && rc == 0; i++) {
		result.kind = kinds[i];
		rc = rung__measure_absent(m, &result, group, why);
	}
	result.kind = "gather";
	for (size_t i = 0; i < m->row_count && rc == 0; i++) {
		result.row_bytes = m->rows[i];
		rc = rung__measure_absent(m, &result, group, why);
	}
	return rc;
}

/* ---- GPU x memory node ---- */

static const char *const gpu_kinds[] = { "to_gpu", "from_gpu", "both", "read" };

static struct rung_numa_result blank_gpu(const struct rung__measuring *m, const struct rung__measured_gpu *gpu, size_t idx)
{
	struct rung_numa_result result = rung__measure_blank(RUNG_NUMA_GPU);

	result.gpu = gpu->position;
	result.gpu_bus_id = gpu->bus_id;
	result.memory_node = (int)m->nodes[idx].node->node;
	result.buffer_bytes = m->gpu_sizes.table_bytes;
	result.advised_bytes = m->gpu_table_bytes_advised;
	return result;
}

static int measure_link(struct rung__measuring *m, const struct place *place)
{
	const uint64_t bytes = m->gpu_sizes.table_bytes, half = bytes / 2;
	const struct rung__meter_copy to = { place->buffer, place->table, bytes }, from = { place->table, place->buffer, bytes };
	const struct rung__meter_copy both[] = { { place->buffer, place->table, half }, { place->table + half, place->buffer + half, half } };
	int rc = measure_copies(m, place, "to_gpu", &to, 1);

	if (rc == 0)
		rc = measure_copies(m, place, "from_gpu", &from, 1);
	if (rc == 0)
		rc = measure_copies(m, place, "both", both, 2);
	if (rc == 0)
		rc = measure_rows(m, place, SEQUENCE_ROW_BYTES, true);
	return rc < 0 ? rc : measure_all_rows(m, place);
}

static int measure_gpu_and_node(struct rung__measuring *m, const struct rung__measure_gpus *gpus, size_t g, size_t idx, const struct rung__measure_memory *memory)
{
	const struct rung__measured_gpu *gpu = &gpus->list[g];
	struct place place = { .gpus = gpus, .gpu = gpu, .table = memory->base, .over_link = 1, .like = blank_gpu(m, gpu, idx),
	                       .group = (uint32_t)(g * gpus->count) };
	const char *why = NULL;
	void *buffer = NULL;
	int rc = gpus->ops->take(gpu->number, m->gpu_sizes.table_bytes, &buffer);

	place.like.placed_share = memory->placed_share;
	place.like.huge_share = memory->huge_share;
	if (rc < 0) {
		rc = rung__measure_why(m, rc, &why);
		return rc < 0 ? rc : absent_all(m, &place.like, place.group, gpu_kinds, RUNG__ARRAY_LEN(gpu_kinds), why);
	}
	place.buffer = buffer;
	rc = measure_link(m, &place);
	gpus->ops->give_back(gpu->number, buffer);
	return rc;
}

/* Memory of a node, for all GPUs. @param why_out  NULL, or why there is none, and then nothing is to be given back */
static int take_pinned(struct rung__measuring *m, const struct rung__measure_gpus *gpus, int number, size_t idx, struct rung__measure_memory *memory_out,
                       const char **why_out)
{
	int rc = rung__measure_take(m, idx, m->gpu_sizes.table_bytes, RUNG__MEASURE_HUGE_BYTES, memory_out, why_out);

	if (rc == RUNG_E_NOSUP)
		return rung__measure_why(m, rc, why_out);
	if (rc < 0 || *why_out)
		return rc;
	rc = gpus->ops->pin(number, memory_out->base, memory_out->bytes);
	if (rc == 0)
		return 0;
	rung__measure_release(memory_out);
	return rung__measure_why(m, rc, why_out);
}

static int measure_node(struct rung__measuring *m, const struct rung__measure_gpus *gpus, size_t idx)
{
	const int number = rung__measure_gpu_number(gpus);
	struct rung__measure_memory memory = { 0 };
	const char *why = NULL;
	int rc = take_pinned(m, gpus, number, idx, &memory, &why);

	if (rc < 0)
		return rc;
	for (size_t g = 0; g < gpus->count && rc == 0; g++) {
		const struct rung_numa_result like = blank_gpu(m, &gpus->list[g], idx);

		if (!gpus->list[g].meter)
			continue;
		if (why)
			rc = absent_all(m, &like, (uint32_t)(g * gpus->count), gpu_kinds, RUNG__ARRAY_LEN(gpu_kinds), why);
		else
			rc = measure_gpu_and_node(m, gpus, g, idx, &memory);
	}
	if (!why) {
		gpus->ops->unpin(number, memory.base);
		rung__measure_release(&memory);
	}
	return rc;
}

int rung__measure_gpu(struct rung__measuring *m)
{
	struct rung__measure_gpus gpus;
	const char *why;
	int rc = rung__measure_open_gpus(m, &gpus, &why);

	if (rc < 0)
		return rc;
	rung__measure_step(m, RUNG_NUMA_GPU, RUNG__MAX(gpus.count * m->node_count * (RUNG__ARRAY_LEN(gpu_kinds) + m->row_count), 1));
	rc = rung__measure_absent_gpus(m, RUNG_NUMA_GPU, &gpus, why);
	for (size_t idx = 0; idx < m->node_count && rc == 0 && rung__measure_gpu_number(&gpus) >= 0; idx++)
		rc = measure_node(m, &gpus, idx);
	rung__measure_close_gpus(&gpus);
	return rc;
}

/* ---- GPU x GPU ---- */

static const char *const peer_kinds[] = { "copy" };

static int measure_tables(struct rung__measuring *m, struct place *place, const struct rung__measured_gpu *from)
{
	const struct rung__meter_ops *ops = place->gpus->ops;
	struct rung__meter_copy copy = { .bytes = m->gpu_sizes.table_bytes };
	void *table = NULL, *buffer = NULL;
	const char *why = NULL;
	int rc = ops->take(from->number, copy.bytes, &table);

	if (rc == 0)
		rc = ops->take(place->gpu->number, copy.bytes, &buffer);
	if (rc < 0) {
		rc = rung__measure_why(m, rc, &why);
		if (rc == 0)
			rc = absent_all(m, &place->like, place->group, peer_kinds, RUNG__ARRAY_LEN(peer_kinds), why);
		goto give_back;
	}
	copy.from = place->table = table;
	copy.to = place->buffer = buffer;
	rc = measure_copies(m, place, "copy", &copy, 1);
	if (rc == 0)
		rc = measure_all_rows(m, place);
	ops->give_back(place->gpu->number, buffer);
give_back:
	ops->give_back(from->number, table);
	return rc;
}

static int measure_peers(struct rung__measuring *m, const struct rung__measure_gpus *gpus, size_t from_idx, size_t to_idx)
{
	const struct rung__measured_gpu *from = &gpus->list[from_idx], *to = &gpus->list[to_idx];
	struct place place = { .gpus = gpus, .gpu = to, .like = rung__measure_blank(RUNG_NUMA_PEER), .group = (uint32_t)(from_idx * gpus->count + to_idx) };
	const char *why = NULL;
	int rc = from == to ? 0 : gpus->ops->reach(to->number, from->number);

	place.like.gpu = from->position;
	place.like.gpu_bus_id = from->bus_id;
	place.like.to_gpu = to->position;
	place.like.to_gpu_bus_id = to->bus_id;
	place.like.buffer_bytes = m->gpu_sizes.table_bytes;
	place.like.advised_bytes = m->gpu_table_bytes_advised;
	if (rc == 0)
		return measure_tables(m, &place, from);
	rc = rung__measure_why(m, rc, &why);
	return rc < 0 ? rc : absent_all(m, &place.like, place.group, peer_kinds, RUNG__ARRAY_LEN(peer_kinds), why);
}

int rung__measure_peer(struct rung__measuring *m)
{
	struct rung__measure_gpus gpus;
	const char *why;
	int rc = rung__measure_open_gpus(m, &gpus, &why);

	if (rc < 0)
		return rc;
	rung__measure_step(m, RUNG_NUMA_PEER, RUNG__MAX(gpus.count * gpus.count * (RUNG__ARRAY_LEN(peer_kinds) + m->row_count), 1));
	rc = rung__measure_absent_gpus(m, RUNG_NUMA_PEER, &gpus, why);
	for (size_t from = 0; from < gpus.count; from++) {
		for (size_t to = 0; to < gpus.count && rc == 0; to++) {
			if (gpus.list[from].meter && gpus.list[to].meter)
				rc = measure_peers(m, &gpus, from, to);
		}
	}
	rung__measure_close_gpus(&gpus);
	return rc;
}
