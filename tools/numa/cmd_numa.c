/* SPDX-License-Identifier: Apache-2.0 */
/* rung numa: nodes, CPUs, memory, GPUs and NVMe drives of a machine, and how far they are from each other. */
#include <errno.h>
#include <string.h>

#include "numa/numa.h"
#include "output/out_file.h"

enum { KEY_TOPOLOGY = 0x1001, KEY_ROOT, KEY_QUICK, KEY_ONLY, KEY_NVME, KEY_DIR, KEY_DIR_SIZE, KEY_ROWS, KEY_DEPTHS, KEY_SAMPLES, KEY_SECONDS, KEY_MEMORY, KEY_CSV, KEY_SVG };

#define ROWS_MAX 64u         /* as in the library, like all of these */
#define DEPTH_MAX 128u
#define ROW_BYTES_MIN 4u
#define ROW_BYTES_MAX 1048576u
#define FILES_MAX 64u

struct numa_args {
	int topology;            /* nothing is measured */
	const char *root;        /* NULL: this machine */
	const char *measuring;   /* an option given that only measuring makes use of, as typed; NULL: none */
	struct rung_numa_measure_opts opts;
	const char *files[FILES_MAX];
	uint32_t row_bytes[ROWS_MAX], depths[ROWS_MAX];
	int csv;
	const char *svg;
	struct tool_common common;
};

static const struct argp_option options[] = {
	{ "topology", KEY_TOPOLOGY, NULL, 0, "Print what the kernel and the firmware say, and measure nothing", 1 },
	{ "root", KEY_ROOT, "DIR", 0, "With --topology: of a machine whose sys/ and proc/ are recorded in DIR, not of this one", 1 },
	{ "quick", KEY_QUICK, NULL, 0, "Smaller buffers, fewer values and samples: some seconds, to see what is there", 2 },
	{ "only", KEY_ONLY, "LIST", 0, "What to measure (default: all), separated by commas: bandwidth, latency, loaded, gather, gpu, peer, nvme, touch, register", 2 },
	{ "nvme", KEY_NVME, "FILE", 0, "Read this large file at random, or this block device; may be repeated (default: the NVMe drives that may be read)", 2 },
	{ "dir", KEY_DIR, "DIR", 0, "The same with a file that is written to DIR and removed", 2 },
	{ "dir-size", KEY_DIR_SIZE, "SIZE", 0, "Size of that file (default: 2GiB, with --quick 256MiB, at most a quarter of what is free)", 2 },
	{ "rows", KEY_ROWS, "LIST", 0, "Rows of so many bytes as well: 512,1536", 2 },
	{ "depths", KEY_DEPTHS, "LIST", 0, "Reads in flight (default: 1 to 128 by doubling, with --quick 1,8,32,128)", 2 },
	{ "samples", KEY_SAMPLES, "N", 0, "Of each value (default: 5, with --quick 3)", 2 },
	{ "seconds", KEY_SECONDS, "S", 0, "Least length of a sample (default: 0.2, with --quick 0.05)", 2 },
	{ "memory", KEY_MEMORY, "SIZE", 0, "To take of a node at most (default: half of what it has free)", 2 },
	{ "csv", KEY_CSV, NULL, 0, "Print the samples as a table for programs", 3 },
	{ "svg", KEY_SVG, "FILE", 0, "Draw heat maps of the medians", 3 },
	{ 0 },
};

static uint32_t parse_only(const struct argp_state *state, const char *arg)
{
	uint32_t matrices = 0;

	for (const char *from = arg; *from;) {
		const size_t length = strcspn(from, ",");
		uint32_t found = 0;

		for (uint32_t bit = 1; bit < RUNG_NUMA_ALL; bit <<= 1) {
			const char *name = rung_numa_matrix_name((enum rung_numa_matrix)bit);

			if (strlen(name) == length && strncmp(name, from, length) == 0)
				found = bit;
		}
		if (!found || (from[length] && !from[length + 1]))
			argp_error(state, "--only: '%s' is no list of bandwidth, latency, loaded, gather, gpu, peer, nvme, touch and register", arg);
		matrices |= found;
		from += length + (from[length] != 0);
	}
	if (!matrices)
		argp_error(state, "--only: name what to measure, such as bandwidth,latency");
	return matrices;
}

static uint64_t parse_bytes(const struct argp_state *state, const char *option, const char *arg)
{
	const struct tool_size size = tool_arg_size(state, option, arg);

	if (size.share >= 0 || size.bytes == RUNG_BYTES_MAX || size.bytes == 0)
		argp_error(state, "%s: '%s' is no size in bytes; write 2GiB", option, arg);
	return size.bytes;
}

static error_t parse_measuring(int key, char *arg, struct argp_state *state, struct numa_args *args)
{
	switch (key) {
	case KEY_QUICK:
		args->opts.quick = 1;
		args->measuring = "--quick";
		return 0;
	case KEY_ONLY:
		args->opts.matrices = parse_only(state, arg);
		args->measuring = "--only";
		return 0;
	case KEY_NVME:
		if (args->opts.file_count == FILES_MAX)
			argp_error(state, "--nvme: more than %u files", FILES_MAX);
		args->files[args->opts.file_count++] = arg;
		args->measuring = "--nvme";
		return 0;
	case KEY_DIR:
		args->opts.dir = arg;
		args->measuring = "--dir";
		return 0;
	case KEY_DIR_SIZE:
		args->opts.dir_bytes = parse_bytes(state, "--dir-size", arg);
		args->measuring = "--dir-size";
		return 0;
	case KEY_ROWS:
		args->opts.row_count = tool_arg_u32s(state, "--rows", arg, ROW_BYTES_MIN, ROW_BYTES_MAX, args->row_bytes, ROWS_MAX);
		args->measuring = "--rows";
		return 0;
	case KEY_DEPTHS:
		args->opts.depth_count = tool_arg_u32s(state, "--depths", arg, 1, DEPTH_MAX, args->depths, ROWS_MAX);
		args->opts.depths = args->depths;
		args->measuring = "--depths";
		return 0;
	case KEY_SAMPLES:
		args->opts.samples = tool_arg_u32(state, "--samples", arg, 1, 1000);
		args->measuring = "--samples";
		return 0;
	case KEY_SECONDS:
		args->opts.sample_seconds = tool_arg_double(state, "--seconds", arg, 0, 60, TOOL_OPEN_LOW);
		args->measuring = "--seconds";
		return 0;
	case KEY_MEMORY:
		args->opts.memory_bytes_max = parse_bytes(state, "--memory", arg);
		args->measuring = "--memory";
		return 0;
	case KEY_CSV:
		args->csv = 1;
		args->measuring = "--csv";
		return 0;
	case KEY_SVG:
		args->svg = arg;
		args->measuring = "--svg";
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void check(const struct argp_state *state, const struct numa_args *args)
{
	if (args->topology && args->measuring)
		argp_error(state, "%s is of measuring, and --topology measures nothing", args->measuring);
	if (args->root && !args->topology)
		argp_error(state, "--root is a machine that is not here: it can be shown (--topology), not measured");
	if (args->csv && args->common.json)
		argp_error(state, "--csv and --json: give one of them");
	if (args->opts.dir_bytes && !args->opts.dir)
		argp_error(state, "--dir-size is of the file that --dir writes");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct numa_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->common;
		return 0;
	case KEY_TOPOLOGY:
		args->topology = 1;
		return 0;
	case KEY_ROOT:
		args->root = arg;
		return 0;
	case ARGP_KEY_END:
		check(state, args);
		return 0;
	default:
		return parse_measuring(key, arg, state, args);
	}
}

static const struct argp_child children[] = { { &tool_common_argp, 0, NULL, 0 }, { 0 } };
static const struct argp numa_argp = {
	.options = options,
	.parser = parse,
	.doc = "Print the NUMA nodes of this machine, their CPUs and memory, the GPUs and NVMe drives, at which nodes they are, and what lies "
	       "between them; and measure memory, gathers and drives from each node, and GPUs. Takes a minute or two, with many GPUs longer, and keeps "
	       "the machine busy.",
	.children = children,
};

/* The node to try: the one with most free memory of those we may use. @return its number, or -1 */
static int node_to_try(const struct rung_topology *topology)
{
	const struct rung_topology_node *node;
	uint64_t most = 0;
	int best = -1;

	for (size_t i = 0; (node = rung_topology_node(topology, i)) != NULL; i++) {
		if (node->memory_allowed != 0 && node->free_bytes != RUNG_UNKNOWN && node->free_bytes > most) {
			most = node->free_bytes;
			best = (int)node->node;
		}
	}
	return best;
}

static json_t *policy_json(const struct rung_numa_policy *policy)
{
	json_t *entry = json_object();

	tool_json_set(entry, "can_bind", json_boolean(policy->can_bind));
	tool_json_set(entry, "bind_why", tool_json_text(*policy->bind_why ? policy->bind_why : NULL));
	tool_json_set(entry, "can_look", json_boolean(policy->can_look));
	tool_json_set(entry, "look_why", tool_json_text(*policy->look_why ? policy->look_why : NULL));
	return entry;
}

static void print_policy(const struct rung_numa_policy *policy)
{
	if (policy->can_bind && policy->can_look) {
		printf("\nmemory can be put on nodes, and where it lies can be looked up\n");
		return;
	}
	printf("\nmemory %s be put on nodes%s%s%s\n", policy->can_bind ? "can" : "cannot", *policy->bind_why ? " (" : "", policy->bind_why,
	       *policy->bind_why ? ")" : "");
	printf("where it lies %s be looked up%s%s%s\n", policy->can_look ? "can" : "cannot", *policy->look_why ? " (" : "", policy->look_why,
	       *policy->look_why ? ")" : "");
}

/* @param policy  NULL where nothing could be tried; `measured` NULL when nothing was */
static int report(const char *name, const struct numa_args *args, const struct rung_topology *topology, const struct rung_numa_policy *policy,
		  const struct numa_measured *measured)
{
	if (args->csv)
		return numa_results_csv(measured) < 0 ? tool_error(name, TOOL_FAILED, "writing the table: %s", strerror(errno)) : TOOL_DONE;
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

static int draw(const char *name, const struct numa_measured *measured, struct tool_out *svg)
{
	if (!svg->path)
		return TOOL_DONE;
	if (numa_results_svg(measured, svg->file) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the heat maps");
	return tool_out_commit(svg);
}

static int measure(const char *name, struct numa_args *args, const struct rung_topology *topology, const struct rung_numa_policy *policy)
{
	struct numa_measured measured = { .topology = topology, .info = { .size = sizeof(measured.info) } };
	struct tool_progress progress;
	struct rung_numa_report *numa_report;
	struct rung_topology_info info = { .size = sizeof(info) };
	struct tool_out svg;
	int code = tool_out_open(name, args->svg, &svg), rc;

	if (code != TOOL_DONE)
		return code;
	tool_progress_init(&progress, name, args->common.quiet);
	args->opts.threads_max = args->common.threads;
	args->opts.files = args->files;
	args->opts.row_bytes = args->row_bytes;
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

	argp_parse(&numa_argp, argc, argv, 0, NULL, &args);
	rc = rung_topology_load(args.root, &topology);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	node = args.root ? -1 : node_to_try(topology);
	if (node >= 0)
		rc = rung_numa_try((uint32_t)node, &policy);
	tried = node >= 0 ? &policy : NULL;
	if (rc < 0)
		code = tool_fail(argv[0], rc);
	else
		code = args.topology ? report(argv[0], &args, topology, tried, NULL) : measure(argv[0], &args, topology, tried);
	rung_topology_destroy(topology);
	return code;
}
