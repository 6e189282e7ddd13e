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
	int csv, explain;
	const char *from;    /* file of --json to print instead of measuring; NULL: none */
	const char *compare; /* older file of --json; NULL: none */
	double threshold;    /* percent; 0: not given */
	const char *svg;     /* file to write; NULL: none */
	struct tool_common common;
};

#define MATRICES "bandwidth, latency, loaded, gather, gpu, peer, nvme, touch or register"

/* The suggestion for a name of `length` bytes. */
static const char *meant(const char *from, size_t length)
{
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)length, from);
	return tool_meant(name, MATRICES, MATRICES);
}

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
			argp_error(state, "--only: unknown value '%.*s'; %s", (int)length, from,
			           meant(from, length));
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
	const char *measuring = args->common.threads ? "threads" : args->measuring;

	if (args->topology && measuring)
		argp_error(state,
		           "--%s and --topology exclude each other: --topology measures nothing",
		           measuring);
	if (args->from && measuring)
		argp_error(state, "--%s and --from exclude each other: --from measures nothing",
		           measuring);
	if (args->from && args->root)
		argp_error(state, "--root and --from exclude each other; give only one");
	if (args->topology && (args->csv || args->svg || args->compare))
		argp_error(state, "--%s and --topology exclude each other: it needs results",
		           args->csv   ? "csv"
		           : args->svg ? "svg"
		                       : "compare");
	if (args->compare && (args->csv || args->common.json))
		argp_error(state, "--compare prints text; leave out --%s",
		           args->csv ? "csv" : "json");
	if (args->explain && (args->topology || args->compare || args->csv || args->common.json))
		argp_error(state, "--explain adds tables to the text of results; leave out --%s",
		           args->topology  ? "topology"
		           : args->compare ? "compare"
		           : args->csv     ? "csv"
		                           : "json");
	if (args->threshold > 0 && !args->compare)
		argp_error(state, "--threshold needs --compare: it is the smallest change that "
		                  "counts");
	if (args->root && !args->topology)
		argp_error(state, "--root: a recorded machine cannot be measured; add --topology");
	if (args->csv && args->common.json)
		argp_error(state, "--csv and --json exclude each other; give only one");
	if (args->opts.dir_bytes && !args->opts.dir)
		argp_error(state,
		           "--dir-size needs --dir: it is the size of the file in that folder");
}

#define NOT_BYTES  "not a size in bytes; give one such as 2GiB"
#define MEMORY_MIN 65536u /* less is a forgotten unit */
#define NOT_MEMORY "not a size in bytes of at least 64KiB; give one such as 2GiB"
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
	  "Use smaller buffers, fewer values and fewer samples: a rough overview, about 20 s "
	  "per node and 10 s per drive",
	  TOOL_FLAG(struct numa_args, opts.quick), MEASURING },
	{ "only", "LIST", 2,
	  "Matrices to measure, separated by commas (default: all): bandwidth, latency, loaded, "
	  "gather, gpu, peer, nvme, touch, register",
	  TOOL_SET(set_only), TOOL_KNOWN(MATRICES), MEASURING },
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
	{ "row-bytes", "LIST", 2, "Additional row sizes, such as 512,4KiB",
	  TOOL_SIZES(struct numa_args, row_bytes, opts.row_count, ROW_BYTES_MIN, ROW_BYTES_MAX),
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
	  TOOL_BYTES(struct numa_args, opts.memory_bytes_max, MEMORY_MIN, NOT_MEMORY), MEASURING },
	{ "csv", NULL, 3, "Print the samples as CSV, one line each",
	  TOOL_FLAG(struct numa_args, csv) },
	{ "svg", "FILE", 3, "Draw the machine and the medians to FILE",
	  TOOL_TEXT(struct numa_args, svg) },
	{ "explain", NULL, 3,
	  "Also print the tables with details: loads, rows in flight, first touch, registering",
	  TOOL_FLAG(struct numa_args, explain) },
	{ "from", "FILE", 3,
	  "Measure nothing: print FILE, which --json wrote, or convert it with --csv, --svg",
	  TOOL_TEXT(struct numa_args, from) },
	{ "compare", "OLD", 3,
	  "Print the values that differ from OLD, which --json wrote; exit with 4 if any is worse",
	  TOOL_TEXT(struct numa_args, compare) },
	{ "threshold", "PERCENT", 3, "With --compare: smallest change that counts (default: 10)",
	  TOOL_REAL(struct numa_args, threshold, 0, 1000, TOOL_OPEN_LOW) },
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
	.headings = { [1] = "Topology:", [2] = "Measuring:", [3] = "Output:" },
	.threads = "Cores to use on a node (default: all)",
	.examples = "  rung numa --quick\n  rung numa --json --dir /data > machine.json",
};

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
 * @param measured  NULL: nothing was measured
 * @param root      the JSON of a file; NULL: of this machine
 * @return an exit code
 */
static int report(const char *name, const struct numa_args *args,
                  const struct numa_machine *machine, const struct numa_measured *measured,
                  json_t *root)
{
	if (args->csv)
		return numa_results_csv(measured) < 0
		               ? tool_error(name, TOOL_FAILED, "the table cannot be written: %s",
		                            strerror(errno))
		               : TOOL_DONE;
	if (args->common.json && root)
		return tool_json_print(name, json_incref(root)) < 0 ? TOOL_FAILED : TOOL_DONE;
	if (args->common.json) {
		root = json_object();
		tool_json_set(root, "schema", json_integer(NUMA_SCHEMA));
		numa_topology_json(root, machine->topology);
		tool_json_set(root, "placement",
		              machine->policy ? policy_json(machine->policy) : json_null());
		if (measured)
			numa_results_json(root, measured);
		return tool_json_print(name, root) < 0 ? TOOL_FAILED : TOOL_DONE;
	}
	if (numa_topology_print(machine) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the tables");
	if (machine->policy)
		print_policy(machine->policy);
	if (measured && numa_results_print(measured, args->explain) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the tables");
	return TOOL_DONE;
}

/* Write the picture of --svg; nothing without it. @return an exit code */
static int draw(const char *name, const struct numa_measured *measured, struct tool_out *svg)
{
	if (!svg->path)
		return TOOL_DONE;
	if (numa_results_svg(measured, svg->file) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the picture");
	return tool_out_commit(svg);
}

/* Everything that the options request for results. @param old  with --compare
 * @return an exit code */
static int deliver(const char *name, const struct numa_args *args,
                   const struct numa_measured *measured, json_t *root,
                   const struct numa_profile *old, struct tool_out *svg)
{
	int code;

	/* a comparison may fail, which must not lose the picture */
	if (args->compare) {
		code = draw(name, measured, svg);
		return code != TOOL_DONE
		               ? code
		               : numa_compare(name, measured, old, args->compare,
		                              (args->threshold > 0 ? args->threshold : 10) / 100);
	}
	code = report(name, args, measured->machine, measured, root);
	return code == TOOL_DONE ? draw(name, measured, svg) : code;
}

/* Measure, and report. @return an exit code */
static int measure(const char *name, struct numa_args *args, const struct numa_machine *machine,
                   const struct numa_profile *old, struct tool_out *svg)
{
	struct numa_measured measured = { .topology = machine->topology,
		                          .info = { .size = sizeof(measured.info) },
		                          .node_count = machine->info.node_count,
		                          .machine = machine };
	struct tool_progress progress;
	struct rung_numa_report *numa_report;
	int code, rc;

	tool_progress_init(&progress, name, args->common.quiet);
	progress.whole = 1;
	args->opts.threads_max = args->common.threads;
	args->opts.files = args->files;
	args->opts.row_bytes = args->row_bytes; /* in addition to the library's sizes */
	if (args->opts.depth_count)             /* instead of its depths */
		args->opts.depths = args->depths;
	args->opts.progress = tool_progress_update;
	args->opts.progress_ctx = &progress;
	rc = rung_numa_measure(machine->topology, &args->opts, &numa_report);
	tool_progress_end(&progress);
	if (rc < 0)
		return tool_fail(name, rc);
	rung_numa_report_info(numa_report, &measured.info);
	measured.report = numa_report;
	code = deliver(name, args, &measured, NULL, old, svg);
	/* some values may be absent from a report, but a report without any value is not a
	 * success */
	if (code == TOOL_DONE && !numa_any_value(&measured, RUNG_NUMA_ALL))
		code = TOOL_NO_HARDWARE;
	rung_numa_report_destroy(numa_report);
	return code;
}

/* --from: the file instead of this machine. @return an exit code */
static int print_file(const char *name, const struct numa_args *args,
                      const struct numa_profile *old, struct tool_out *svg)
{
	struct numa_profile profile;
	int code = numa_profile_load(name, args->from, &profile);

	if (code == TOOL_DONE && args->topology)
		code = report(name, args, &profile.machine, NULL, profile.root);
	else if (code == TOOL_DONE && !profile.is_profile)
		code = tool_error(name, TOOL_FAILED,
		                  "%s: has no results, only the topology; add --topology",
		                  args->from);
	else if (code == TOOL_DONE)
		code = deliver(name, args, &profile.measured, profile.root, old, svg);
	numa_profile_free(&profile);
	return code;
}

/* This machine, or the one of --root. @return an exit code */
static int describe(const char *name, struct numa_args *args, const struct numa_profile *old,
                    struct tool_out *svg)
{
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	struct numa_machine machine = { .info = { .size = sizeof(machine.info) } };
	struct rung_topology *topology;
	int rc = rung_topology_load(args->root, &topology), node, code;

	if (rc < 0)
		return tool_fail(name, rc);
	machine.topology = topology;
	rung_topology_info(topology, &machine.info);
	node = args->root ? -1
	                  /* placing a page cannot be tried on a recorded machine */
	                  : tool_node_to_probe(topology);
	if (node >= 0)
		rc = rung_numa_probe_policy((uint32_t)node, &policy);
	machine.policy = node >= 0 ? &policy : NULL;
	if (rc < 0)
		code = tool_fail(name, rc);
	else
		code = args->topology ? report(name, args, &machine, NULL, NULL)
		                      : measure(name, args, &machine, old, svg);
	rung_topology_destroy(topology);
	return code;
}

int cmd_numa(int argc, char **argv)
{
	struct numa_args args = { .opts = RUNG_NUMA_MEASURE_OPTS_INIT };
	struct numa_profile old = { 0 };
	struct tool_out svg = { 0 };
	int code = TOOL_DONE;

	tool_args_parse(&tool_numa_command, argc, argv, &args);
	/* before measuring, so that a wrong path does not cost minutes */
	if (args.compare)
		code = numa_profile_load(argv[0], args.compare, &old);
	if (code == TOOL_DONE && args.compare && !old.is_profile)
		code = tool_error(argv[0], TOOL_FAILED, "%s: has no results, only the topology",
		                  args.compare);
	if (code == TOOL_DONE)
		code = tool_out_open(argv[0], args.svg, &svg);
	if (code == TOOL_DONE)
		code = (args.from ? print_file(argv[0], &args, &old, &svg)
		                  : describe(argv[0], &args, &old, &svg));
	tool_out_abandon(&svg);
	numa_profile_free(&old);
	return code;
}
