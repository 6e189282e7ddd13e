/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of rung_cold_reads, the expected rows, and the timed run of a strategy. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cold.h"

#define FILL_BYTES (4u << 20) /* written at a time */
#define POISON     0xee       /* fills the outputs before the run */

static const char usage[] =
	"usage: rung_cold_reads strategies\n"
	"           list the strategies of this build\n"
	"       rung_cold_reads fill DIR\n"
	"           overwrite the rows of a staged dataset with known contents\n"
	"       rung_cold_reads sample DIR TRACE FANOUTS BATCH BATCHES SEED\n"
	"           write a trace of sampled batches of the train split\n"
	"       rung_cold_reads spans DIR TRACE FIRST ROWS SPAN BATCHES SEED\n"
	"           write a trace of uniform ranks in spans after the first FIRST\n"
	"       rung_cold_reads count DIR TRACE RESIDENT CAPACITY FROM\n"
	"           count the hits that a cache can have, from batch FROM on\n"
	"       rung_cold_reads run DIR TRACE STRATEGY [NAME=NUMBER ...]\n"
	"           fetch the rows with ranks from `resident` on\n"
	"names: resident memory warmup threads depth in-flight cache ahead gap no-merge\n"
	"       no-window check\n";

static const struct cold_strategy *const strategies[] = {
	&cold_mmap,       &cold_pread,
#if BENCH_HAVE_IO_URING
	&cold_uring_rows, &cold_uring_pages, &cold_uring_slot,
#endif
	&cold_rung,
};

int cold_open_direct(const struct cold_run *run)
{
	int fd = open(run->features.path, O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		bench_die("%s: cannot be opened with O_DIRECT: %s", run->features.path,
		          strerror(errno));
	return fd;
}

/* ---- the contents of rows ---- */

void cold_row(const struct bench_features *features, uint64_t rank, void *row_out)
{
	for (uint64_t at = 0; at < features->row_bytes; at += 8) {
		uint64_t word = bench_draw(rank, at);

		memcpy((char *)row_out + at, &word,
		       features->row_bytes - at < 8 ? features->row_bytes - at : 8);
	}
}

void cold_fill(const struct bench_features *features)
{
	uint64_t rows = FILL_BYTES / features->row_stride + 1;
	unsigned char *block = bench_map(rows * features->row_stride);
	int fd = open(features->path, O_WRONLY | O_CLOEXEC);

	for (uint64_t first = 0; first < features->row_count; first += rows) {
		uint64_t count =
			features->row_count - first < rows ? features->row_count - first : rows;
		uint64_t bytes = count * features->row_stride;

		for (uint64_t i = 0; i < count; i++)
			cold_row(features, first + i, block + i * features->row_stride);
		if (fd < 0 || pwrite(fd, block, bytes,
		                     (off_t)(features->data_offset +
		                             first * features->row_stride)) != (ssize_t)bytes)
			bench_die("%s: cannot be written: %s", features->path, strerror(errno));
	}
	if (fsync(fd) != 0 || close(fd) != 0)
		bench_die("%s: cannot be written: %s", features->path, strerror(errno));
}

static uint64_t cold_rows(const struct cold_batch *batch)
{
	return batch->count + batch->known_count;
}

static uint64_t wrong_rows(const struct cold_run *run, uint64_t batch, const unsigned char *out)
{
	uint64_t row_bytes = run->features.row_bytes, wrong = 0;
	unsigned char *row = malloc(row_bytes);

	if (!row)
		bench_die("out of memory");
	for (uint64_t i = 0; i < cold_rows(&run->batches[batch]); i++) {
		cold_row(&run->features, run->batches[batch].ranks[i], row);
		wrong += memcmp(row, out + i * row_bytes, row_bytes) != 0;
	}
	free(row);
	return wrong;
}

/* ---- run ---- */

static void find_features(const char *dir, struct bench_features *features_out)
{
	struct rung_dataset *ds;

	bench_need(rung_dataset_open(dir, &ds), "opening the dataset");
	bench_features_find(ds, features_out);
	rung_dataset_close(ds);
}

/* Moves the ranks that are fetched to the front, in their order, and with `keep` the resident ones
 * after them. @return number of fetched ranks */
static uint64_t split(const struct cold_run *run, uint64_t *ranks, uint64_t count, bool keep,
                      uint64_t *known)
{
	uint64_t fetched = 0, known_count = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (ranks[i] >= run->features.row_count)
			bench_die("rank %" PRIu64 " is out of range in %s", ranks[i], run->dir);
		if (ranks[i] >= run->resident)
			ranks[fetched++] = ranks[i];
		else
			known[known_count++] = ranks[i];
	}
	if (keep)
		memcpy(ranks + fetched, known, known_count * sizeof(*known));
	return fetched;
}

/* Divides each batch into the ranks to fetch and, with memory for them, the resident ones. Other
 * resident ranks, and batches without any rank, are dropped. */
static void accept_batches(struct cold_run *run, struct cold_trace *trace)
{
	bool keep = run->memory_bytes != 0;
	uint64_t *known = malloc((trace->starts[trace->batch_count] + 1) * sizeof(*known));

	run->batches = calloc(trace->batch_count, sizeof(*run->batches));
	if (!run->batches || !known)
		bench_die("out of memory");
	for (uint64_t b = 0; b < trace->batch_count; b++) {
		uint64_t *ranks = trace->ranks + trace->starts[b],
			 count = trace->starts[b + 1] - trace->starts[b],
			 fetched = split(run, ranks, count, keep, known);

		count = keep ? count : fetched;
		if (count > 0)
			run->batches[run->batch_count++] =
				(struct cold_batch){ ranks, fetched, count - fetched };
		run->rows_max = count > run->rows_max ? count : run->rows_max;
	}
	free(known);
	if (run->batch_count == 0)
		bench_die("the trace has no cold rows");
}

/* Divides the memory between resident rows and the buffers of the strategy. rung does so itself,
 * and gets whole batches. */
static void use_memory(struct cold_run *run, const struct cold_strategy *strategy)
{
	const struct bench_features *features = &run->features;
	uint64_t bytes, at = 0;
	int fd;

	run->resident = 0;
	if (!strategy->buffer_bytes)
		return;
	run->buffer_bytes = strategy->buffer_bytes(run);
	if (run->memory_bytes > run->buffer_bytes)
		run->resident = (run->memory_bytes - run->buffer_bytes) / features->row_stride;
	if (run->resident > features->row_count)
		run->resident = features->row_count;
	bytes = run->resident * features->row_stride;
	run->known = bench_map(bytes + 1);
	fd = open(features->path, O_RDONLY | O_CLOEXEC);
	while (at < bytes) {
		ssize_t got = pread(fd, run->known + at,
		                    bytes - at < FILL_BYTES ? bytes - at : FILL_BYTES,
		                    (off_t)(features->data_offset + at));

		if (got <= 0)
			bench_die("%s: cannot be read", features->path);
		at += (uint64_t)got;
	}
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/* Copies the resident rows of a batch, which follow the fetched ones. */
static void copy_known(const struct cold_run *run, uint64_t batch, unsigned char *out)
{
	const struct cold_batch *b = &run->batches[batch];
	uint64_t row_bytes = run->features.row_bytes;

	for (uint64_t i = b->count; i < b->count + b->known_count; i++)
		memcpy(out + i * row_bytes, run->known + b->ranks[i] * run->features.row_stride,
		       row_bytes);
}

static void cold_fini(struct cold_run *run, struct cold_trace *trace)
{
	free(run->batches);
	free(run->features.path);
	free(trace->starts);
	free(trace->ranks);
}

/* A stopwatch: accumulated seconds, and the start of the current period. */
struct clocks {
	double seconds, cpu; /* cpu: of all threads of the process */
	double begun, cpu_begun;
};

static void go(struct clocks *clocks)
{
	clocks->cpu_begun = bench_cpu();
	clocks->begun = bench_now();
}

static void hold(struct clocks *clocks)
{
	clocks->seconds += bench_now() - clocks->begun;
	clocks->cpu += bench_cpu() - clocks->cpu_begun;
}

/* The counters at the start of the clocks, which are subtracted from the result. */
struct before {
	uint64_t reads, read_bytes, saved_rows, duplicate_rows;
};

static void read_counters(const struct cold_strategy *strategy, struct cold_run *run,
                          struct before *before_out)
{
	if (strategy->counted)
		strategy->counted(run);
	*before_out = (struct before){ run->reads, run->read_bytes, run->saved_rows,
		                       run->duplicate_rows };
}

/* Completes a batch. With `check`, its rows are compared before the output is reused. */
static void end(const struct cold_strategy *strategy, struct cold_run *run, uint64_t batch,
                bool check, unsigned char **outs, uint64_t *wrong)
{
	if (strategy->end)
		strategy->end(run, batch);
	if (check)
		*wrong += wrong_rows(run, batch, outs[batch % COLD_BUFFERS]);
}

/* Fetches the batches first .. last, `in_flight` at a time. The clocks stop during prepare(), but
 * not during the check of every batch, which is not meant for timed runs.
 * @return wrong rows; 0 without `check` */
static uint64_t fetch(const struct cold_strategy *strategy, struct cold_run *run, uint64_t first,
                      uint64_t last, bool check, unsigned char **outs, struct clocks *clocks)
{
	uint64_t in_flight = strategy->end ? run->in_flight : 1, wrong = 0;

	go(clocks);
	for (uint64_t b = first; b < last; b++) {
		if (strategy->prepare) {
			hold(clocks);
			strategy->prepare(run);
			go(clocks);
		}
		if (b >= first + in_flight)
			end(strategy, run, b - in_flight, check, outs, &wrong);
		strategy->begin(run, b, outs[b % COLD_BUFFERS]);
		copy_known(run, b, outs[b % COLD_BUFFERS]);
	}
	for (uint64_t b = last - first > in_flight ? last - in_flight : first; b < last; b++)
		end(strategy, run, b, check, outs, &wrong);
	hold(clocks);
	return wrong;
}

static void run_strategy(const struct cold_strategy *strategy, struct cold_run *run, bool check)
{
	uint64_t rows = 0, known_rows = 0, wrong = 0,
		 checked_from =
			 run->batch_count > COLD_BUFFERS ? run->batch_count - COLD_BUFFERS : 0;
	struct clocks clocks = { 0 }, ignored = { 0 };
	unsigned char *outs[COLD_BUFFERS];
	struct before before;

	for (unsigned i = 0; i < COLD_BUFFERS; i++) {
		outs[i] = bench_map(run->rows_max * run->features.row_bytes);
		memset(outs[i], POISON, run->rows_max * run->features.row_bytes);
	}
	if (run->warmup >= run->batch_count)
		bench_die("%" PRIu64 " warm-up batches leave none of %" PRIu64, run->warmup,
		          run->batch_count);
	strategy->open(run);
	wrong += run->warmup ? fetch(strategy, run, 0, run->warmup, check, outs, &ignored) : 0;
	read_counters(strategy, run, &before);
	wrong += fetch(strategy, run, run->warmup, run->batch_count, check, outs, &clocks);
	if (strategy->counted)
		strategy->counted(run);
	/* without `check`, the outputs still hold the last COLD_BUFFERS batches */
	checked_from = check                        ? run->batch_count
	               : checked_from < run->warmup ? run->warmup
	                                            : checked_from;
	for (uint64_t b = checked_from; b < run->batch_count; b++)
		wrong += wrong_rows(run, b, outs[b % COLD_BUFFERS]);
	for (uint64_t b = run->warmup; b < run->batch_count; b++) {
		rows += cold_rows(&run->batches[b]);
		known_rows += run->batches[b].known_count;
	}
	strategy->close(run);
	printf("{\"strategy\": \"%s\", \"batches\": %" PRIu64 ", \"rows\": %" PRIu64
	       ", \"known_rows\": %" PRIu64
	       ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"reads\": %" PRIu64
	       ", \"read_bytes\": %" PRIu64 ", \"saved_rows\": %" PRIu64
	       ", \"duplicate_rows\": %" PRIu64 ", \"merge_gap_bytes\": %u, \"slot_bytes\": %u, "
	       "\"resident_rows\": %" PRIu64 ", \"cache_rows\": %" PRIu64
	       ", \"buffer_bytes\": %" PRIu64 ", \"checked_batches\": %" PRIu64
	       ", \"wrong_rows\": %" PRIu64 "}\n",
	       strategy->name, run->batch_count - run->warmup, rows, known_rows, clocks.seconds,
	       clocks.cpu, run->reads - before.reads, run->read_bytes - before.read_bytes,
	       run->saved_rows - before.saved_rows, run->duplicate_rows - before.duplicate_rows,
	       run->merge_gap_bytes, run->slot_bytes, run->resident, run->cache_rows,
	       run->buffer_bytes, check ? run->batch_count : run->batch_count - checked_from,
	       wrong);
}

static void set_number(struct cold_run *run, bool *check, const char *word)
{
	const char *sign = strchr(word, '=');
	uint64_t value = sign ? bench_number(sign + 1) : 0;
	size_t length = sign ? (size_t)(sign - word) : 0;
	const struct {
		const char *name;
		uint64_t *big;
		uint32_t *small;
		bool *flag;
	} names[] = {
		{ "resident", &run->resident, NULL, NULL },
		{ "warmup", &run->warmup, NULL, NULL },
		{ "threads", NULL, &run->threads, NULL },
		{ "depth", NULL, &run->depth, NULL },
		{ "in-flight", NULL, &run->in_flight, NULL },
		{ "cache", &run->cache_rows, NULL, NULL },
		{ "ahead", &run->ahead, NULL, NULL },
		{ "memory", &run->memory_bytes, NULL, NULL },
		{ "gap", NULL, &run->gap, NULL },
		{ "no-merge", NULL, NULL, &run->no_merge },
		{ "no-window", NULL, NULL, &run->no_window },
		{ "check", NULL, NULL, check },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strlen(names[i].name) != length || strncmp(names[i].name, word, length) != 0)
			continue;
		if (names[i].big)
			*names[i].big = value;
		else if (names[i].small)
			*names[i].small = (uint32_t)value;
		else
			*names[i].flag = value != 0;
		return;
	}
	bench_die("unknown name in '%s'", word);
}

static const struct cold_strategy *strategy_called(const char *name)
{
	for (size_t i = 0; i < sizeof(strategies) / sizeof(*strategies); i++) {
		if (strcmp(strategies[i]->name, name) == 0)
			return strategies[i];
	}
	bench_die("unknown strategy '%s', or not in this build", name);
}

static int list_strategies(void)
{
	for (size_t i = 0; i < sizeof(strategies) / sizeof(*strategies); i++)
		printf("%s%s", i ? " " : "", strategies[i]->name);
	printf("\n");
	return BENCH_DONE;
}

static int run(int argc, char **argv)
{
	struct cold_run cold = {
		.dir = argv[2], .threads = 1, .depth = 64, .in_flight = COLD_BUFFERS
	};
	const struct cold_strategy *strategy;
	struct cold_trace trace;
	bool check = false;

	for (int i = 5; i < argc; i++)
		set_number(&cold, &check, argv[i]);
	if (cold.in_flight == 0 || cold.in_flight > COLD_BUFFERS)
		bench_die("in-flight is out of range; use 1 to %u", COLD_BUFFERS);
	find_features(cold.dir, &cold.features);
	cold_trace_read(argv[3], &trace);
	strategy = strategy_called(argv[4]);
	if (cold.memory_bytes)
		use_memory(&cold, strategy);
	accept_batches(&cold, &trace);
	run_strategy(strategy, &cold, check);
	cold_fini(&cold, &trace);
	return BENCH_DONE;
}

static int count(char **argv)
{
	struct cold_run cold = { .dir = argv[2], .resident = bench_number(argv[4]) };
	struct cold_counts counts;
	struct cold_trace trace;

	find_features(cold.dir, &cold.features);
	cold_trace_read(argv[3], &trace);
	accept_batches(&cold, &trace);
	cold_count(cold.batches, cold.batch_count, bench_number(argv[6]), cold.resident,
	           bench_number(argv[5]), &counts);
	printf("{\"batches\": %" PRIu64 ", \"rows\": %" PRIu64 ", \"distinct_rows\": %" PRIu64
	       ", \"static_hits\": %" PRIu64 ", \"belady_hits\": %" PRIu64 "}\n",
	       cold.batch_count, counts.rows, counts.distinct_rows, counts.static_hits,
	       counts.belady_hits);
	cold_fini(&cold, &trace);
	return BENCH_DONE;
}

static int fill(char **argv)
{
	struct bench_features features;

	find_features(argv[2], &features);
	cold_fill(&features);
	free(features.path);
	return BENCH_DONE;
}

int main(int argc, char **argv)
{
	bench_name = "rung_cold_reads";
	if (argc == 2 && strcmp(argv[1], "strategies") == 0)
		return list_strategies();
	if (argc == 3 && strcmp(argv[1], "fill") == 0)
		return fill(argv);
	if (argc >= 5 && strcmp(argv[1], "run") == 0)
		return run(argc, argv);
	if (argc == 7 && strcmp(argv[1], "count") == 0)
		return count(argv);
	if (argc == 8 && strcmp(argv[1], "sample") == 0) {
		cold_trace_sample(argv[2], argv[3], argv[4], bench_number(argv[5]),
		                  bench_number(argv[6]), bench_number(argv[7]));
		return BENCH_DONE;
	}
	if (argc == 9 && strcmp(argv[1], "spans") == 0) {
		cold_trace_spans(argv[2], argv[3], bench_number(argv[4]), bench_number(argv[5]),
		                 bench_number(argv[6]), bench_number(argv[7]),
		                 bench_number(argv[8]));
		return BENCH_DONE;
	}
	fputs(usage, stderr);
	return BENCH_USAGE;
}
