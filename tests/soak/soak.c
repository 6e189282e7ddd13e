/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one store after another until the time is over. Exit: 0 passed, 1 failed, 2 usage, 77 the
 * test cannot run here. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset.h"
#include "soak.h"

#define VERTICES     3000u
#define EDGES        9000u
#define HANG_S       120u        /* a store that takes longer has hung */
#define GROWTH_BYTES (64u << 20) /* of address space, in addition to lost_bytes */

static const uint64_t row_widths[] = { 512, 400, 2048, 4096 };

static struct {
	uint64_t stores, refused_opens, shared, broken, closed_in_flight, left_descriptors,
		left_threads, wrong_counters, failed_closes;
	uint64_t lost_bytes; /* address space that stores on a broken tier may keep */
	uint64_t cache_hits, joined_rows, read_rows, duplicate_rows, failed_rows, retries,
		merged_rows, ahead_rows, device_reads;
} totals;

static uint64_t store_seed;

static void hung(int signal_number)
{
	static const char text[] = "soak: a store has hung\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)signal_number;
	(void)written;
	abort();
}

static void need(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "soak: store with seed %" PRIu64 ": %s: %s\n", store_seed, what,
	        rung_last_error());
	exit(1);
}

static void complain(const char *what, uint64_t is, uint64_t should_be)
{
	fprintf(stderr,
	        "soak: store with seed %" PRIu64 ": %s: %" PRIu64 ", expected %" PRIu64 "\n",
	        store_seed, what, is, should_be);
}

/* ---- datasets ---- */

static void open_data(struct soak_data *data, const char *dir)
{
	struct rung__features features = { 0 };
	uint64_t count, *vertex_of_rank;

	snprintf(data->dir, sizeof(data->dir), "%s", dir);
	need(rung_dataset_open(dir, &data->ds), dir);
	data->vertices = rung_dataset_info(data->ds)->vertex_count;
	data->row_bytes = rung_dataset_info(data->ds)->features.row_bytes;
	need(rung_dataset_load_ids(data->ds, "vertex_of_rank", &count, &vertex_of_rank), dir);
	need(rung__features_open(data->ds, &features), dir);
	data->layout = features.layout;
	rung__features_close(&features);
	data->rows = malloc(data->vertices * data->row_bytes);
	for (uint64_t rank = 0; rank < data->vertices; rank++)
		support_row(vertex_of_rank[rank], data->row_bytes,
		            data->rows + rank * data->row_bytes);
	rung_free(vertex_of_rank);
}

static void close_data(struct soak_data *data)
{
	rung_dataset_close(data->ds);
	free(data->rows);
}

/* ---- leaks ---- */

static uint64_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	uint64_t count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static uint64_t address_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	if (!file || fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A joined thread stays listed for a moment, longer if other threads use its processor. */
static bool becomes(const char *path, uint64_t count)
{
	for (unsigned tries = 0; tries < 60000; tries++) {
		if (count_entries(path) <= count)
			return true;
		usleep(1000);
	}
	return false;
}

/* ---- one store ---- */

static uint64_t one_of(uint64_t *rng, const uint64_t *values, uint64_t count)
{
	return values[soak_draw(rng, count)];
}

static uint64_t cold_first(const struct rung_plan *plan)
{
	unsigned t = 0;

	while (strcmp(rung_plan_tier(plan, t)->name, "nvme") != 0)
		t++;
	return rung_plan_tier(plan, t)->rank_first;
}

static struct rung_plan *make_plan(const struct soak_data *data, uint64_t *rng)
{
	static const uint64_t depths[] = { 1, 2, 5, 16, 64 };
	uint64_t all = data->vertices * data->row_bytes;
	struct rung_plan_opts opts = {
		.size = sizeof(opts),
		.host_bytes = all / 16 + soak_draw(rng, all / 2) + 65536,
		.queue_depth = (uint32_t)one_of(rng, depths, RUNG__ARRAY_LEN(depths)),
	};
	struct rung_plan *plan;

	switch (soak_draw(rng, 4)) {
	case 0:
		opts.cache_bytes = RUNG_BYTES_NONE;
		break;
	case 1:
		opts.cache_bytes = opts.host_bytes / 2;
		break;
	default:
		break;
	}
	need(rung_plan_create(data->ds, &opts, &plan), "plan");
	return plan;
}

static struct rung_store_opts make_opts(uint64_t *rng)
{
	static const uint64_t depths[] = { 1, 3, 8, 64 },
			      gaps[] = { 0, RUNG_MERGE_GAP_NONE, 512, 65536 },
			      windows[] = { 0, 0, 1, 8, RUNG_WINDOW_MAX, RUNG_WINDOW_NONE };
	struct rung_store_opts opts = {
		.size = sizeof(opts),
		.requests_max = 2 + (uint32_t)soak_draw(rng, 12),
		.batch_rows_max = 256,
		.queue_depth = (uint32_t)one_of(rng, depths, RUNG__ARRAY_LEN(depths)),
		.no_merge = soak_one_in(rng, 4),
		.merge_gap_bytes = (uint32_t)one_of(rng, gaps, RUNG__ARRAY_LEN(gaps)),
		.window_rows_max = soak_one_in(rng, 3) ? 500 : 0,
		.window = (uint32_t)one_of(rng, windows, RUNG__ARRAY_LEN(windows)),
	};

	return opts;
}

static void add_faults(struct soak_faults *faults, uint64_t cold_first, uint64_t cold,
                       uint64_t *rng)
{
	static const uint64_t rates[] = { 0, 0, 300, 10000, 100000 },
			      late[] = { 0, 0, 0, 100, 1000 };
	static const uint64_t jitter[] = { 0, 50000, 1000000 };

	faults->rates.errors = (uint32_t)one_of(rng, rates, RUNG__ARRAY_LEN(rates));
	faults->rates.shorts = (uint32_t)one_of(rng, rates, RUNG__ARRAY_LEN(rates));
	faults->rates.empties = (uint32_t)one_of(rng, rates, 4);
	faults->rates.late = (uint32_t)one_of(rng, late, RUNG__ARRAY_LEN(late));
	faults->rates.jitter = (uint32_t)one_of(rng, jitter, RUNG__ARRAY_LEN(jitter));
	faults->bad_count = (uint32_t)soak_draw(rng, 5);
	for (uint32_t i = 0; i < faults->bad_count; i++)
		faults->bad_ranks[i] = cold_first + soak_draw(rng, cold);
	faults->shaky_count = (uint32_t)soak_draw(rng, 5);
	for (uint32_t i = 0; i < faults->shaky_count; i++)
		faults->shaky_ranks[i] = cold_first + soak_draw(rng, cold);
	if (soak_one_in(rng, 8)) {
		faults->break_at = 1 + soak_draw(rng, 2000);
		faults->refuses = soak_one_in(rng, 2);
	}
}

static void add_up(struct soak_run *run)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };
	uint64_t asked = 0, cold = 0, sum;

	rung_store_stats(run->store, &stats);
	for (unsigned t = 0; t < stats.tier_count; t++) {
		asked += stats.tiers[t].hits;
		if (strcmp(stats.tiers[t].name, "nvme") == 0)
			cold = stats.tiers[t].hits;
	}
	sum = stats.cache_hits + stats.joined_rows + stats.read_rows + stats.duplicate_rows +
	      stats.failed_rows;
	if (cold != sum || asked != run->asked || stats.requests != run->requests ||
	    stats.request_errors < run->failed ||
	    stats.request_errors > run->failed + run->put_early) {
		complain("cold rows", sum, cold);
		complain("requested rows", asked, run->asked);
		complain("requests", stats.requests, run->requests);
		complain("failed requests", stats.request_errors, run->failed);
		totals.wrong_counters++;
	}
	totals.cache_hits += stats.cache_hits;
	totals.joined_rows += stats.joined_rows;
	totals.read_rows += stats.read_rows;
	totals.duplicate_rows += stats.duplicate_rows;
	totals.failed_rows += stats.failed_rows;
	totals.retries += stats.retries;
	totals.merged_rows += stats.merged_rows;
	totals.ahead_rows += stats.ahead_rows;
	totals.device_reads += stats.device_reads;
}

static void end_store(struct soak_run *run)
{
	if (!run->leaves)
		add_up(run);
	else
		totals.closed_in_flight++;
	if (run->attached && rung_store_close(run->attached) != 0)
		totals.failed_closes++;
	if (soak_is_broken()) {
		totals.broken++;
		totals.lost_bytes += run->store->pool.bytes * 2 + run->store->pool.index_bytes;
	}
	if (rung_store_close(run->store) != 0) {
		fprintf(stderr, "soak: store with seed %" PRIu64 ": close: %s\n", run->seed,
		        rung_last_error());
		totals.failed_closes++;
	}
}

static void load_store(struct soak_run *run, uint64_t *rng)
{
	run->threads = 1 + (unsigned)soak_draw(rng, SOAK_THREADS_MAX);
	run->rounds = 20 + soak_draw(rng, 150);
	run->batch_max = 256;
	run->announces = soak_one_in(rng, 2);
	soak_load(run);
}

static void attach(struct soak_run *run, const char *socket_path)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .batch_rows_max = 256,
		                        .read_timeout_ms = 100 };

	need(rung_store_attach(socket_path, &opts, &run->attached), "attach");
	totals.shared++;
}

static void scripted_store(const struct soak_data *data, const char *folder, uint64_t seed)
{
	static const uint64_t aligns[] = { 1, 512, 4096 };
	uint64_t rng = seed;
	struct soak_run run = { .data = data, .seed = seed };
	struct rung_plan *plan = make_plan(data, &rng);
	struct rung_store_opts opts = make_opts(&rng);
	struct soak_faults faults = { .timeout_ns = 0 };
	char socket_path[400];
	bool shared = soak_one_in(&rng, 5);

	script_reset();
	script.align = (uint32_t)one_of(&rng, aligns, RUNG__ARRAY_LEN(aligns));
	script.merge_gap_bytes = opts.merge_gap_bytes == RUNG_MERGE_GAP_NONE ? 0
	                         : opts.merge_gap_bytes                      ? opts.merge_gap_bytes
	                                                                     : 4096;
	script.shuffled = soak_one_in(&rng, 2);
	script.seed = seed;
	opts.read_timeout_ms = 20 + (uint32_t)soak_draw(&rng, 80);
	snprintf(socket_path, sizeof(socket_path), "%s/share/socket", folder);
	opts.share_path = shared ? socket_path : NULL;
	faults.timeout_ns = opts.read_timeout_ms * 1000000ull;
	run.cold_first = cold_first(plan);
	add_faults(&faults, run.cold_first, data->vertices - run.cold_first, &rng);
	run.leaves = soak_one_in(&rng, 10);
	soak_faults_begin(data, &faults, seed);
	need(rung__store_open_over(data->ds, plan, &opts, &script_reader, &run.store), "open");
	if (shared)
		attach(&run, socket_path);
	load_store(&run, &rng);
	end_store(&run);
	rung_plan_destroy(plan);
}

static void device_store(const struct soak_data *data, uint64_t seed)
{
	uint64_t rng = seed;
	struct soak_run run = { .data = data, .seed = seed, .any_error = soak_options.any_error };
	struct rung_plan *plan = make_plan(data, &rng);
	struct rung_store_opts opts = make_opts(&rng);
	struct rung_store_stats stats = { .size = sizeof(stats) };
	int rc;

	opts.engine = soak_one_in(&rng, 2) ? RUNG_ENGINE_PREAD : RUNG_ENGINE_AUTO;
	opts.buffered = soak_options.buffered || (!soak_options.direct && soak_one_in(&rng, 2));
	run.cold_first = cold_first(plan);
	rc = rung_store_open(data->ds, plan, &opts, &run.store);
	/* reading the host tier's rows failed, or the first read */
	if (rc == RUNG_E_IO && soak_options.any_error) {
		totals.refused_opens++;
		rung_plan_destroy(plan);
		return;
	}
	need(rc, "open");
	rung_store_stats(run.store, &stats);
	soak_faults_of_device(data, soak_options.bad, soak_options.bad_count,
	                      stats.direct ? stats.sector_bytes : RUNG__PAGE_BYTES);
	load_store(&run, &rng);
	end_store(&run);
	rung_plan_destroy(plan);
}

/* ---- the run ---- */

static void soak(const char *folder, struct soak_data *data, uint64_t data_count)
{
	uint64_t until_ns = rung__now_ns() + soak_options.seconds * 1000000000u, addresses = 0;

	while (totals.stores < soak_options.stores && rung__now_ns() < until_ns) {
		uint64_t descriptors = count_entries("/proc/self/fd"),
			 threads = count_entries("/proc/self/task");

		store_seed = soak_options.seed;
		if (soak_options.stores != 1)
			store_seed = rung__mix64(soak_options.seed + totals.stores);
		alarm(HANG_S);
		if (soak_options.dataset)
			device_store(data, store_seed);
		else
			scripted_store(&data[rung__mix64(store_seed) % data_count], folder,
			               store_seed);
		if (!becomes("/proc/self/fd", descriptors)) {
			complain("open descriptors", count_entries("/proc/self/fd"), descriptors);
			totals.left_descriptors++;
		}
		/* ThreadSanitizer starts a thread together with the first one */
		if (totals.stores > 0 && !becomes("/proc/self/task", threads)) {
			complain("threads", count_entries("/proc/self/task"), threads);
			totals.left_threads++;
		}
		if (++totals.stores == 20) /* by now the heap has reached its size */
			addresses = address_bytes();
	}
	alarm(0);
	if (addresses && !getenv("RUNG_SANITIZE") &&
	    address_bytes() > addresses + totals.lost_bytes + GROWTH_BYTES) {
		complain("bytes of address space", address_bytes(), addresses);
		totals.wrong_counters++;
	}
}

static void print_count(const char *name, uint64_t value)
{
	printf(" \"%s\": %" PRIu64 ",\n", name, value);
}

static int report(void)
{
	struct soak_counts *c = &soak_counts;
	uint64_t bad = c->wrong_rows + c->unexplained + c->spared +
	               atomic_load(&script.violations) + totals.left_descriptors +
	               totals.left_threads + totals.wrong_counters + totals.failed_closes;

	printf("{\n");
	print_count("seconds", soak_options.seconds);
	print_count("seed", soak_options.seed);
	print_count("stores", totals.stores);
	print_count("refused_opens", totals.refused_opens);
	print_count("shared_stores", totals.shared);
	print_count("broken_stores", totals.broken);
	print_count("closed_in_flight", totals.closed_in_flight);
	print_count("requests", c->requests);
	print_count("rows", c->rows);
	print_count("put_early", c->put_early);
	print_count("cache_hits", totals.cache_hits);
	print_count("joined_rows", totals.joined_rows);
	print_count("read_rows", totals.read_rows);
	print_count("duplicate_rows", totals.duplicate_rows);
	print_count("failed_rows", totals.failed_rows);
	print_count("merged_rows", totals.merged_rows);
	print_count("ahead_rows", totals.ahead_rows);
	print_count("device_reads", totals.device_reads);
	print_count("retries", totals.retries);
	print_count("spoiled_errors", c->errors);
	print_count("spoiled_bad_sectors", c->bad);
	print_count("spoiled_short", c->shorts);
	print_count("spoiled_empty", c->empties);
	print_count("spoiled_late", c->late);
	print_count("failed_by_row", c->failed_by_row);
	print_count("failed_late", c->failed_late);
	print_count("failed_broken", c->failed_broken);
	print_count("wrong_rows", c->wrong_rows);
	print_count("unexplained_failures", c->unexplained);
	print_count("bad_sectors_not_reported", c->spared);
	print_count("violations_of_the_tier", atomic_load(&script.violations));
	print_count("left_descriptors", totals.left_descriptors);
	print_count("left_threads", totals.left_threads);
	print_count("failed_closes", totals.failed_closes);
	print_count("wrong_counters", totals.wrong_counters);
	printf(" \"passed\": %s\n}\n", bad == 0 && totals.stores > 0 ? "true" : "false");
	return bad == 0 && totals.stores > 0 ? 0 : 1;
}

static int soak_scripted(void)
{
	struct soak_data data[RUNG__ARRAY_LEN(row_widths)];
	char folder[200], dir[256];

	if (support_tempdir(folder, sizeof(folder)) < 0) {
		perror("soak: temporary folder");
		return 1;
	}
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(row_widths); i++) {
		snprintf(dir, sizeof(dir), "%s/%u", folder, i);
		if (mkdir(dir, 0700) < 0)
			perror(dir);
		need(support_dataset(dir, VERTICES, EDGES, row_widths[i], 5), "staging");
		snprintf(dir, sizeof(dir), "%s/%u/ds", folder, i);
		if (i % 2)
			need(support_deal(dir, 2 + i, 50), "dealing");
		open_data(&data[i], dir);
	}
	soak(folder, data, RUNG__ARRAY_LEN(row_widths));
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(row_widths); i++)
		close_data(&data[i]);
	support_remove(folder);
	return report();
}

static int soak_device(void)
{
	struct soak_data data;

	open_data(&data, soak_options.dataset);
	soak(NULL, &data, 1);
	close_data(&data);
	return report();
}

int main(int argc, char **argv)
{
	(void)argc;
	soak_parse(argv);
	signal(SIGALRM, hung);
#ifdef __GLIBC__
	/* arenas of threads that have ended would count as address space that stores keep */
	mallopt(M_ARENA_MAX, 2);
#endif
	if (soak_options.make) {
		need(support_dataset(soak_options.make, VERTICES, EDGES, row_widths[0], 5),
		     "staging");
		return 0;
	}
	return soak_options.dataset ? soak_device() : soak_scripted();
}
