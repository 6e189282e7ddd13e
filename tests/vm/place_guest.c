/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of test_place.py's virtual machines: stores whose memory and threads are placed on
 * nodes, checked page by page.
 *
 *     place_guest make FOLDER                   on the host: stage the dataset FOLDER/ds
 *     place_guest check DATASET DRIVE ORDER     in the machine
 *
 * DRIVE is the node of the drive, ORDER the other nodes by distance from it: "0,3,2".
 *
 * Prints one line per check: "ok WHAT" or "FAILED WHAT: …". Exits with 0 if none failed.
 */
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <unistd.h>
#include <sys/mman.h>

#include "dataset.h"
#include "plan/plan.h"
#include "rung/rung.h"
#include "store/store.h"
#include "guest_check.h"

#define VERTICES  48000
#define WIDTH     512
#define SEED      6
#define ALL_BYTES ((uint64_t)VERTICES * WIDTH)
/* host memory for slots, cache and some rows; the rest is cold */
#define SOME_BYTES (ALL_BYTES / 4 * 3)
#define NODES_MAX  8
/* left free on the drive's node once it is filled, in addition to the planner's reserve: for slots,
 * cache and some rows */
#define LEFT_BYTES      (10ull << 20)
#define NEXT_LEFT_BYTES (6ull << 20) /* the same for the next node, if there is a third */
#define WANTED          0.99         /* share of pages that must be on their planned node */

static struct rung_dataset *ds;
static struct rung_topology *topology;
static uint64_t *vertex_of_rank;
static uint32_t drive;
static uint32_t order[NODES_MAX], order_count; /* the drive's node, then the others by distance */

/* ---- the machine ---- */

static const struct rung_topology_node *node_of(uint32_t number)
{
	const struct rung_topology_node *node = NULL;

	for (size_t n = 0; (node = rung_topology_node(topology, n)) != NULL && node->node != number;
	     n++)
		;
	return node;
}

static void reload(void)
{
	rung_topology_destroy(topology);
	need(rung_topology_load("", &topology), "topology");
}

static uint64_t free_on(uint32_t number)
{
	reload();
	return node_of(number)->available_bytes;
}

/* Restrict this process to the CPUs of one node, which determines its near nodes; NODES_MAX: all
 * CPUs. */
static void run_on(uint32_t number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	reload();
	for (uint32_t i = 0; i < NODES_MAX; i++) {
		const struct rung_topology_node *node = node_of(i);

		for (uint32_t c = 0;
		     node && (number == i || number == NODES_MAX) && c < node->cpus.count; c++)
			CPU_SET(node->cpus.ids[c], &set);
	}
	check(sched_setaffinity(0, sizeof(set), &set) == 0, "CPUs", "sched_setaffinity");
}

/* Allocate memory of a node until only `left` bytes of it are available. */
static void *fill(uint32_t number, uint64_t left, uint64_t *bytes_out)
{
	uint64_t bytes = rung__align_down(free_on(number) - left, RUNG__PAGE_BYTES);
	unsigned char *memory = rung__map_pages(bytes);
	struct rung__placement placement;

	rung__placement_on(number, bytes, &placement);
	check(memory && rung__placement_bind(memory, &placement) == 0, "filling a node",
	      "no memory");
	rung__placement_touch(memory, bytes);
	*bytes_out = bytes;
	return memory;
}

/* ---- pages ---- */

/* Count pages that are on another node than the placement has, independently of the store. */
static void check_pages(const char *what, unsigned char *at, const struct rung_placement *placement)
{
	uint64_t pages = placement->bytes / 4096, wrong = 0;
	char text[100];

	for (uint64_t p = 0; p < pages; p++) {
		void *page = at + p * 4096;
		int node = -1;
		uint32_t wanted =
			placement->nodes
				.ids[p * 4096 / placement->block_bytes % placement->nodes.count];

		(void)*(volatile unsigned char *)page;
		move_pages(0, 1, &page, NULL, &node, 0);
		wrong += node != (int)wanted;
	}
	snprintf(text, sizeof(text), "%s: pages of %s are on node %u", what, placement->name,
	         placement->nodes.ids[0]);
	check((double)wrong <= (1 - WANTED) * (double)pages, text, "%llu of %llu pages are not",
	      (unsigned long long)wrong, (unsigned long long)pages);
}

static struct rung_plan *plan_for(enum rung_numa numa, uint32_t node, uint64_t host_bytes)
{
	struct rung_plan_opts opts = {
		.size = sizeof(opts), .host_bytes = host_bytes, .numa = numa, .numa_node = node
	};
	struct rung_plan *plan = NULL;

	need(rung_plan_create(ds, &opts, &plan), "plan");
	return plan;
}

/* The store's statistics must agree with the plan and with the pages. */
static void check_store(const char *what, const struct rung_plan *plan,
                        const struct rung_store *store)
{
	struct rung_store_stats stats = { .size = sizeof(stats) };
	unsigned char *host = (unsigned char *)store->host_view.base, *slots = store->pool.base,
		      *frames = slots + store->pool.frames_at;
	const struct rung_placement *placement;
	uint32_t i = 0;

	need(rung_store_stats(store, &stats), "statistics");
	for (; (placement = rung_plan_placement(plan, i)) != NULL; i++) {
		const struct rung_store_placement *got = &stats.placements[i];
		unsigned char **at = strcmp(placement->name, "host") == 0    ? &host
		                     : strcmp(placement->name, "slots") == 0 ? &slots
		                                                             : &frames;

		check(i < stats.placement_count && got->placement.bytes == placement->bytes &&
		              got->placement.rank_first == placement->rank_first &&
		              placement->nodes.count > 0 &&
		              got->placement.nodes.count == placement->nodes.count &&
		              got->placement.nodes.ids[0] == placement->nodes.ids[0],
		      what, "placement %u is not as planned (%s)", i,
		      rung_plan_placement_why(plan));
		if (i >= stats.placement_count || placement->nodes.count == 0)
			return;
		check(got->node_share >= WANTED && !got->why[0], what,
		      "%s: %.3f of the pages are on node %u; %s", placement->name, got->node_share,
		      placement->nodes.ids[0], got->why);
		check(got->huge_share >= 0 && got->huge_share <= 1, what, "%s: %f in huge pages",
		      placement->name, got->huge_share);
		check_pages(what, *at, placement);
		*at += placement->bytes;
	}
	check(i == stats.placement_count && i > 0, what, "%u placements, %u planned",
	      stats.placement_count, i);
}

/* ---- threads ---- */

static bool is_refill(const char *task)
{
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	return strcmp(name, "rung-refill\n") == 0;
}

/* The CPUs that a task may run on, as the kernel lists them, and the CPU it ran on last. */
static void check_task(const char *task, char allowed[64], int *cpu_out)
{
	char path[300], line[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Cpus_allowed_list: %63s", allowed);
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task);
	file = fopen(path, "re");
	if (file && fgets(line, sizeof(line), file)) {
		char *at = strrchr(line, ')');

		for (unsigned field = 2; at && field < 39; field++)
			at = strchr(at + 1, ' ');
		*cpu_out = at ? atoi(at) : -1;
	}
	if (file)
		fclose(file);
}

static void check_refill(const char *what)
{
	const struct rung_topology_node *node = node_of(drive);
	DIR *tasks = opendir("/proc/self/task");
	unsigned found = 0;

	for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
		char allowed[64] = "", wanted[64];
		bool on_node = false;
		int cpu = -1;

		if (!is_refill(entry->d_name))
			continue;
		found++;
		check_task(entry->d_name, allowed, &cpu);
		for (uint32_t c = 0; c < node->cpus.count; c++)
			on_node |= (int)node->cpus.ids[c] == cpu;
		snprintf(wanted, sizeof(wanted), node->cpus.count > 1 ? "%u-%u" : "%u",
		         node->cpus.ids[0], node->cpus.ids[node->cpus.count - 1]);
		check(strcmp(allowed, wanted) == 0 && on_node, what,
		      "the refill thread may run on %s and was on %d; the drive's node has %s",
		      allowed, cpu, wanted);
	}
	closedir(tasks);
	check(found == 1, what, "%u refill threads", found);
}

static void check_rows(const char *what, struct rung_store *store)
{
	uint64_t count = 4000, *ranks = malloc(count * sizeof(*ranks)), wrong = 0;
	unsigned char *rows = malloc((size_t)count * WIDTH), row[WIDTH];
	struct rung_ids ids = { ranks, count, RUNG_U64, RUNG_RANKS };

	for (uint64_t i = 0; i < count; i++)
		ranks[i] = i * 7919 % VERTICES;
	need(rung_gather(store, &ids, rows, 0), what);
	for (uint64_t i = 0; i < count; i++) {
		support_row(vertex_of_rank[ranks[i]], WIDTH, row);
		wrong += memcmp(row, rows + i * WIDTH, WIDTH) != 0;
	}
	check(wrong == 0, what, "%llu wrong rows", (unsigned long long)wrong);
	free(rows);
	free(ranks);
}

/* ---- checks ---- */

static void check_opened(const char *what, const struct rung_plan *plan, const char *share_path)
{
	struct rung_store_opts opts = { .size = sizeof(opts),
		                        .requests_max = 2,
		                        .batch_rows_max = 4096,
		                        .share_path = share_path };
	struct rung_store *store = NULL, *attached = NULL;

	need(rung_store_open(ds, plan, &opts, &store), what);
	check_store(what, plan, store);
	check_rows(what, store);
	check_refill(what);
	if (share_path) {
		opts.share_path = NULL;
		need(rung_store_attach(share_path, &opts, &attached), "attaching");
		check_store("an attached store", plan, attached);
		check_rows("an attached store", attached);
		rung_store_close(attached);
	}
	rung_store_close(store);
}

static void check_refused(const struct rung_plan *plan)
{
	struct rung_store *store = NULL;
	int rc = rung_store_open(ds, plan, NULL, &store);
	char words[32];

	snprintf(words, sizeof(words), "NUMA node %u: ", drive);
	check(rc == RUNG_E_NOMEM && strstr(rung_last_error(), words),
	      "a node that is too small is an error", "%d: %s", rc,
	      rc ? rung_last_error() : "no error");
	rung_store_close(store);
}

static void check_near_first(void)
{
	struct rung_plan *plan;
	const struct rung_placement *placement;
	uint64_t filled, next_filled = 0, rank = 0;
	uint32_t i = 0;
	void *memory, *next = NULL;

	run_on(drive);
	memory = fill(drive, node_of(drive)->total_bytes / 16 + LEFT_BYTES, &filled);
	if (order_count > 2)
		next = fill(order[1], node_of(order[1])->total_bytes / 16 + NEXT_LEFT_BYTES,
		            &next_filled);
	plan = plan_for(RUNG_NUMA_AUTO, 0, SOME_BYTES);
	for (; (placement = rung_plan_placement(plan, i)) != NULL &&
	       strcmp(placement->name, "host") == 0;
	     i++) {
		check(i < order_count && placement->nodes.count == 1 &&
		              placement->nodes.ids[0] == order[i] && placement->rank_first == rank,
		      "near nodes come first", "placement %u is on node %u", i,
		      placement->nodes.count ? placement->nodes.ids[0] : 999);
		rank += placement->row_count;
	}
	check(i >= RUNG__MIN(order_count, 3u), "rows without room go to the next node",
	      "%u placements", i);
	check(rank == rung_plan_tier(plan, 0)->row_count, "all rows have a place", "%llu",
	      (unsigned long long)rank);
	check_opened("near first", plan, NULL);
	rung_plan_destroy(plan);

	/* the drive's node has no room for all rows */
	plan = plan_for(RUNG_NUMA_NODE, drive, RUNG_BYTES_MAX);
	check_refused(plan);
	rung_plan_destroy(plan);
	rung__unmap_pages(memory, filled);
	rung__unmap_pages(next, next_filled);
	run_on(NODES_MAX);
}

static void check_modes(void)
{
	struct rung_plan *plan = plan_for(RUNG_NUMA_AUTO, 0, SOME_BYTES);
	const struct rung_placement *placement = rung_plan_placement(plan, 0);

	check(placement->nodes.count > 1, "near CPUs on several nodes share the rows", "%u nodes",
	      placement->nodes.count);
	check_opened("shared by CPUs", plan, "/run/rung/socket");
	rung_plan_destroy(plan);
	plan = plan_for(RUNG_NUMA_INTERLEAVE, 0, SOME_BYTES);
	check(rung_plan_placement(plan, 0)->nodes.count == order_count, "interleave uses all nodes",
	      "%u", rung_plan_placement(plan, 0)->nodes.count);
	check_opened("interleave", plan, NULL);
	rung_plan_destroy(plan);
	plan = plan_for(RUNG_NUMA_NODE, order[1], SOME_BYTES);
	check_opened("on a chosen node", plan, NULL);
	rung_plan_destroy(plan);
	plan = plan_for(RUNG_NUMA_NONE, 0, SOME_BYTES);
	check(rung_plan_placement(plan, 0)->nodes.count == 0 && rung_plan_placement_why(plan)[0],
	      "none places nothing", "it does");
	rung_plan_destroy(plan);
}

/* Policies as numactl sets them. */
static void check_policies(void)
{
	unsigned long one = 1ul << order[1], two = one | 1ul << drive;
	struct rung_plan *plan;

	check(set_mempolicy(MPOL_INTERLEAVE, &two, 64) == 0, "setting a policy", "set_mempolicy");
	plan = plan_for(RUNG_NUMA_AUTO, 0, SOME_BYTES);
	check(rung_plan_placement(plan, 0)->nodes.count == 0 &&
	              strstr(rung_plan_placement_why(plan), "has a memory policy"),
	      "an existing policy is respected", "%s", rung_plan_placement_why(plan));
	rung_plan_destroy(plan);
	check(set_mempolicy(MPOL_BIND, &two, 64) == 0, "binding to nodes", "set_mempolicy");
	plan = plan_for(RUNG_NUMA_INTERLEAVE, 0, SOME_BYTES);
	check(rung_plan_placement(plan, 0)->nodes.count == 2, "an existing binding is kept",
	      "%u nodes", rung_plan_placement(plan, 0)->nodes.count);
	rung_plan_destroy(plan);
	set_mempolicy(MPOL_DEFAULT, NULL, 0);
}

static int check_everything(const char *dir)
{
	uint64_t count;
	int32_t node = -1;
	FILE *file;

	need(rung_dataset_open(dir, &ds), "dataset");
	need(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertex_of_rank), "map");
	reload();
	file = fopen(dir, "re");
	need(rung__placement_drive(topology, file ? fileno(file) : -1, &node), "drive");
	if (file)
		fclose(file);
	check(node == (int32_t)drive, "the drive's node is found", "%d", node);
	check_near_first();
	check_modes();
	check_policies();
	rung_topology_destroy(topology);
	rung_dataset_close(ds);
	rung_free(vertex_of_rank);
	return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "make") == 0) {
		need(support_dataset(argv[2], VERTICES, VERTICES, WIDTH, SEED), "staging");
		return 0;
	}
	if (argc != 5 || strcmp(argv[1], "check") != 0) {
		fprintf(stderr,
		        "usage: place_guest make FOLDER | place_guest check DATASET DRIVE ORDER\n");
		return 2;
	}
	drive = (uint32_t)strtoul(argv[3], NULL, 10);
	order[order_count++] = drive;
	for (char *at = argv[4]; *at && order_count < NODES_MAX; at += *at == ',')
		order[order_count++] = (uint32_t)strtoul(at, &at, 10);
	return check_everything(argv[2]);
}
