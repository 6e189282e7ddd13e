/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The hardware of a machine as its kernel reports it: NUMA nodes with their CPUs and memory, GPUs,
 * NVMe drives, and the links between them.
 *
 * A node is a group of CPUs, memory or both that are near each other. A machine has one node or
 * several. There may be gaps in their numbers, nodes without CPUs (CXL memory, GPU memory) or
 * without memory, CPUs that are offline, devices whose location the kernel does not report, and a
 * container that restricts the process to a part of all this. A node's number is therefore never
 * used as a position: each function documents which of the two it accepts, and unknown values are
 * represented by RUNG_UNKNOWN, -1, 0 or NULL.
 *
 * Measuring. rung_numa_measure() needs the topology of this machine, rung_topology_load(NULL). It
 * allocates memory on each node in turn, uses all cores that it may use, and reads the given
 * drives. The calling thread sleeps while private threads, pinned to CPUs, do the work. Do not run
 * two measurements at the same time: each disturbs the other. Matrices with GPUs start CUDA in this
 * process on all visible GPUs, and enable peer access between those that support it
 * (cudaDeviceEnablePeerAccess()), which stays enabled; GPU memory is released.
 */
#ifndef RUNG_NUMA_H
#define RUNG_NUMA_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUNG_NODES_MAX 1024       /**< node numbers are below this limit */
#define RUNG_UNKNOWN   UINT64_MAX /**< sizes and rates that the kernel does not report */

/** A list of CPU or node numbers. */
struct rung_id_list {
	const uint32_t *ids; /**< [count], ascending; NULL: not known */
	uint32_t count;
};

/** Reserved huge pages of one size. */
struct rung_huge_pages {
	uint64_t page_bytes;
	uint64_t total; /**< number of reserved pages; RUNG_UNKNOWN: not known */
	uint64_t free;
};

/** Performance of a node's memory according to the firmware (ACPI HMAT), not measured. */
struct rung_memory_rating {
	uint32_t access; /**< access class: 0 nearest initiators of any kind, 1 nearest CPUs */
	struct rung_id_list initiators; /**< nodes for which the values hold */
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
	uint64_t read_latency_ns;
	uint64_t write_latency_ns;
};

/** A NUMA node. */
struct rung_topology_node {
	uint32_t node; /**< node number */
	int has_cpu;   /**< nonzero: at least one of its CPUs is online */
	int has_memory;
	struct rung_id_list cpus;         /**< online CPUs */
	struct rung_id_list cpus_offline; /**< CPUs that are present but offline */
	struct rung_id_list cpus_allowed; /**< those of `cpus` that this process may run on */
	/** 1: this process may allocate memory here; 0: it may not; -1: not known */
	int memory_allowed;
	uint64_t total_bytes;
	/** unused memory, without what the kernel could reclaim from its caches */
	uint64_t free_bytes;
	const struct rung_huge_pages *huge_pages; /**< [huge_page_count], sorted by size */
	size_t huge_page_count;
	/** [rating_count], sorted by class; empty if the firmware has none */
	const struct rung_memory_rating *ratings;
	size_t rating_count;
	/** bus id of the GPU whose memory this is (Grace Hopper and similar), else NULL */
	const char *gpu;
	/** free_bytes plus what the kernel could reclaim from its caches; limits of control groups
	 * not included */
	uint64_t available_bytes;
};

/** A PCI Express link. */
struct rung_pcie_link {
	/** present transfer rate per lane in GT/s; 0: not known. Idle GPUs slow down to 2.5 */
	double gt_per_s;
	double gt_per_s_max; /**< highest rate of the device; 0: not known */
	uint32_t width;      /**< number of lanes in use; 0: not known */
	uint32_t width_max;
};

/** Kinds of devices. */
enum rung_topology_kind { RUNG_TOPOLOGY_GPU = 0, RUNG_TOPOLOGY_NVME };

/** A GPU, or a namespace of an NVMe drive. Texts are printable ASCII; a text that does not exist is
 * NULL. */
struct rung_topology_device {
	enum rung_topology_kind kind;
	/** bus id of a GPU, block device of a drive: "0000:3b:00.0", "nvme0n1" */
	const char *name;
	const char *bus_id; /**< NULL: not a PCI device (NVMe over a network) */
	/** host bridge, bridges and device: "pci0000:3a/0000:3a:00.0/0000:3b:00.0" */
	const char *pci_path;
	const char *vendor; /**< GPUs: "nvidia", "amd", "intel", or the vendor number, "0x1234" */
	const char *model;
	const char *driver; /**< kernel driver bound to it */
	/** drives: controller such as "nvme0"; the first one if several lead to the namespace */
	const char *controller;
	const char *transport; /**< drives: "pcie", "tcp", "rdma", "fc" */
	int node;              /**< nearest NUMA node; -1: not reported by the kernel */
	int memory_node;       /**< GPUs: node of the GPU's memory; -1: its memory is not a node */
	uint64_t bytes;        /**< drives: capacity in bytes */
	uint64_t sector_bytes; /**< drives: logical block size in bytes */
	struct rung_pcie_link link;
};

/** Properties of the whole machine. */
struct rung_topology_info {
	size_t size; /**< sizeof(struct rung_topology_info), set by the caller */
	int numa; /**< 0: the kernel reports no nodes; node 0 then stands for the whole machine */
	uint32_t node_count;
	uint32_t gpu_count;
	uint32_t nvme_count;
	struct rung_id_list cpus; /**< online CPUs */
	struct rung_id_list cpus_offline;
	/** CPUs that this process may run on (affinity and cpuset) */
	struct rung_id_list cpus_allowed;
	struct rung_id_list nodes_allowed; /**< nodes that it may allocate memory on (cpuset) */
	uint64_t total_bytes;              /**< total memory */
	/** memory that can still be allocated, by the kernel's estimate and the limits of the
	 * control groups */
	uint64_t available_bytes;
	/** tightest memory limit of the control groups of this process; RUNG_UNKNOWN: none */
	uint64_t limit_bytes;
};

struct rung_topology;

/**
 * Read the topology of a machine from its kernel's files. Nothing stays open, and nothing on the
 * machine is changed or measured. A missing or unreadable file is not an error; its values are
 * unknown.
 *
 * @param root          folder with the machine's sys/ and proc/; NULL or "": this machine. Recorded
 *                      folders serve tests and the analysis of other machines
 * @param topology_out  free with rung_topology_destroy()
 * @return 0; RUNG_E_NOENT (no such folder, or no files about CPUs or nodes), RUNG_E_FORMAT (the
 *         message names file and value), RUNG_E_IO, RUNG_E_NOMEM
 *
 * Threads: any.
 */
RUNG_API int rung_topology_load(const char *root, struct rung_topology **topology_out);

/**
 * Free a topology together with all structures and texts that were returned for it. A report of
 * rung_numa_measure() does not need it any longer.
 *
 * @param topology  NULL is allowed
 *
 * Threads: any, but no other call on the topology may be running.
 */
RUNG_API void rung_topology_destroy(struct rung_topology *topology);

/* The functions below return memory of the topology. It is valid until rung_topology_destroy(),
 * does not change, and may be read by any number of threads. */

/**
 * Return the properties of the whole machine: CPUs and nodes that the process may use, and memory
 * that it can still allocate, with the limits of its control groups. The values are those of the
 * time of rung_topology_load().
 *
 * @param info_out  with `size` set; its lists are memory of the topology, valid until
 *                  rung_topology_destroy()
 * @return 0, RUNG_E_INVAL, RUNG_E_ABI
 *
 * Threads: any.
 */
RUNG_API int rung_topology_info(const struct rung_topology *topology,
                                struct rung_topology_info *info_out);

/**
 * Return the node at position `idx`, in the order of node numbers. A position is not a number: node
 * numbers may have gaps, and the node's number is in the result. Every machine has at least one
 * node.
 *
 * @return memory of the topology, valid until rung_topology_destroy(); NULL past the last node
 *
 * Threads: any.
 */
RUNG_API const struct rung_topology_node *rung_topology_node(const struct rung_topology *topology,
                                                             size_t idx);

/**
 * Return the device at position `idx`: first the GPUs in the order of their bus ids, then the
 * namespaces of NVMe drives by name. Devices whose node is not known are included, with node -1.
 *
 * @return memory of the topology, valid until rung_topology_destroy(); NULL past the last device
 *
 * Threads: any.
 */
RUNG_API const struct rung_topology_device *rung_topology_device(
	const struct rung_topology *topology, size_t idx);

/**
 * Return the distance between two nodes as reported by the firmware (ACPI SLIT), where 10 is the
 * distance of a node to itself. It is only a rating; rung_numa_measure() measures bandwidths and
 * latencies.
 *
 * @param from_idx, to_idx positions of nodes, as in rung_topology_node()
 * @return the distance; 0 if it is not known or a position is past the end
 *
 * Threads: any.
 */
RUNG_API uint32_t rung_topology_distance(const struct rung_topology *topology, size_t from_idx,
                                         size_t to_idx);

/** Links between two devices, nearest first; the names are those of nvidia-smi and NCCL. */
enum rung_link {
	RUNG_LINK_UNKNOWN = 0, /**< not a PCI device, or the kernel does not report its node */
	RUNG_LINK_SELF,        /**< "X": the same device */
	RUNG_LINK_PIX,         /**< at most one PCIe switch */
	RUNG_LINK_PXB,         /**< several PCIe switches, no host bridge */
	RUNG_LINK_PHB,         /**< one PCIe host bridge */
	/** host bridges of one NUMA node; between a device and a node: the device is at that
	 * node */
	RUNG_LINK_NODE,
	RUNG_LINK_SYS /**< the interconnect between NUMA nodes */
};

/**
 * Name of a kind of link as nvidia-smi and NCCL print it: "X", "PIX", "PXB", "PHB", "NODE" or
 * "SYS"; "?" for an unknown link or an invalid value.
 *
 * @return a constant string, never NULL; the caller must not free it. There are no errors.
 *
 * Threads: any, at any time.
 */
RUNG_API const char *rung_link_name(enum rung_link link);

/**
 * Return the link that a transfer between two devices passes, according to their PCI paths and
 * nodes. NVLink is not included, because the kernel does not report it: see rung_gpu_info() for
 * peer access.
 *
 * @param a_idx, b_idx positions of devices, as in rung_topology_device()
 * @return the link; RUNG_LINK_UNKNOWN if it is not known or a position is past the end
 *
 * Threads: any.
 */
RUNG_API enum rung_link rung_topology_link(const struct rung_topology *topology, size_t a_idx,
                                           size_t b_idx);

/**
 * Return the link between a device and a NUMA node: RUNG_LINK_NODE if the device is at that node,
 * RUNG_LINK_SELF if the node is the memory of this GPU, RUNG_LINK_SYS if it is another node.
 *
 * @param device_idx  position of a device, as in rung_topology_device()
 * @param node_idx    position of a node, as in rung_topology_node()
 * @return the link; RUNG_LINK_UNKNOWN if the device's node is not known or a position is past the
 *         end
 *
 * Threads: any.
 */
RUNG_API enum rung_link rung_topology_node_link(const struct rung_topology *topology,
                                                size_t device_idx, size_t node_idx);

/** Whether this process may control and query the placement of its memory. */
struct rung_numa_policy {
	size_t size;        /**< sizeof(struct rung_numa_policy), set by the caller */
	int can_bind;       /**< nonzero: mbind() placed the page on the node */
	int can_query;      /**< nonzero: move_pages() reported the node of the page */
	char bind_why[128]; /**< reason if can_bind is 0; "" otherwise */
	char query_why[128];
};

/**
 * Test with one page whether this process may place memory on a node (mbind()) and query the node
 * of a page (move_pages()). Containers often forbid these calls, and no file shows it.
 *
 * @param node        number of a node with free memory that this process may use
 * @param policy_out  with `size` set; written on success
 * @return 0, whatever the test shows; RUNG_E_NOMEM, RUNG_E_INVAL, RUNG_E_ABI
 *
 * Threads: any.
 */
RUNG_API int rung_numa_probe_policy(uint32_t node, struct rung_numa_policy *policy_out);

/* ---- measuring ---- */

/**
 * Matrices that can be measured. docs/PROFILE.md defines each of them and the bytes that are
 * counted. GPUs are timed in the same way as by nvbandwidth (its README.md, "Measurement Details"):
 * many copies between two events, on a stream that is blocked until all of them are queued.
 */
enum rung_numa_matrix {
	RUNG_NUMA_BANDWIDTH = 1 << 0, /**< CPU node x memory node: read, write, copy, triad */
	RUNG_NUMA_LATENCY = 1 << 1,   /**< CPU node x memory node: one dependent load */
	RUNG_NUMA_LOADED = 1 << 2,    /**< the same while the other cores of the node read */
	/** CPU node x memory node: random rows, gathered by the library's code */
	RUNG_NUMA_GATHER = 1 << 3,
	/** GPU x memory node: copy engines in both directions, and rows that a kernel reads from
	 * pinned memory */
	RUNG_NUMA_GPU = 1 << 4,
	/** GPU x GPU: copy engines, and rows that a kernel reads; a GPU with itself: its own
	 * memory */
	RUNG_NUMA_PEER = 1 << 5,
	/** CPU node x drive: random reads without the page cache, by the engines of the store */
	RUNG_NUMA_NVME = 1 << 6,
	RUNG_NUMA_TOUCH = 1 << 7,    /**< memory node: first write to new memory */
	RUNG_NUMA_REGISTER = 1 << 8, /**< memory node: pinning memory for io_uring */
	RUNG_NUMA_ALL = (1 << 9) - 1
};

/**
 * Name of a matrix, as in the options and the JSON of rung numa: "bandwidth", "latency", "loaded",
 * "gather", "gpu", "peer", "nvme", "touch" or "register".
 *
 * @return a constant string; NULL for 0, several bits or an unknown bit. The caller must not free
 *         it. There are no other errors.
 *
 * Threads: any, at any time.
 */
RUNG_API const char *rung_numa_matrix_name(enum rung_numa_matrix matrix);

/** Options of rung_numa_measure(). */
struct rung_numa_measure_opts {
	size_t size;       /**< sizeof(struct rung_numa_measure_opts) */
	uint32_t matrices; /**< sum of enum rung_numa_matrix; 0: all */
	int quick; /**< nonzero: smaller buffers, fewer cells and samples, shorter timed regions */
	uint32_t samples; /**< samples of each value, at most 1000; 0: 5, or 3 with quick */
	/** shortest timed region, at most 60; 0: 0.2, or 0.05 with quick */
	double sample_seconds;
	/** most memory to use on a node; 0: half of its free memory. With too little, values are
	 * absent */
	uint64_t memory_bytes_max;
	/** [file_count] files to read at random positions: large files without holes, or block
	 * devices */
	const char *const *files;
	size_t file_count;
	/** folder on a disk that is also measured, with a temporary file */
	const char *dir;
	/** size of that file; 0: 2 GiB, or 256 MiB with quick, at most a quarter of the free
	 * space */
	uint64_t dir_bytes;
	uint32_t threads_max; /**< threads per node; 0: one for each usable core */
	/** [row_count] additional row sizes to gather and read, each 4 bytes to 1 MiB */
	const uint32_t *row_bytes;
	size_t row_count;
	/** [depth_count] queue depths, each 1 to 128; NULL: 1 to 128 in powers of two, with quick
	 * 1, 8, 32, 128 */
	const uint32_t *depths;
	size_t depth_count;
	/** may be NULL; a step is the value that is measured, such as "gather 512 bytes, node 0 ->
	 * 1"; `done` counts over all matrices */
	rung_progress_fn progress;
	void *progress_ctx;
};

/** Initialiser: all defaults. In C++: rung_numa_measure_opts_init(). */
#define RUNG_NUMA_MEASURE_OPTS_INIT RUNG_INIT(struct rung_numa_measure_opts)
RUNG_INIT_FUNCTION(rung_numa_measure_opts, {})

/** A value with its samples. */
struct rung_numa_value {
	const double *samples; /**< [count] in the order of measurement */
	size_t count;          /**< 0: this result does not have the value */
	double median, min, max;
};

/** A result. Node numbers are -1, and other members NaN, NULL or 0, if they do not apply or are not
 * known. */
struct rung_numa_result {
	enum rung_numa_matrix matrix;
	/** "read", "write", "copy", "triad"; GPUs: "to_gpu", "from_gpu", "both", "read", "gather",
	 * "copy"; drives: "io_uring" and other engines */
	const char *kind;
	int cpu_node;
	int memory_node;
	/** positions among the GPUs of the topology; -1: none. Between GPUs bytes go from gpu to
	 * to_gpu, and to_gpu copies or gathers */
	int gpu, to_gpu;
	/** 1: one thread on each usable core of cpu_node; 0: one thread; -1: not applicable */
	int all_cores;
	uint32_t threads;
	uint32_t level; /**< loaded latency: 0: nothing else runs; higher levels have more load */
	uint32_t queue_depth; /**< reads in flight */
	uint64_t row_bytes;   /**< size of a row or a read */
	uint64_t page_bytes;
	uint64_t buffer_bytes; /**< size of each array, table or file that is used */
	/** share of the inspected pages that are on memory_node; NaN: pages cannot be inspected
	 * here */
	double placement_share;
	double huge_share; /**< share of the memory that is in huge pages; NaN: not known */
	double of_copy; /**< gather: its bandwidth divided by that of the copy on the same cores */
	/** gather: rows per second of one thread x idle latency, which is the number of rows it
	 * waits for at the same time */
	double rows_in_flight;
	double lines_in_flight; /**< the same in cache lines of 64 bytes */
	const char *drive;      /**< kernel name of the disk: "nvme0n1" */
	const char *file;
	const char *engine; /**< "io_uring" or "pread" */
	struct rung_numa_value bytes_per_s;
	struct rung_numa_value per_s; /**< rows or reads per second */
	struct rung_numa_value latency_ns;
	struct rung_numa_value seconds_per_gib;
	const char *absent; /**< why there is no value; NULL: there is one */
	/** also set for GPUs that are not in the topology */
	const char *gpu_bus_id, *to_gpu_bus_id;
	/** with a smaller buffer_bytes, caches affect the value; 0: caches have no effect */
	uint64_t advised_bytes;
};

/** Settings of the machine and of the measurement. Texts are NULL and numbers -1 or 0 if the kernel
 * does not report them. */
struct rung_numa_report_info {
	size_t size; /**< sizeof(struct rung_numa_report_info), set by the caller */
	const char *kernel;
	const char *cpu_model;
	const char *governor; /**< frequency governor of the first CPU */
	const char *thp;      /**< transparent huge pages: "always", "madvise" or "never" */
	/** stores used by write, copy, triad and gathers: "non-temporal" or "plain" */
	const char *stores;
	int smt;
	int hypervisor;
	uint64_t last_level_cache_bytes; /**< sum over all CPUs that this process may use */
	uint32_t matrices;
	int quick;
	uint32_t samples;
	double sample_seconds;
	int64_t began_s; /**< start time in seconds since 1970, UTC */
	double seconds;  /**< total duration */
	size_t result_count;
};

struct rung_numa_report;

/**
 * Measure this machine. A value that cannot be measured becomes a result with the reason. See
 * Measuring at the top of this file.
 *
 * @param topology    of this machine; may be destroyed afterwards
 * @param opts        NULL: defaults
 * @param report_out  free with rung_numa_report_destroy()
 * @return 0; RUNG_E_INVAL (options; a path that is not a file or device, is too small or has
 *         holes), RUNG_E_NOENT and RUNG_E_IO (files), RUNG_E_NOSPC (dir), RUNG_E_NOMEM,
 *         RUNG_E_CANCELED, RUNG_E_ABI
 *
 * Threads: one measurement at a time. Stream: the call creates its own.
 */
RUNG_API int rung_numa_measure(const struct rung_topology *topology,
                               const struct rung_numa_measure_opts *opts,
                               struct rung_numa_report **report_out);

/* The functions below return memory of the report, valid until rung_numa_report_destroy(). */

/**
 * Return the settings of the machine and of the measurement: governor, huge pages, kind of stores,
 * start time and duration. They belong in every record of the results.
 *
 * @param info_out  with `size` set; its texts are memory of the report, valid until
 *                  rung_numa_report_destroy()
 * @return 0, RUNG_E_INVAL, RUNG_E_ABI
 *
 * Threads: any.
 */
RUNG_API int rung_numa_report_info(const struct rung_numa_report *report,
                                   struct rung_numa_report_info *info_out);

/**
 * Return the result at position `idx`, in the order of enum rung_numa_matrix, and within a matrix
 * in the order of the nodes or devices. Results without a value are included, with the reason in
 * `absent`.
 *
 * @return memory of the report, valid until rung_numa_report_destroy(); NULL past the last result
 *
 * Threads: any.
 */
RUNG_API const struct rung_numa_result *rung_numa_report_result(
	const struct rung_numa_report *report, size_t idx);

/**
 * Free a report with all results and texts that were returned for it. The memory of the measurement
 * itself was released when rung_numa_measure() returned.
 *
 * @param report  NULL is allowed
 *
 * Threads: any, but no other call on the report may be running.
 */
RUNG_API void rung_numa_report_destroy(struct rung_numa_report *report);

#ifdef __cplusplus
}
#endif
#endif
