/* SPDX-License-Identifier: Apache-2.0 */
/* The program: its options, the GPU, a temporary folder that is removed however the program ends,
 * and the benchmarks one after another. */
#include <argp.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "kernels.h"

static struct bench bench = {
	.size = UINT64_C(1) << 30,
	.batch_bytes = UINT64_C(256) << 20,
	.link_bytes = UINT64_C(128) << 20,
	.check_rows = 3000,
	.cold_rows = 200000,
	.cold_host = UINT64_C(64) << 20,
	.widths = { 512, 1024, 4096 },
	.width_count = 3,
	.tables = { UINT64_C(1) << 30, UINT64_C(8) << 30, UINT64_C(32) << 30, UINT64_C(64) << 30 },
	.table_count = 4,
	.samples = 9,
	.warmups = 2,
	.batches = 1000,
	.seed = 1,
};

static const struct part {
	const char *name;
	void (*run)(struct bench *b);
	int needs_source, needs_ceilings;
} parts[] = {
	{ "check", bench_check, 1, 0 },         { "ceilings", bench_ceilings, 0, 0 },
	{ "table", bench_table, 0, 1 },         { "gather", bench_gathers, 1, 1 },
	{ "quantized", bench_quantized, 0, 1 }, { "launch", bench_launch, 1, 0 },
	{ "baselines", bench_baselines, 1, 0 }, { "cold", bench_cold, 1, 0 },
	{ "timeline", bench_timeline, 1, 0 },   { "epoch", bench_epoch, 1, 0 },
};
#define PARTS (sizeof(parts) / sizeof(*parts))

/* ---- the temporary folder ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static void remove_folder(void)
{
	if (bench.folder[0])
		nftw(bench.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	bench.folder[0] = 0;
}

static void stopped(int sig)
{
	remove_folder(); /* no other code uses it now: the main thread is in this handler */
	_exit(128 + sig);
}

static void make_folder(void)
{
	const char *dir = bench.dir ? bench.dir : getenv("TMPDIR");

	snprintf(bench.folder, sizeof(bench.folder), "%s/rung-gpu-bench-XXXXXX",
	         dir && *dir ? dir : "/var/tmp");
	if (!mkdtemp(bench.folder)) {
		char path[sizeof(bench.folder)];

		memcpy(path, bench.folder, sizeof(path));
		bench.folder[0] = 0;
		bench_die("%s: %s", path, strerror(errno));
	}
	atexit(remove_folder);
	signal(SIGINT, stopped);
	signal(SIGTERM, stopped);
}

/* ---- options ---- */

enum {
	KEY_DIR = 0x1001,
	KEY_SIZE,
	KEY_BATCH,
	KEY_LINK,
	KEY_MANAGED,
	KEY_CHECK_ROWS,
	KEY_COLD_ROWS,
	KEY_COLD_HOST,
	KEY_WIDTHS,
	KEY_TABLES,
	KEY_SAMPLES,
	KEY_BATCHES,
	KEY_ONLY
};

static const struct argp_option options[] = {
	{ "dir", KEY_DIR, "DIR", 0,
	  "Folder for the temporary folder; about 2.5 times --size is needed (default: $TMPDIR, "
	  "/var/tmp)",
	  0 },
	{ "size", KEY_SIZE, "SIZE", 0, "Bytes of features of each width (default: 1GiB)", 0 },
	{ "row-bytes", KEY_WIDTHS, "LIST", 0, "Widths of rows (default: 512,1024,4096)", 0 },
	{ "batch-bytes", KEY_BATCH, "SIZE", 0,
	  "Rows of a batch from GPU memory, at most half of --size (default: 256MiB)", 0 },
	{ "link-bytes", KEY_LINK, "SIZE", 0,
	  "Rows of a batch over the link, at most half of --size (default: 128MiB)", 0 },
	{ "managed-bytes", KEY_MANAGED, "SIZE", 0, "Managed memory; 0: not measured (default: 0)",
	  0 },
	{ "check-rows", KEY_CHECK_ROWS, "N", 0,
	  "Rows of each dataset of the comparison with the CPU (default: 3000)", 0 },
	{ "cold-rows", KEY_COLD_ROWS, "N", 0, "Rows of one cold run (default: 200000)", 0 },
	{ "cold-host", KEY_COLD_HOST, "SIZE", 0,
	  "Host budget of a cold run, slots and rows (default: 64MiB)", 0 },
	{ "table-bytes", KEY_TABLES, "LIST", 0,
	  "Sizes of tables on the GPU (default: 1GiB,8GiB,32GiB,64GiB)", 0 },
	{ "samples", KEY_SAMPLES, "N", 0, "Samples, after two warm-ups (default: 9)", 0 },
	{ "batches", KEY_BATCHES, "N", 0,
	  "Batches of the launch cost; an epoch has a sixteenth of them (default: 1000)", 0 },
	{ "only", KEY_ONLY, "LIST", 0,
	  "Run only these parts: check, ceilings, table, gather, quantized, launch, "
	  "baselines, cold, timeline, epoch "
	  "(default: all)",
	  0 },
	{ 0 },
};

static const char *only;

static uint64_t size_arg(struct argp_state *state, const char *arg)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(arg, &end, 10);
	for (unsigned i = 0; i < 4 && end != arg && !errno && arg[0] != '-'; i++)
		if (strcmp(end, units[i].name) == 0 && value <= UINT64_MAX >> (units[i].shift + 4))
			return value << units[i].shift;
	argp_error(state, "'%s' is not a size; use bytes, or a number with KiB, MiB or GiB", arg);
	return 0;
}

static unsigned number_arg(struct argp_state *state, const char *arg, unsigned least, unsigned most)
{
	uint64_t value = size_arg(state, arg);

	if (value < least || value > most)
		argp_error(state, "%s is out of range; use %u to %u", arg, least, most);
	return (unsigned)value;
}

static void widths_arg(struct argp_state *state, char *arg)
{
	bench.width_count = 0;
	for (char *save, *word = strtok_r(arg, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		if (bench.width_count == BENCH_WIDTHS_MAX)
			argp_error(state, "--row-bytes: more than %d widths", BENCH_WIDTHS_MAX);
		bench.widths[bench.width_count++] = number_arg(state, word, 1, 1u << 30);
	}
	if (bench.width_count == 0)
		argp_error(state, "--row-bytes: no width");
}

static void tables_arg(struct argp_state *state, char *arg)
{
	char *save;

	bench.table_count = 0;
	for (char *word = strtok_r(arg, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (bench.table_count == BENCH_TABLES_MAX)
			argp_error(state, "--table-bytes: more than %d tables", BENCH_TABLES_MAX);
		bench.tables[bench.table_count++] = size_arg(state, word);
	}
}

/* Whether --only lists the part, as a whole word, or is not given. */
static int wanted(const char *name)
{
	const char *at = only;
	size_t len = strlen(name);

	while (at && (at = strstr(at, name)) != NULL) {
		if ((at == only || at[-1] == ',') && (at[len] == 0 || at[len] == ','))
			return 1;
		at += len;
	}
	return !only;
}

static void only_arg(struct argp_state *state, const char *arg)
{
	char *words = strdup(arg);

	only = arg;
	for (char *save, *word = strtok_r(words, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		unsigned i = 0;

		while (i < PARTS && strcmp(parts[i].name, word) != 0)
			i++;
		if (i == PARTS)
			argp_error(state, "--only: unknown part '%s'", word);
	}
	free(words);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case KEY_DIR:
		bench.dir = arg;
		break;
	case KEY_SIZE:
		bench.size = size_arg(state, arg);
		break;
	case KEY_BATCH:
		bench.batch_bytes = size_arg(state, arg);
		break;
	case KEY_LINK:
		bench.link_bytes = size_arg(state, arg);
		break;
	case KEY_MANAGED:
		bench.managed_bytes = size_arg(state, arg);
		break;
	case KEY_CHECK_ROWS:
		bench.check_rows = number_arg(state, arg, 64, UINT32_MAX);
		break;
	case KEY_COLD_ROWS:
		bench.cold_rows = size_arg(state, arg);
		break;
	case KEY_COLD_HOST:
		bench.cold_host = size_arg(state, arg);
		break;
	case KEY_WIDTHS:
		widths_arg(state, arg);
		break;
	case KEY_TABLES:
		tables_arg(state, arg);
		break;
	case KEY_SAMPLES:
		bench.samples = number_arg(state, arg, 1, BENCH_SAMPLES_MAX);
		break;
	case KEY_BATCHES:
		bench.batches = number_arg(state, arg, 1, 1u << 20);
		break;
	case KEY_ONLY:
		only_arg(state, arg);
		break;
	case ARGP_KEY_ARG:
		argp_usage(state);
		break;
	case ARGP_KEY_END:
		if (bench.batch_bytes > bench.size / 2 || bench.link_bytes > bench.size / 2)
			argp_error(state,
			           "--batch-bytes, --link-bytes: use at most half of --size");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- the run ---- */

/* Opens the current GPU and prints the first object of the output, which describes it. */
static void open_gpu(void)
{
	struct rung_gpu_info info = { .size = sizeof(info) };
	int version = 0, driver = 0, sm_count = 0, rc = rung_gpu_info(-1, &info);

	if (rc == RUNG_E_NODEV || rc == RUNG_E_NOSUP) {
		fprintf(stderr, "rung_gpu_bench: skipped: %s\n", rung_last_error());
		exit(BENCH_NO_GPU);
	}
	bench_need(rc, "querying the GPU");
	bench_cuda(cudaGetDevice(&bench.gpu), "querying the current GPU");
	bench_cuda(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, bench.gpu),
	           "querying the GPU's attributes");
	bench_cuda(cudaRuntimeGetVersion(&version), "querying the runtime version");
	bench_cuda(cudaDriverGetVersion(&driver), "querying the driver version");
	bench_cuda(cudaStreamCreateWithFlags(&bench.stream, cudaStreamNonBlocking),
	           "creating a stream");
	bench.sm_count = (unsigned)sm_count;
	bench.scratch = bench_device_alloc(bench_compute_floats(bench.sm_count) * sizeof(float));
	out_begin("gpu");
	out_text("name", info.name);
	out_text("bus_id", info.bus_id);
	out_u64("memory_bytes", info.total_bytes);
	out_u64("free_bytes", info.free_bytes);
	out_u64("sm_count", bench.sm_count);
	out_u64("cuda_runtime", (uint64_t)version);
	out_u64("cuda_driver", (uint64_t)driver);
	out_text("rung_commit", rung_commit());
	out_u64("size", bench.size);
	out_u64("samples", bench.samples);
	out_end();
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Measure gathers on a GPU, compared with the GPU's limits and with ways "
		       "without rung. Prints one JSON object per line.\v"
		       "Exit: 0 done, 1 something failed or a row was wrong, 2 usage, 77 no GPU.",
	};

	argp_err_exit_status = BENCH_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	open_gpu();
	make_folder();
	/* --size bytes, written only if a selected part reads rows */
	for (unsigned i = 0; i < PARTS; i++) {
		if (wanted(parts[i].name) && parts[i].needs_source) {
			bench_source_make(&bench);
			break;
		}
	}
	for (unsigned i = 0; i < PARTS; i++) {
		if (!wanted(parts[i].name))
			continue;
		if (parts[i].needs_ceilings)
			bench_ceilings(&bench);
		parts[i].run(&bench);
	}
	bench_cuda(cudaFree(bench.scratch), "freeing");
	bench_cuda(cudaStreamDestroy(bench.stream), "destroying a stream");
	return BENCH_DONE;
}
