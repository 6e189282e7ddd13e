/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of test_remote.py's virtual machine: datasets on a mount of a drive of another
 * machine.
 *
 *     remote_guest make FOLDER                     on the host: stage the dataset FOLDER/ds
 *     remote_guest outage DATASET MS TEXT [COUNT]  compare every row before and after an outage
 *     remote_guest removed DATASET FILE            remove the drive through FILE
 *
 * "outage" prints "stop the target" and "start the target" for the script on the host. In between
 * it waits until a gather fails, whose message must contain TEXT. Reads fail after MS
 * milliseconds. COUNT rows, the hottest, are on another drive, and are gathered in between.
 *
 * Prints one line per check: "ok WHAT" or "FAILED WHAT: ...". Exits with 0 if none failed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dataset.h"
#include "rung/rung.h"
#include "guest_check.h"

#define VERTICES   4000
#define WIDTH      512
#define SEED       5
#define HOST_BYTES (256u << 10) /* nearly every row is cold */
#define BATCH      500
#define OUTAGE_S   60 /* until a gather fails, and until gathers succeed again */

static struct rung_dataset *ds;
static struct rung_plan *plan;
static struct rung_store *store;
static uint64_t *vertex_of_rank;
static unsigned char rows[BATCH * WIDTH];

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void open_store(const char *dir, uint32_t timeout_ms)
{
	struct rung_plan_opts plan_opts = { .size = sizeof(plan_opts), .host_bytes = HOST_BYTES };
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 2,
		                        .batch_rows_max = BATCH,
		                        .read_timeout_ms = timeout_ms };
	uint64_t count;

	need(rung_dataset_open(dir, &ds), "dataset");
	need(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex_of_rank), "map");
	need(rung_plan_create(ds, &plan_opts, &plan), "plan");
	need(rung_store_open(ds, plan, &opts, &store), "store");
}

static void close_store(void)
{
	rung_store_close(store);
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
	rung_free(vertex_of_rank);
}

/* Gather the rows of the ranks first, first + step, ... below `end`, at most a batch, and count
 * those that are wrong. @return a status */
static int gather(uint64_t first, uint64_t step, uint64_t end, uint64_t *wrong)
{
	static uint64_t ranks[BATCH];
	unsigned char row[WIDTH];
	struct rung_ids ids = { ranks, 0, RUNG_U64, RUNG_RANKS };
	int rc;

	for (uint64_t rank = first; rank < end && ids.count < BATCH; rank += step)
		ranks[ids.count++] = rank;
	memset(rows, 0x5a, sizeof(rows));
	rc = rung_gather(store, &ids, rows, 0);
	for (uint64_t i = 0; i < ids.count && rc == 0; i++) {
		support_row(vertex_of_rank[ranks[i]], WIDTH, row);
		*wrong += memcmp(row, rows + i * WIDTH, WIDTH) != 0;
	}
	return rc;
}

/* Compare the rows of all ranks below `end`. */
static void check_rows(const char *what, uint64_t end)
{
	const uint64_t step = (end + BATCH - 1) / BATCH;
	uint64_t wrong = 0;
	int rc = 0;

	for (uint64_t first = 0; first < step && rc == 0; first++)
		rc = gather(first, step, end, &wrong);
	check(rc == 0 && wrong == 0, what, "%d (%s), %llu wrong rows", rc,
	      rc ? rung_last_error() : "", (unsigned long long)wrong);
}

/* Gather until a gather fails or succeeds, as wanted, or too much time has passed.
 * @return the last status */
static int gather_until(bool failed, const char *what, uint64_t *wrong)
{
	const double start = now_s();
	double longest = 0;
	uint64_t count = 0;
	int rc;

	do {
		const double begin = now_s();

		rc = gather(count++ % 8, 8, VERTICES, wrong);
		longest = now_s() - begin > longest ? now_s() - begin : longest;
		if ((rc < 0) != failed)
			usleep(100000);
	} while ((rc < 0) != failed && now_s() - start < OUTAGE_S);
	printf("%s: %.1f s, %llu gathers, the longest %.1f s%s%s\n", what, now_s() - start,
	       (unsigned long long)count, longest, rc < 0 ? ": " : "",
	       rc < 0 ? rung_last_error() : "");
	return rc;
}

/* Loading a map that is not in the page cache fails as well. */
static void check_load(void)
{
	uint64_t *map = NULL, count;
	int rc = rung_dataset_load_ids(ds, "rank_of_vertex", &count, &map);

	check(rc == RUNG_E_IO && strstr(rung_last_error(), " (on /"), "loading a map fails",
	      "%d (%s)", rc, rc ? rung_last_error() : "");
	rung_free(map);
}

static void outage(const char *text, uint64_t near_rows)
{
	uint64_t wrong = 0;
	int rc;

	check_rows("rows before the outage", VERTICES);
	puts("stop the target");
	rc = gather_until(true, "until a gather failed", &wrong);
	check(rc == RUNG_E_IO && strstr(rung_last_error(), text), "a gather fails", "%d (%s)", rc,
	      rc ? rung_last_error() : "");
	if (near_rows)
		check_rows("rows on the other drive during the outage", near_rows);
	else if (strstr(text, strerror(EIO))) /* where the target is silent, it takes 15 s */
		check_load();
	puts("start the target");
	rc = gather_until(false, "until a gather succeeded", &wrong);
	check(rc == 0 && wrong == 0, "the open store continues", "%d (%s), %llu wrong rows", rc,
	      rc ? rung_last_error() : "", (unsigned long long)wrong);
	check_rows("rows after the outage", VERTICES);
}

/* Write to the file "delete_controller" of the drive. The dataset cannot be read after that. */
static void removed(const char *path)
{
	FILE *file = fopen(path, "w");
	uint64_t wrong = 0;
	int rc;

	need(gather(0, 8, VERTICES, &wrong), "gather");
	need(file && fputs("1", file) >= 0 && fclose(file) == 0 ? 0 : -1, path);
	rc = gather(0, 8, VERTICES, &wrong);
	printf("after the drive was removed: %s\n", rc ? rung_last_error() : "");
	check(rc == RUNG_E_IO && strstr(rung_last_error(), " (on /far, ext4 /dev/nvme1n1): ") &&
	              strstr(rung_last_error(), "; its drive was removed: "),
	      "the message names the removed drive", "%d", rc);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "make") == 0) {
		need(support_dataset(argv[2], VERTICES, VERTICES * 2, WIDTH, SEED), "staging");
		return 0;
	}
	if ((argc == 5 || argc == 6) && strcmp(argv[1], "outage") == 0) {
		open_store(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
		outage(argv[4], argc == 6 ? strtoull(argv[5], NULL, 10) : 0);
	} else if (argc == 4 && strcmp(argv[1], "removed") == 0) {
		open_store(argv[2], 0);
		removed(argv[3]);
	} else {
		fprintf(stderr, "usage: remote_guest make FOLDER | outage DATASET MS TEXT [COUNT] "
		                "| removed DATASET FILE\n");
		return 2;
	}
	close_store();
	return failures ? 1 : 0;
}
