/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures reads and writes by GPUs: in the memory of each node over the link, in the memory of
 * other GPUs, and in local memory.
 *
 * Copies use the copy engines, and gathers use the kernel of the store. The memory is several times
 * as large as the caches. src/device/meter.h describes the timing. Rows are drawn once, in several
 * lists that are used in turn, so that a gather does not find the rows of the previous one in a
 * cache. Bytes are counted once, as transferred, not as read plus written.
 *
 * A refusal by CUDA is a property of the machine, and the reason why a value is absent.
 */
#include "measure_gpu.h"

/* maximum number of lists of rows to gather */
#define LISTS_MAX          8u
#define SEQUENCE_ROW_BYTES 4096u                        /* size of rows that are read in sequence */
#define IDS_SEED           UINT64_C(0x6770752d726f7773) /* "gpu-rows" */

/* A kind of measurement; its name is the kind of the results. Two copies copy half of the table
 * each, so that they do not overlap. */
struct gpu_kind {
	const char *name;
	/* copies to the measuring GPU, copies from it; neither: a gather of rows in sequence */
	bool to, from;
};

static const struct gpu_kind gather_kind = { .name = "gather" };

/* One measurement: copies or a gather, and the amounts of a pass. */
struct work {
	const struct rung__meter_ops *ops;
	struct rung__meter *meter;
	struct rung__meter_copy copies[2];
	unsigned copy_count; /* 0: the measurement is a gather */
	struct rung__meter_gather gather;
	struct rung__measure_pass pass;
};

/* A rung__run_fn. The meter times on the GPU, without the cost of queueing. */
static int run(void *ctx, uint64_t passes, double *seconds_out)
{
	const struct work *work = ctx;

	if (work->copy_count == 0)
		return work->ops->gather(work->meter, &work->gather, passes, seconds_out);
	return work->ops->copy(work->meter, work->copies, work->copy_count, passes, seconds_out);
}

/* A GPU and the memory that it copies and gathers from. */
struct pair {
	const struct rung__measure_gpus *gpus;
	const struct rung__measured_gpu *gpu; /* the GPU that copies and gathers */
	unsigned char *table;                 /* pinned memory of the host, or a GPU's */
	unsigned char *buffer;                /* memory of `gpu`, as large as the table */
	const char *why; /* NULL, or why memory is missing: all results are absent */
	int over_link;   /* the table is in host memory */
	struct rung_numa_result like;
	uint32_t group;
};

/* A gather of rows of this size. The batch is bounded in bytes and in rows, and there are enough
 * lists to gather as many bytes in total as the table has, but at most LISTS_MAX. */
static struct rung__meter_gather gather_of(const struct rung__measuring *m, const struct pair *pair,
                                           uint32_t row_bytes)
{
	const uint64_t batch_bytes = RUNG__MIN(m->gpu_sizes.batch_bytes, m->gpu_sizes.table_bytes);
	const uint64_t row_count =
		RUNG__MAX(RUNG__MIN(batch_bytes / row_bytes, m->gpu_sizes.batch_rows_max), 1);

	return (struct rung__meter_gather){
		.table = pair->table,
		.table_rows = m->gpu_sizes.table_bytes / row_bytes,
		.row_bytes = row_bytes,
		.over_link = pair->over_link,
		.row_count = row_count,
		.list_count = RUNG__MAX(
			RUNG__MIN(m->gpu_sizes.table_bytes / (row_count * row_bytes), LISTS_MAX),
			1),
		.out = pair->buffer,
	};
}

/* Create the lists of rows in GPU memory, random or in sequence. @param ids_out  free with
 * release(), also after a failure */
static int put_ids(const struct pair *pair, const struct rung__meter_gather *gather,
                   bool in_sequence, void **ids_out)
{
	const uint64_t count = gather->row_count * gather->list_count;
	const struct rung__meter_ops *ops = pair->gpus->ops;
	uint64_t *ids = rung__malloc_array(count, sizeof(*ids));
	int rc;

	if (!ids)
		return rung__measure_out_of_memory();
	for (uint64_t i = 0; i < count; i++)
		ids[i] = (in_sequence ? i : rung__mix64(IDS_SEED + i)) % gather->table_rows;
	rc = ops->alloc(pair->gpu->number, count * sizeof(*ids), ids_out);
	if (rc == 0)
		rc = ops->put(pair->gpu->number, *ids_out, ids, count * sizeof(*ids));
	rung__free(ids);
	return rc;
}

/* Fill in the copies of a kind; a gather has none. With copies in both directions, each uses its
 * own half of table and buffer. */
static void set_copies(const struct rung__measuring *m, const struct pair *pair,
                       const struct gpu_kind *kind, struct work *work)
{
	const uint64_t bytes = m->gpu_sizes.table_bytes / (kind->to && kind->from ? 2 : 1);
	const uint64_t at = kind->to ? bytes : 0; /* offset of the data copied from the GPU */

	if (kind->to)
		work->copies[work->copy_count++] =
			(struct rung__meter_copy){ pair->buffer, pair->table, bytes };
	if (kind->from)
		work->copies[work->copy_count++] =
			(struct rung__meter_copy){ pair->table + at, pair->buffer + at, bytes };
	work->pass.bytes = (double)(work->copy_count * bytes);
}

/* Fill in a gather. Without `row_bytes` it reads rows in sequence, as fast as a kernel reads this
 * memory, and the result has no rate of rows. @param ids_out  as in put_ids() */
static int set_gather(const struct rung__measuring *m, const struct pair *pair, uint32_t row_bytes,
                      struct work *work, void **ids_out)
{
	int rc;

	work->gather = gather_of(m, pair, row_bytes ? row_bytes : SEQUENCE_ROW_BYTES);
	work->pass.bytes = (double)(work->gather.row_count * work->gather.row_bytes);
	work->pass.items = row_bytes ? (double)work->gather.row_count : 0;
	rc = put_ids(pair, &work->gather, row_bytes == 0, ids_out);
	work->gather.ids = *ids_out;
	return rc;
}

/* Add one result. @param row_bytes  of gathered rows; 0: `kind` selects the measurement */
static int measure_kind(struct rung__measuring *m, const struct pair *pair,
                        const struct gpu_kind *kind, uint32_t row_bytes)
{
	struct work work = { .ops = pair->gpus->ops, .meter = pair->gpu->meter };
	struct rung_numa_result like = pair->like;
	const char *why = pair->why;
	void *ids = NULL;
	double *seconds;
	int rc = 0;

	like.kind = kind->name;
	like.row_bytes = row_bytes;
	if (why)
		return rung__measure_absent(m, &like, pair->group, why);
	rc = rung__measure_next(m, &like);
	if (rc < 0)
		return rc;
	set_copies(m, pair, kind, &work);
	if (work.copy_count == 0)
		rc = set_gather(m, pair, row_bytes, &work, &ids);
	if (rc == 0)
		rc = rung__measure_passes(m, run, &work, &seconds);
	if (rc < 0)
		rc = rung__measure_why(m, rc, &why);
	/* comes after the failure is recorded; ids is NULL if none were allocated */
	work.ops->release(pair->gpu->number, ids);
	if (rc < 0)
		return rc;
	if (why)
		return rung__measure_absent(m, &like, pair->group, why);
	return rung__measure_add_values(m, &like, pair->group, seconds, &work.pass, NULL);
}

/* All kinds, and gathers of all rows. */
static int measure_pair(struct rung__measuring *m, const struct pair *pair,
                        const struct gpu_kind *kinds, size_t kind_count)
{
	int rc = 0;

	for (size_t i = 0; i < kind_count && rc == 0; i++)
		rc = measure_kind(m, pair, &kinds[i], 0);
	for (size_t i = 0; i < m->row_count && rc == 0; i++)
		rc = measure_kind(m, pair, &gather_kind, m->rows[i]);
	return rc;
}

/* Allocate memory of the table's size on a GPU. @param why_out  as in rung__measure_alloc() */
static int alloc_table(struct rung__measuring *m, const struct pair *pair, int number,
                       unsigned char **memory_out, const char **why_out)
{
	void *memory = NULL;
	int rc = pair->gpus->ops->alloc(number, m->gpu_sizes.table_bytes, &memory);

	*memory_out = memory;
	return rc < 0 ? rung__measure_why(m, rc, why_out) : 0;
}

/* Measure a matrix. @param measure  measures all GPUs that have a meter; called if there is at
 * least one */
static int measure_gpus(struct rung__measuring *m, enum rung_numa_matrix matrix, size_t kind_count,
                        int (*measure)(struct rung__measuring *m,
                                       const struct rung__measure_gpus *gpus))
{
	struct rung__measure_gpus gpus;
	const char *why;
	size_t others;
	int rc = rung__measure_open_gpus(m, &gpus, &why);

	if (rc < 0)
		return rc;
	/* the other side of a pair: nodes or GPUs */
	others = matrix == RUNG_NUMA_GPU ? m->node_count : gpus.count;
	rung__measure_step(m, RUNG__MAX(gpus.count * others * (kind_count + m->row_count), 1));
	rc = rung__measure_absent_gpus(m, matrix, &gpus, why);
	if (rc == 0 && rung__measure_gpu_number(&gpus) >= 0)
		rc = measure(m, &gpus);
	rung__measure_close_gpus(&gpus);
	return rc;
}

/* ---- GPU x memory node ---- */

static const struct gpu_kind gpu_kinds[] = {
	{ "to_gpu", true, false },
	{ "from_gpu", false, true },
	{ "both", true, true },
	{ "read", false, false },
};

/* Measure a GPU with pinned memory of a node. @param why  NULL, or why memory is missing */
static int measure_gpu_and_node(struct rung__measuring *m, const struct rung__measure_gpus *gpus,
                                size_t g, size_t idx, const struct rung__measure_memory *memory,
                                const char *why)
{
	const struct rung__measured_gpu *gpu = &gpus->list[g];
	struct pair pair = { .gpus = gpus,
		             .gpu = gpu,
		             .table = memory->base,
		             .over_link = 1,
		             .why = why,
		             .like = rung__measure_blank(RUNG_NUMA_GPU),
		             .group = (uint32_t)(g * gpus->count) };
	int rc = 0;

	pair.like.gpu = gpu->position;
	pair.like.gpu_bus_id = gpu->bus_id;
	pair.like.memory_node = (int)m->nodes[idx].node->node;
	pair.like.buffer_bytes = m->gpu_sizes.table_bytes;
	pair.like.advised_bytes = m->gpu_table_bytes_advised;
	if (!why) {
		rung__measure_note(&pair.like, memory);
		rc = alloc_table(m, &pair, gpu->number, &pair.buffer, &pair.why);
	}
	if (rc == 0)
		rc = measure_pair(m, &pair, gpu_kinds, RUNG__ARRAY_LEN(gpu_kinds));
	gpus->ops->release(gpu->number, pair.buffer);
	return rc;
}

/* Measure all GPUs with memory of a node, which is allocated and pinned once for all of them. */
static int measure_node(struct rung__measuring *m, const struct rung__measure_gpus *gpus,
                        size_t idx)
{
	const int number = rung__measure_gpu_number(gpus);
	struct rung__measure_memory memory;
	const char *why;
	bool pinned = false;
	int rc = rung__measure_alloc(m, idx, m->gpu_sizes.table_bytes, RUNG__MEASURE_HUGE_BYTES,
	                             &memory, &why);

	if (rc == 0 && !why) {
		rc = gpus->ops->pin(number, memory.base, memory.bytes);
		pinned = rc == 0;
		if (rc < 0)
			rc = rung__measure_why(m, rc, &why);
	}
	for (size_t g = 0; g < gpus->count && rc == 0; g++) {
		if (gpus->list[g].meter)
			rc = measure_gpu_and_node(m, gpus, g, idx, &memory, why);
	}
	if (pinned) /* before the memory is unmapped */
		gpus->ops->unpin(number, memory.base);
	rung__measure_release(&memory);
	return rc;
}

static int measure_nodes(struct rung__measuring *m, const struct rung__measure_gpus *gpus)
{
	int rc = 0;

	for (size_t idx = 0; idx < m->node_count && rc == 0; idx++)
		rc = measure_node(m, gpus, idx);
	return rc;
}

int rung__measure_gpu(struct rung__measuring *m)
{
	return measure_gpus(m, RUNG_NUMA_GPU, RUNG__ARRAY_LEN(gpu_kinds), measure_nodes);
}

/* ---- GPU x GPU ---- */

static const struct gpu_kind peer_kinds[] = { { "copy", true, false } };

/* Measure copies and gathers of GPU `to` from memory of GPU `from`; if both are the same GPU, of
 * its local memory. */
static int measure_peers(struct rung__measuring *m, const struct rung__measure_gpus *gpus,
                         size_t from_idx, size_t to_idx)
{
	const struct rung__measured_gpu *from = &gpus->list[from_idx], *to = &gpus->list[to_idx];
	struct pair pair = { .gpus = gpus,
		             .gpu = to,
		             .like = rung__measure_blank(RUNG_NUMA_PEER),
		             .group = (uint32_t)(from_idx * gpus->count + to_idx) };
	/* peer access stays enabled afterwards */
	int rc = from == to ? 0 : gpus->ops->reach(to->number, from->number);

	pair.like.gpu = from->position;
	pair.like.gpu_bus_id = from->bus_id;
	pair.like.to_gpu = to->position;
	pair.like.to_gpu_bus_id = to->bus_id;
	pair.like.buffer_bytes = m->gpu_sizes.table_bytes;
	pair.like.advised_bytes = m->gpu_table_bytes_advised;
	if (rc < 0)
		rc = rung__measure_why(m, rc, &pair.why);
	if (rc == 0 && !pair.why)
		rc = alloc_table(m, &pair, from->number, &pair.table, &pair.why);
	if (rc == 0 && !pair.why)
		rc = alloc_table(m, &pair, to->number, &pair.buffer, &pair.why);
	if (rc == 0)
		rc = measure_pair(m, &pair, peer_kinds, RUNG__ARRAY_LEN(peer_kinds));
	/* NULL for memory that was not allocated */
	gpus->ops->release(to->number, pair.buffer);
	gpus->ops->release(from->number, pair.table);
	return rc;
}

static int measure_all_peers(struct rung__measuring *m, const struct rung__measure_gpus *gpus)
{
	int rc = 0;

	for (size_t from = 0; from < gpus->count; from++) {
		for (size_t to = 0; to < gpus->count && rc == 0; to++) {
			if (gpus->list[from].meter && gpus->list[to].meter)
				rc = measure_peers(m, gpus, from, to);
		}
	}
	return rc;
}

int rung__measure_peer(struct rung__measuring *m)
{
	return measure_gpus(m, RUNG_NUMA_PEER, RUNG__ARRAY_LEN(peer_kinds), measure_all_peers);
}
