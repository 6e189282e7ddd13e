/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses an installed rung. It opens a staged dataset, gathers all rows by vertex id,
 * in descending and ascending order, and compares them with the file that they were staged from.
 *
 *     consumer DATASET ROWS ROW_BYTES FILE      FILE contains the rows without a header
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rung/rung.h>

static int complain(const char *what)
{
	fprintf(stderr, "consumer: %s: %s\n", what, rung_last_error());
	return 1;
}

static int open_missing(void)
{
	struct rung_dataset *ds = NULL;
	int rc = rung_dataset_open("no/such/dataset", &ds);

	if (rc != RUNG_E_NOENT || ds || !strstr(rung_last_error(), "no/such/dataset")) {
		fprintf(stderr, "consumer: opening a missing dataset: %s: '%s'\n",
		        rung_status_name(rc), rung_last_error());
		return 1;
	}
	printf("missing: %s\n", rung_last_error());
	return 0;
}

static unsigned char *read_file(const char *path, size_t bytes)
{
	unsigned char *data = malloc(bytes);
	FILE *file = fopen(path, "rb");

	if (!data || !file || fread(data, 1, bytes, file) != bytes) {
		fprintf(stderr, "consumer: cannot read %lu bytes of %s\n", (unsigned long)bytes,
		        path);
		exit(1);
	}
	fclose(file);
	return data;
}

static int open_store(const char *dir, uint64_t host_bytes, struct rung_store **store_out)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_store_opts store_opts = RUNG_STORE_OPTS_INIT;
	struct rung_dataset *ds;
	struct rung_plan *plan;
	int rc = rung_dataset_open(dir, &ds);

	if (rc < 0)
		return rc;
	plan_opts.host_bytes = host_bytes;
	plan_opts.queue_depth = 16;
	rc = rung_plan_create(ds, &plan_opts, &plan);
	if (rc == 0) {
		store_opts.vertex_ids = 1;
		rc = rung_store_open(ds, plan, &store_opts, store_out);
		rung_plan_destroy(plan);
	}
	rung_dataset_close(ds);
	return rc;
}

static int print_stats(const struct rung_store *store, uint64_t requested)
{
	struct rung_store_stats stats;
	uint64_t hits = 0;
	uint32_t t;

	memset(&stats, 0, sizeof(stats));
	stats.size = sizeof(stats);
	if (rung_store_stats(store, &stats) < 0)
		return complain("stats");
	for (t = 0; t < stats.tier_count; t++) {
		printf("tier %s: %llu hits\n", stats.tiers[t].name,
		       (unsigned long long)stats.tiers[t].hits);
		hits += stats.tiers[t].hits;
		if (stats.tiers[t].hits == 0) {
			fprintf(stderr, "consumer: no row came from tier %s\n",
			        stats.tiers[t].name);
			return 1;
		}
	}
	printf("engine %s\n", stats.engine);
	if (hits != requested) {
		fprintf(stderr, "consumer: %llu hits of %llu rows\n", (unsigned long long)hits,
		        (unsigned long long)requested);
		return 1;
	}
	return 0;
}

static int gather_and_compare(struct rung_store *store, uint64_t rows, size_t row_bytes,
                              const char *path)
{
	unsigned char *truth = read_file(path, (size_t)rows * row_bytes);
	unsigned char *out = malloc((size_t)rows * 2 * row_bytes);
	uint32_t *vertices = malloc((size_t)rows * 2 * sizeof(*vertices));
	struct rung_ids ids;
	uint64_t i, wrong = 0;

	if (!out || !vertices)
		return complain("memory");
	for (i = 0; i < rows; i++) {
		vertices[i] = (uint32_t)(rows - 1 - i);
		vertices[rows + i] = (uint32_t)i;
	}
	ids.data = vertices;
	ids.count = 2 * rows;
	ids.dtype = RUNG_U32;
	ids.space = RUNG_VERTICES;
	if (rung_gather(store, &ids, out, 0) < 0)
		return complain("gather");
	for (i = 0; i < 2 * rows; i++)
		wrong += memcmp(out + i * row_bytes, truth + vertices[i] * row_bytes, row_bytes) !=
		         0;
	printf("%llu rows gathered, %llu wrong\n", (unsigned long long)(2 * rows),
	       (unsigned long long)wrong);
	free(vertices);
	free(out);
	free(truth);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	struct rung_store *store;
	uint64_t rows;
	size_t row_bytes;
	int failed;

	printf("rung %s\n", rung_version());
	if (argc != 5) {
		fprintf(stderr, "usage: consumer DATASET ROWS ROW_BYTES FILE\n");
		return 2;
	}
	rows = strtoull(argv[2], NULL, 10);
	row_bytes = (size_t)strtoull(argv[3], NULL, 10);
	if (open_missing())
		return 1;
	if (open_store(argv[1], rows * row_bytes / 2, &store) < 0)
		return complain(argv[1]);
	failed =
		gather_and_compare(store, rows, row_bytes, argv[4]) || print_stats(store, 2 * rows);
	if (rung_store_close(store) < 0)
		return complain("close");
	return failed;
}
