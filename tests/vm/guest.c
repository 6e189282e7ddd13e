/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of test_vm.py's virtual machine: every engine on an NVMe disk with one bad sector,
 * through the store and directly.
 *
 *     guest make FOLDER                           on the host: stage the dataset FOLDER/ds
 *     guest check DATASET BLOCK_BYTES BAD_OFFSET  in the machine; offset in the features file
 *
 * Prints one line per check: "ok WHAT" or "FAILED WHAT: …". Exits with 0 if none failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dataset.h"
#include "engine/engine.h"
#include "engine/extents.h"
#include "file/file.h"
#include "plan/plan.h"
#include "rung/rung.h"
#include "store/store.h"
#include "guest_check.h"

#define VERTICES   24000
#define WIDTH      512
#define SEED       5
#define HOST_BYTES (512u << 10) /* nearly every row is cold */
#define ROWS_ALONE 1500         /* read one by one: few, since a machine without KVM is slow */
#define NEIGHBOURS 40           /* rows around the bad sector that are requested together */
#define WAIT_NS    30000000000ull

static const struct engine {
	const char *name;
	enum rung_engine id;
} engines[] = {
	{ "pread", RUNG_ENGINE_PREAD },
	{ "io_uring", RUNG_ENGINE_IO_URING },
	{ "io_uring_poll", RUNG_ENGINE_IO_URING_POLL },
	{ "nvme", RUNG_ENGINE_NVME },
};

static struct rung_dataset *ds;
static struct rung_plan *plan;
static uint64_t *vertex_of_rank;
static uint64_t block_bytes, bad_offset;

static struct rung_store *open_store(enum rung_engine id, int no_merge)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .engine = id,
		                        .no_merge = no_merge,
		                        .requests_max = 2,
		                        .batch_rows_max = VERTICES };
	struct rung_store *store = NULL;

	return rung_store_open(ds, plan, &opts, &store) == 0 ? store : NULL;
}

static struct rung_store_stats stats_of(const struct rung_store *store)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };

	need(rung_store_stats(store, &stats), "statistics");
	return stats;
}

/* ---- rows ---- */

static bool is_bad(uint64_t rank)
{
	/* as ROWS_AT in test_vm.py */
	uint64_t block = rung__align_down(bad_offset, block_bytes), at = 4096 + rank * WIDTH;

	return at < block + block_bytes && at + WIDTH > block;
}

static uint64_t wrong_rows(const uint64_t *ranks, uint64_t count, const unsigned char *rows)
{
	unsigned char row[WIDTH];
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < count; i++) {
		support_row(vertex_of_rank[ranks[i]], WIDTH, row);
		wrong += memcmp(row, rows + i * WIDTH, WIDTH) != 0;
	}
	return wrong;
}

static int gather(struct rung_store *store, const uint64_t *ranks, uint64_t count,
                  unsigned char *rows)
{
	struct rung_ids ids = { ranks, count, RUNG_U64, RUNG_RANKS };

	memset(rows, 0x5a, count * WIDTH);
	return rung_gather(store, &ids, rows, 0);
}

static void check_rows(const struct engine *engine, int no_merge)
{
	struct rung_store *store = open_store(engine->id, no_merge);
	uint64_t *ranks = malloc(VERTICES * sizeof(*ranks)), count = 0, wrong;
	unsigned char *rows = malloc((size_t)VERTICES * WIDTH);
	struct rung_store_stats stats;
	char what[100];
	int rc;

	snprintf(what, sizeof(what), "%s: %s", engine->name,
	         no_merge ? "rows one by one" : "all rows except the bad ones");
	if (!store) {
		check(false, what, "%s", rung_last_error());
	} else {
		for (uint64_t i = 0; i < (no_merge ? ROWS_ALONE : VERTICES); i++) {
			uint64_t rank = i * 7919 % VERTICES;

			if (!is_bad(rank))
				ranks[count++] = rank;
		}
		rc = gather(store, ranks, count, rows);
		wrong = wrong_rows(ranks, count, rows);
		check(rc == 0 && wrong == 0, what, "%d (%s), %llu wrong rows", rc,
		      rc ? rung_last_error() : "", (unsigned long long)wrong);
		stats = stats_of(store);
		snprintf(what, sizeof(what), "%s: statistics", engine->name);
		check(strcmp(stats.engine, engine->name) == 0 && stats.direct &&
		              (stats.merged_rows == 0) == no_merge &&
		              stats.sector_bytes == block_bytes &&
		              strcmp(stats.engine_steps[stats.engine_step_count - 1].name,
		                     engine->name) == 0 &&
		              !stats.engine_steps[stats.engine_step_count - 1].why[0],
		      what, "engine %s, direct %d, sectors of %u bytes, %u steps", stats.engine,
		      stats.direct, stats.sector_bytes, stats.engine_step_count);
		for (uint32_t i = 0; i < stats.engine_part_count; i++)
			check(!stats.engine_parts[i].why[0], stats.engine_parts[i].name, "%s",
			      stats.engine_parts[i].why);
		rung_store_close(store);
	}
	free(rows);
	free(ranks);
}

/* One bad sector fails only the request for a row on it, although the rows were merged into one
 * read. */
static void check_bad_sector(const struct engine *engine)
{
	struct rung_store *store = open_store(engine->id, 0);
	uint64_t middle = (bad_offset - 4096) / WIDTH, ranks[NEIGHBOURS], count = 0;
	unsigned char rows[NEIGHBOURS * WIDTH];
	char what[100];
	int rc;

	snprintf(what, sizeof(what), "%s: a bad sector", engine->name);
	if (!store) {
		check(false, what, "%s", rung_last_error());
		return;
	}
	for (uint64_t i = 0; i < NEIGHBOURS; i++)
		ranks[i] = middle - NEIGHBOURS / 2 + i;
	rc = gather(store, ranks, NEIGHBOURS, rows);
	check(rc == RUNG_E_IO && strstr(rung_last_error(), "row of rank") &&
	              strstr(rung_last_error(), strerror(ENODATA)),
	      what, "%d: %s", rc, rc ? rung_last_error() : "no error");
	for (uint64_t i = 0; i < NEIGHBOURS; i++) {
		if (!is_bad(middle - NEIGHBOURS / 2 + i))
			ranks[count++] = middle - NEIGHBOURS / 2 + i;
	}
	rc = gather(store, ranks, count, rows);
	snprintf(what, sizeof(what), "%s: %llu rows around it", engine->name,
	         (unsigned long long)count);
	check(rc == 0 && count == NEIGHBOURS - block_bytes / WIDTH &&
	              wrong_rows(ranks, count, rows) == 0,
	      what, "%d: %s", rc, rc ? rung_last_error() : "wrong rows");
	rung_store_close(store);
}

/* ---- engines without a store ---- */

static int32_t read_one(const struct rung__engine_ops *ops, struct rung__engine *engine,
                        uint64_t offset, uint32_t bytes)
{
	struct rung__fetch fetch = { .offset = offset, .to = 0, .bytes = bytes, .token = 3 };
	struct rung__fetched fetched = { 0, 0 };

	if (ops->submit(engine, &fetch) != 0 || ops->reap(engine, 1, WAIT_NS, &fetched, 1) != 1 ||
	    fetched.token != 3)
		return INT32_MIN;
	return fetched.result;
}

static void check_borders(const struct rung__engine_ops *ops, struct rung__engine *engine,
                          const struct rung__extents *extents, int fd, const unsigned char *pool)
{
	uint32_t block = (uint32_t)block_bytes;
	unsigned char *expected = aligned_alloc(4096, 8192);
	unsigned wrong = 0;

	check(extents->count > 2, "nvme: the file has several extents", "%llu",
	      (unsigned long long)extents->count);
	for (uint64_t i = 1; i < extents->count; i++) {
		uint64_t offset = extents->list[i].offset - block;
		int32_t got = read_one(ops, engine, offset, 2 * block);

		wrong += got != (int32_t)block ||
		         pread(fd, expected, block, (off_t)offset) != (ssize_t)block ||
		         memcmp(pool, expected, block) != 0;
		got = read_one(ops, engine, offset + block, block);
		wrong += got != (int32_t)block ||
		         pread(fd, expected, block, (off_t)(offset + block)) != (ssize_t)block ||
		         memcmp(pool, expected, block) != 0;
	}
	check(wrong == 0, "nvme: reads end at extent boundaries", "%u do not", wrong);
	free(expected);
}

static void check_edges(const char *path)
{
	const struct rung__engine_ops *ops = &rung__engine_nvme;
	struct rung__engine_args args = { .fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC),
		                          .pool = rung__map_pages(1 << 20),
		                          .pool_bytes = 1 << 20,
		                          .queue_depth = 4 };
	struct rung__engine_report report = { .part_count = 0 };
	struct rung__engine *engine = NULL;
	struct rung__extents extents;
	uint64_t file_bytes, last;
	int rc = rung__extents_load(args.fd, &extents, &report);

	check(rc == 0, "extents", "%d: %s", rc, report.why);
	rc = rc == 0 ? ops->open(&args, &engine, &report) : rc;
	check(rc == 0, "nvme without a store", "%d: %s", rc, report.why);
	if (rc < 0)
		return;
	file_bytes = extents.file_bytes;
	last = rung__align_down(file_bytes - 1, block_bytes);
	check_borders(ops, engine, &extents, args.fd, args.pool);
	check(read_one(ops, engine, last, (uint32_t)block_bytes) == (int32_t)(file_bytes - last),
	      "nvme: a read at the end of the file is short", "not");
	check(read_one(ops, engine, last + block_bytes, (uint32_t)block_bytes) == 0,
	      "nvme: a read past the end is empty", "not");
	check(read_one(ops, engine, 1, (uint32_t)block_bytes) == -EINVAL,
	      "nvme: an offset inside a block is refused", "not");
	check(read_one(ops, engine, 0, (uint32_t)block_bytes / 2) == -EINVAL,
	      "nvme: half a block is refused", "not");
	check(read_one(ops, engine, rung__align_down(bad_offset, block_bytes),
	               (uint32_t)block_bytes) == -ENODATA,
	      "nvme: a bad sector is ENODATA", "not");
	ops->close(engine);
	rung__extents_free(&extents);
	rung__unmap_pages(args.pool, args.pool_bytes);
	close(args.fd);
}

/* ---- refusals ---- */

static void refused(const char *what, const struct rung_store_opts *opts, const char *expected)
{
	struct rung_store *store = NULL;
	int rc = rung_store_open(ds, plan, opts, &store);

	check(rc == RUNG_E_NOSUP && strstr(rung_last_error(), expected), what, "%d: %s", rc,
	      rc ? rung_last_error() : "no error");
	rung_store_close(store);
}

static void check_refusals(void)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .engine = RUNG_ENGINE_NVME,
		                        .buffered = 1 };

	refused("nvme: refuses the page cache", &opts, "page cache");
	opts.buffered = 0;
	unlink("/dev/ng0n1");
	refused("nvme: refuses to run without its device", &opts, "/dev/ng0n1");
	need(mknod("/dev/ng0n1", S_IFCHR | 0600, makedev(1, 5)), "mknod"); /* /dev/zero */
	refused("nvme: refuses another device in its place", &opts, "not the generic device");
}

static int check_everything(const char *dir)
{
	struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts), .host_bytes = HOST_BYTES };
	struct rung_store *store;
	struct rung_store_stats stats;
	char path[300];
	uint64_t count;

	need(rung_dataset_open(dir, &ds), "dataset");
	need(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex_of_rank), "map");
	need(rung_plan_create(ds, &plan_opts, &plan), "plan");
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(engines); i++) {
		check_rows(&engines[i], 0);
		check_rows(&engines[i], 1);
		check_bad_sector(&engines[i]);
	}
	store = open_store(RUNG_ENGINE_AUTO, 0);
	stats = store ? stats_of(store)
	              : (struct rung_store_stats){ .engine = rung_last_error(), .engine_why = "" };
	check(store && strcmp(stats.engine, "io_uring") == 0 && stats.engine_step_count == 3 &&
	              !stats.engine_why[0],
	      "auto is io_uring", "%s, %s", stats.engine, stats.engine_why);
	rung_store_close(store);
	snprintf(path, sizeof(path), "%s/features.000.npy", dir);
	check_edges(path);
	check_refusals();
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
	rung_free(vertex_of_rank);
	return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "make") == 0) {
		need(support_dataset(argv[2], VERTICES, VERTICES * 2, WIDTH, SEED), "staging");
		return 0;
	}
	if (argc != 5 || strcmp(argv[1], "check") != 0) {
		fprintf(stderr,
		        "usage: guest make FOLDER | guest check DATASET BLOCK_BYTES BAD_OFFSET\n");
		return 2;
	}
	block_bytes = strtoull(argv[3], NULL, 10);
	bad_offset = strtoull(argv[4], NULL, 10);
	return check_everything(argv[2]);
}
