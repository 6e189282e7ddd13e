/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung numa: print the nodes, CPUs, memory, GPUs and NVMe drives of a machine and the links between
 * them, then measure their rates. With --json the output is the profile that rung plan and rung
 * bench read (docs/PROFILE.md).
 */
#include <errno.h>
#include <string.h>

#include "args/args.h"
#include "numa/numa.h"
#include "output/out_file.h"

/* The limits of the library: values beyond them are wrong usage already here. */
#define ROWS_MAX      64u
#define DEPTH_MAX     128u
#define ROW_BYTES_MIN 4u
#define ROW_BYTES_MAX 1048576u
#define FILES_MAX     64u

struct numa_args {
	int topology;          /* nonzero: nothing is measured */
	const char *root;      /* folder with a recorded machine; NULL: this machine */
	const char *measuring; /* name of a given option that only applies to measuring, or NULL */
	struct rung_numa_measure_opts opts;
	const char *files[FILES_MAX];                   /* [opts.file_count] */
	uint32_t row_bytes[ROWS_MAX], depths[ROWS_MAX]; /* [opts.row_count], [opts.depth_count] */
	int csv;
	const char *svg; /* file to write; NULL: none */
	struct tool_common common;
};

/* A list of matrices to a sum of enum rung_numa_matrix. The names come from the library, so a new
 * matrix is accepted here at once. */
static void set_only(const struct argp_state *state, void *ctx, const char *arg)
{
	struct numa_args *args = ctx;
	uint32_t matrices = 0;

	for (const char *from = arg; *from;) {
		const size_t length = strcspn(from, ",");
		uint32_t found = 0;

		for (uint32_t bit = 1; bit < RUNG_NUMA_ALL; bit <<= 1) {
			const char *name = rung_numa_matrix_name((enum rung_numa_matrix)bit);

			if (strlen(name) == length && strncmp(name, from, length) == 0)
				found = bit;
		}
		/* an unknown name, or a comma at the end of the list */
		if (!found || (from[length] && !from[length + 1]))
			argp_error(state,
			           "--only: '%s' has an unknown value; use bandwidth, latency, "
			           "loaded, gather, gpu, peer, nvme, touch or register",
			           arg);
		matrices |= found;
		from += length + (from[length] != 0);
	}
	if (!matrices)
		argp_error(state,
		           "--only: the list is empty; give names such as bandwidth,latency");
	args->opts.matrices = matrices;
}

static void add_file(const struct argp_state *state, void *ctx, const char *arg)
{
	struct numa_args *args = ctx;

	if (args->opts.file_count == FILES_MAX)
		argp_error(state, "--nvme: too many files; give at most %u", FILES_MAX);
	args->files[args->opts.file_count++] = arg;
}

static void check(const struct argp_state *state, void *ctx)
{
	const struct numa_args *args = ctx;

	if (args->topology && args->measuring)
		argp_error(state,
		           "--%s and --topology exclude each other: --topology measures nothing",
		           args->measuring);
	if (args->root && !args->topology)
		argp_error(state, "--root: a recorded machine cannot be measured; add --topology");
	if (args->csv && args->common.json)
		argp_error(state, "--csv and --json exclude each other; give only one");
	if (args->opts.dir_bytes && !args->opts.dir)
		argp_error(state,
		           "--dir-size needs --dir: it is the size of the file in that folder");
}

#define NOT_BYTES "not a size in bytes; give one such as 2GiB"
/* ends the row of every option that --topology would ignore: the option's name is noted, and
 * check() refuses it */
#define MEASURING TOOL_NOTED(struct numa_args, measuring)

static const struct tool_option options[] = {
	{ "topology", NULL, 1,
	  "Print the topology reported by kernel and firmware, and measure nothing",
	  TOOL_FLAG(struct numa_args, topology) },
	{ "root", "DIR", 1,
	  "With --topology: describe the machine whose sys/ and proc/ are recorded in DIR, instead "
	  "of this one",
	  TOOL_TEXT(struct numa_args, root) },
	{ "quick", NULL, 2,
	  "Use smaller buffers, fewer values and fewer samples: a rough overview in a few seconds",
	  TOOL_FLAG(struct numa_args, opts.quick), MEASURING },
	{ "only", "LIST", 2,
	  "Matrices to measure, separated by commas (default: all): bandwidth, latency, loaded, "
	  "gather, gpu, peer, nvme, touch, register",
	  TOOL_SET(set_only), MEASURING },
	{ "nvme", "FILE", 2,
	  "Large file or block device to read at random (repeatable; default: the NVMe drives that "
	  "this user may read)",
	  TOOL_SET(add_file), MEASURING },
	{ "dir", "DIR", 2, "Folder for a file that is written, read at random and removed",
	  TOOL_TEXT(struct numa_args, opts.dir), MEASURING },
	{ "dir-size", "SIZE", 2,
	  "Size of the file of --dir (default: 2GiB, with --quick 256MiB, at most a quarter of the "
	  "free space)",
	  TOOL_BYTES(struct numa_args, opts.dir_bytes, 1, NOT_BYTES), MEASURING },
	{ "row-bytes", "LIST", 2, "Additional row sizes in bytes, such as 512,1536",
	  TOOL_LIST(struct numa_args, row_bytes, opts.row_count, ROW_BYTES_MIN, ROW_BYTES_MAX),
	  MEASURING, TOOL_OLD("rows") },
	{ "depths", "LIST", 2,
	  "Reads in flight (default: 1 to 128 by doubling, with --quick 1,8,32,128)",
	  TOOL_LIST(struct numa_args, depths, opts.depth_count, 1, DEPTH_MAX), MEASURING },
	{ "samples", "N", 2, "Samples per value (default: 5, with --quick 3)",
	  TOOL_U32(struct numa_args, opts.samples, 1, 1000), MEASURING },
	{ "seconds", "S", 2,
	  "Minimum length of a sample in seconds (default: 0.2, with --quick 0.05)",
	  TOOL_REAL(struct numa_args, opts.sample_seconds, 0, 60, TOOL_OPEN_LOW), MEASURING },
	{ "memory", "SIZE", 2, "Maximum memory to use on a node (default: half of its free memory)",
	  TOOL_BYTES(struct numa_args, opts.memory_bytes_max, 1, NOT_BYTES), MEASURING },
	{ "csv", NULL, 3, "Print the samples as CSV, one line each",
	  TOOL_FLAG(struct numa_args, csv), MEASURING },
	{ "svg", "FILE", 3, "Draw heat maps of the medians to FILE",
	  TOOL_TEXT(struct numa_args, svg), MEASURING },
	{ 0 },
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_common_set, struct numa_args, common),
	{ 0 },
};
const struct tool_command tool_numa_command = {
	.options = options,
	.parts = parts,
	.doc = "Print the NUMA nodes of this machine with their CPUs and memory, the GPUs and NVMe "
	       "drives with their nodes, and the links between them. Measure memory, gathers and "
	       "drives from each node, and GPUs. This takes a minute or two, longer with many "
	       "GPUs, and keeps the machine busy.",
	.check = check,
};

/* The node on which placing a page is tried: of the nodes that this process may use, the one with
 * the most free memory. @return its number, or -1 */
static int node_to_probe(const struct rung_topology *topology)
{
	const struct rung_topology_node *node;
	uint64_t most = 0;
	int best = -1;

	for (size_t i = 0; (node = rung_topology_node(topology, i)) != NULL; i++) {
		if (node->memory_allowed != 0 && node->free_bytes != RUNG_UNKNOWN &&
		    node->free_bytes > most) {
			most = node->free_bytes;
			best = (int)node->node;
		}
	}
	return best;
}

/* Whether mbind() and move_pages() work here: containers often refuse them, which only a trial
 * shows. */
static json_t *policy_json(const struct rung_numa_policy *policy)
{
	json_t *entry = json_object();

	tool_json_set(entry, "can_bind", json_boolean(policy->can_bind));
	tool_json_set(entry, "bind_why",
	              tool_json_text(*policy->bind_why ? policy->bind_why : NULL));
	tool_json_set(entry, "can_query", json_boolean(policy->can_query));
	tool_json_set(entry, "query_why",
	              tool_json_text(*policy->query_why ? policy->query_why : NULL));
	return entry;
}

static void print_policy(const struct rung_numa_policy *policy)
{
	if (policy->can_bind && policy->can_query) {
		printf("\nmemory can be placed on nodes, and its placement can be queried\n");
		return;
	}
	printf("\nmemory %s be placed on nodes%s%s%s\n", policy->can_bind ? "can" : "cannot",
	       *policy->bind_why ? " (" : "", policy->bind_why, *policy->bind_why ? ")" : "");
	printf("its placement %s be queried%s%s%s\n", policy->can_query ? "can" : "cannot",
	       *policy->query_why ? " (" : "", policy->query_why, *policy->query_why ? ")" : "");
}

/*
 * Print topology and results as CSV, JSON or tables; CSV has only the results.
 * @param policy    NULL: nothing could be tried
 * @param measured  NULL: nothing was measured
 * @return an exit code
 */
static int report(const char *name, const struct numa_args *args,
                  const struct rung_topology *topology, const struct rung_numa_policy *policy,
                  const struct numa_measured *measured)
{
	if (args->csv)
		return numa_results_csv(measured) < 0
		               ? tool_error(name, TOOL_FAILED, "the table cannot be written: %s",
		                            strerror(errno))
		               : TOOL_DONE;
	if (args->common.json) {
		json_t *root = json_object();

		tool_json_set(root, "schema", json_integer(NUMA_SCHEMA));
		numa_topology_json(root, topology);
		tool_json_set(root, "placement", policy ? policy_json(policy) : json_null());
		if (measured)
			numa_results_json(root, measured);
		return tool_json_print(name, root) < 0 ? TOOL_FAILED : TOOL_DONE;
	}
	if (numa_topology_print(topology) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the tables");
	if (policy)
		print_policy(policy);
	if (measured && numa_results_print(measured) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the tables");
	return TOOL_DONE;
}

/* Write the heat maps of --svg; nothing without it. @return an exit code */
static int draw(const char *name, const struct numa_measured *measured, struct tool_out *svg)
{
	if (!svg->path)
		return TOOL_DONE;
	if (numa_results_svg(measured, svg->file) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the heat maps");
	return tool_out_commit(svg);
}

/* Measure and report. @return an exit code */
static int measure(const char *name, struct numa_args *args, const struct rung_topology *topology,
                   const struct rung_numa_policy *policy)
{
	struct numa_measured measured = { .topology = topology,
		                          .info = { .size = sizeof(measured.info) } };
	struct tool_progress progress;
	struct rung_numa_report *numa_report;
	struct rung_topology_info info = { .size = sizeof(info) };
	struct tool_out svg;
	/* before measuring, so that a wrong path does not cost minutes */
	int code = tool_out_open(name, args->svg, &svg), rc;

	if (code != TOOL_DONE)
		return code;
	tool_progress_init(&progress, name, args->common.quiet);
	args->opts.threads_max = args->common.threads;
	args->opts.files = args->files;
	args->opts.row_bytes = args->row_bytes; /* in addition to the library's sizes */
	if (args->opts.depth_count)             /* instead of its depths */
		args->opts.depths = args->depths;
	args->opts.progress = tool_progress_update;
	args->opts.progress_ctx = &progress;
	rc = rung_numa_measure(topology, &args->opts, &numa_report);
	tool_progress_end(&progress);
	if (rc < 0) {
		tool_out_abandon(&svg);
		return tool_fail(name, rc);
	}
	rung_topology_info(topology, &info);
	rung_numa_report_info(numa_report, &measured.info);
	measured.report = numa_report;
	measured.node_count = info.node_count;
	code = report(name, args, topology, policy, &measured);
	if (code == TOOL_DONE)
		code = draw(name, &measured, &svg);
	/* some values may be absent from a report, but a report without any value is not a
	 * success */
	if (code == TOOL_DONE && !numa_any_value(numa_report, RUNG_NUMA_ALL))
		code = TOOL_NO_HARDWARE;
	tool_out_abandon(&svg);
	rung_numa_report_destroy(numa_report);
	return code;
}

int cmd_numa(int argc, char **argv)
{
	struct numa_args args = { .opts = RUNG_NUMA_MEASURE_OPTS_INIT };
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	const struct rung_numa_policy *tried;
	struct rung_topology *topology;
	int rc, node, code;

	tool_args_parse(&tool_numa_command, argc, argv, &args);
	rc = rung_topology_load(args.root, &topology);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	node = args.root ? -1
	                 /* placing a page cannot be tried on a recorded machine */
	                 : node_to_probe(topology);
	if (node >= 0)
		rc = rung_numa_probe_policy((uint32_t)node, &policy);
	tried = node >= 0 ? &policy : NULL;
	if (rc < 0)
		code = tool_fail(argv[0], rc);
	else
		code = args.topology ? report(argv[0], &args, topology, tried, NULL)
		                     : measure(argv[0], &args, topology, tried);
	rung_topology_destroy(topology);
	return code;
}
