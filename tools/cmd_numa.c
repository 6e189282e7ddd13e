/* SPDX-License-Identifier: Apache-2.0 */
/* rung numa: nodes, CPUs, memory, GPUs and NVMe drives of a machine, and how far they are from each other. */
#include "numa.h"

enum { KEY_TOPOLOGY = 0x1001, KEY_ROOT };

struct numa_args {
	int topology;            /* nothing is measured */
	const char *root;        /* NULL: this machine */
	struct tool_common common;
};

static const struct argp_option options[] = {
	{ "topology", KEY_TOPOLOGY, NULL, 0, "Print what the kernel and the firmware say, and measure nothing", 1 },
	{ "root", KEY_ROOT, "DIR", 0, "Of a machine whose sys/ and proc/ are recorded in DIR, not of this one", 1 },
	{ 0 },
};

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
		if (!args->topology)
			argp_failure(state, TOOL_USAGE, 0, "measuring is not yet available in this version; give --topology");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &tool_common_argp, 0, NULL, 0 }, { 0 } };
static const struct argp numa_argp = {
	.options = options,
	.parser = parse,
	.doc = "Print the NUMA nodes of this machine, their CPUs and memory, the GPUs and NVMe drives, at which nodes they are, and what lies "
	       "between them.",
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

/* @param policy  NULL where nothing could be tried */
static int report(const char *name, const struct numa_args *args, const struct rung_topology *topology, const struct rung_numa_policy *policy)
{
	if (args->common.json) {
		json_t *root = json_object();

		tool_json_set(root, "schema", json_integer(NUMA_SCHEMA));
		numa_topology_json(root, topology);
		tool_json_set(root, "placement", policy ? policy_json(policy) : json_null());
		return tool_json_print(name, root) < 0 ? TOOL_FAILED : TOOL_DONE;
	}
	if (numa_topology_print(topology) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the tables");
	if (policy)
		print_policy(policy);
	return TOOL_DONE;
}

int cmd_numa(int argc, char **argv)
{
	struct numa_args args = { 0 };
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	struct rung_topology *topology;
	int rc, node, code;

	argp_parse(&numa_argp, argc, argv, 0, NULL, &args);
	rc = rung_topology_load(args.root, &topology);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	node = args.root ? -1 : node_to_try(topology);
	if (node >= 0)
		rc = rung_numa_try((uint32_t)node, &policy);
	code = rc < 0 ? tool_fail(argv[0], rc) : report(argv[0], &args, topology, node >= 0 ? &policy : NULL);
	rung_topology_destroy(topology);
	return code;
}
