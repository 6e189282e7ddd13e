/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * What a machine is made of, as its kernel tells: NUMA nodes with their CPUs and memory, GPUs, NVMe
 * drives, and what lies between them.
 *
 * A node is CPUs, memory, or both, that are near each other. Normal machines have one node or
 * several, holes in their numbering, nodes without CPUs (CXL memory, the memory of a GPU) or
 * without memory, CPUs that are off, devices of which the kernel does not say where they are, and a
 * container around the process that allows only some of all this. So numbers of nodes are never
 * positions: functions say which of the two they take, and what is not known has a value of its
 * own.
 */
#ifndef RUNG_NUMA_H
#define RUNG_NUMA_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUNG_NODES_MAX 1024       /**< node numbers are below it */
#define RUNG_UNKNOWN   UINT64_MAX /**< of sizes and rates here: the kernel does not say */

/** Numbers of CPUs or nodes. */
struct rung_id_list {
	const uint32_t *ids; /**< [count], ascending; NULL: not known */
	uint32_t count;
};

/** Huge pages of one size that are set aside. */
struct rung_huge_pages {
	uint64_t page_bytes;
	uint64_t total; /**< pages set aside, RUNG_UNKNOWN as below */
	uint64_t free;
};

/** What the firmware rates the memory of a node at, seen from some nodes (ACPI HMAT). Not a
 * measurement. */
struct rung_memory_rating {
	uint32_t access; /**< class: 0 the nearest of all that reads memory, 1 the nearest CPUs */
	struct rung_id_list initiators; /**< the nodes it holds for */
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
	uint64_t read_latency_ns;
	uint64_t write_latency_ns;
};

/** A NUMA node. */
struct rung_topology_node {
	uint32_t node; /**< its number */
	int has_cpu;   /**< nonzero: some of its CPUs are online */
	int has_memory;
	struct rung_id_list cpus;         /**< online */
	struct rung_id_list cpus_offline; /**< there, but off */
	struct rung_id_list cpus_allowed; /**< of `cpus`, those this process may run on */
	int memory_allowed; /**< 1 this process may take memory here, 0 not, -1 not known */
	uint64_t total_bytes;
	/** unused; what the kernel could take back from its caches is not in it */
	uint64_t free_bytes;
	const struct rung_huge_pages *huge_pages; /**< [huge_page_count], by size */
	size_t huge_page_count;
	/** [rating_count], by class; none where the firmware says nothing */
	const struct rung_memory_rating *ratings;
	size_t rating_count;
	/** bus id of the GPU whose memory this is (Grace Hopper and the like), else NULL */
	const char *gpu;
	/** free_bytes and what the kernel could take back from its caches; control groups not
	 * asked */
	uint64_t available_bytes;
};

/** A PCI Express link. */
struct rung_pcie_link {
	/** transfers of each lane now, in 10^9; 0: not known. Idle GPUs slow down to 2.5 */
	double gt_per_s;
	double gt_per_s_max; /**< that the device can; 0: not known */
	uint32_t width;      /**< lanes in use; 0: not known */
	uint32_t width_max;
};

/** Kinds of devices. */
enum rung_topology_kind { RUNG_TOPOLOGY_GPU = 0, RUNG_TOPOLOGY_NVME };

/** A GPU, or a namespace of an NVMe drive. Texts are printable ASCII and NULL where there is
 * none. */
struct rung_topology_device {
	enum rung_topology_kind kind;
	/** bus id of a GPU, block device of a drive: "0000:3b:00.0", "nvme0n1" */
	const char *name;
	const char *bus_id; /**< NULL: not on PCI (NVMe over a network) */
	/** host bridge, bridges, device: "pci0000:3a/0000:3a:00.0/0000:3b:00.0" */
	const char *pci_path;
	const char *vendor; /**< GPUs: "nvidia", "amd", "intel", or its number "0x1234" */
	const char *model;
	const char *driver; /**< kernel driver that has it */
	/** drives: "nvme0", the first where several lead to the namespace */
	const char *controller;
	const char *transport; /**< drives: "pcie", "tcp", "rdma", "fc" */
	int node;              /**< NUMA node it is at; -1: the kernel does not say */
	int memory_node;       /**< GPUs: the node that is its memory; -1: its memory is no node */
	uint64_t bytes;        /**< drives: capacity */
	uint64_t sector_bytes; /**< drives: logical block */
	struct rung_pcie_link link;
};

/** What is true of the whole machine. */
struct rung_topology_info {
	size_t size; /**< sizeof(struct rung_topology_info), set by the caller */
	int numa;    /**< 0: the kernel shows no nodes, and node 0 stands for the whole machine */
	uint32_t node_count;
	uint32_t gpu_count;
	uint32_t nvme_count;
	struct rung_id_list cpus; /**< online */
	struct rung_id_list cpus_offline;
	struct rung_id_list cpus_allowed; /**< that this process may run on (affinity and cpuset) */
	struct rung_id_list nodes_allowed; /**< that it may take memory of (cpuset) */
	uint64_t total_bytes;              /**< of all memory */
	/** that may still be taken: by the kernel's estimate, and by the control groups' limits */
	uint64_t available_bytes;
	/** the tightest limit of the control groups above us; RUNG_UNKNOWN: none */
	uint64_t limit_bytes;
};

struct rung_topology;

/**
 * Read the topology of a machine. Nothing is kept open, and nothing of the machine is changed or
 * measured.
 *
 * @param root          folder with the machine's sys/ and proc/; NULL or "": this machine. A
 *                      recorded one serves tests and questions about machines far away
 * @param topology_out  free with rung_topology_destroy()
 * @return 0; RUNG_E_NOENT (no such folder, or nothing in it tells CPUs or nodes), RUNG_E_FORMAT (a
 *         file holds what it cannot: names file and value), RUNG_E_IO, RUNG_E_NOMEM
 *
 * A file that is not there, or that this process may not read, makes what it would tell unknown; it
 * is no error.
 */
RUNG_API int rung_topology_load(const char *root, struct rung_topology **topology_out);

/** Free; NULL is allowed. */
RUNG_API void rung_topology_destroy(struct rung_topology *topology);

/* What follows belongs to the topology, lives as long as it, and may be used by any number of
 * threads. */

/** @return 0, RUNG_E_INVAL, RUNG_E_ABI */
RUNG_API int rung_topology_info(const struct rung_topology *topology,
                                struct rung_topology_info *info_out);

/** Node at position `idx`, by ascending number; NULL past the end. */
RUNG_API const struct rung_topology_node *rung_topology_node(const struct rung_topology *topology,
                                                             size_t idx);

/** Device at position `idx`: the GPUs by bus id, behind them the NVMe drives by name; NULL past the
 * end. */
RUNG_API const struct rung_topology_device *rung_topology_device(
	const struct rung_topology *topology, size_t idx);

/** Distance the firmware gives (ACPI SLIT) from the node at position `from_idx` to that at
 * `to_idx`: 10 to itself; 0: not known. */
RUNG_API uint32_t rung_topology_distance(const struct rung_topology *topology, size_t from_idx,
                                         size_t to_idx);

/** What a transfer between two devices passes, nearest first; the names that nvidia-smi and NCCL
 * use. */
enum rung_link {
	RUNG_LINK_UNKNOWN = 0, /**< not on PCI, or the kernel does not say at which node */
	RUNG_LINK_SELF,        /**< "X": the same */
	RUNG_LINK_PIX,         /**< at most one PCIe switch */
	RUNG_LINK_PXB,         /**< several PCIe switches, no host bridge */
	RUNG_LINK_PHB,         /**< the PCIe host bridge that both are below */
	/** host bridges of one NUMA node; of a device and a node: it is at that node */
	RUNG_LINK_NODE,
	RUNG_LINK_SYS /**< the interconnect between NUMA nodes */
};

/** "X", "PIX", "PXB", "PHB", "NODE", "SYS"; "?" for an unknown one. */
RUNG_API const char *rung_link_name(enum rung_link link);

/** Between the devices at two positions. NVLink is not seen here: the kernel does not tell of
 * it. */
RUNG_API enum rung_link rung_topology_link(const struct rung_topology *topology, size_t a_idx,
                                           size_t b_idx);

/** Between the device and the node at two positions. */
RUNG_API enum rung_link rung_topology_node_link(const struct rung_topology *topology,
                                                size_t device_idx, size_t node_idx);

/** What this process may do about the place of its memory. */
struct rung_numa_policy {
	size_t size;        /**< sizeof(struct rung_numa_policy), set by the caller */
	int can_bind;       /**< nonzero: mbind() put the page on the node */
	int can_look;       /**< nonzero: move_pages() told on which node it lies */
	char bind_why[128]; /**< why not; "" when it works */
	char look_why[128];
};

/**
 * Try with one page: containers often refuse the calls, which no file tells.
 *
 * @param node  number of a node with free memory that this process may take
 * @return 0, whatever the kernel says; RUNG_E_NOMEM, RUNG_E_INVAL, RUNG_E_ABI
 */
RUNG_API int rung_numa_try(uint32_t node, struct rung_numa_policy *policy_out);

/* ---- measuring ---- */

/**
 * What can be measured. docs/PROFILE.md says what each is, and which bytes are counted. GPUs are
 * timed as nvbandwidth times them (its README.md, "Measurement Details"): many copies between two
 * events, on a stream that is held until all of them are there.
 */
enum rung_numa_matrix {
	RUNG_NUMA_BANDWIDTH = 1 << 0, /**< CPU node x memory node: read, write, copy, triad */
	RUNG_NUMA_LATENCY = 1 << 1,   /**< CPU node x memory node: one dependent load */
	RUNG_NUMA_LOADED = 1 << 2,    /**< the same while the node's other cores read */
	/** CPU node x memory node: rows at random places, as the library gathers them */
	RUNG_NUMA_GATHER = 1 << 3,
	/** GPU x memory node: copy engines both ways, and rows that a kernel reads out of pinned
	 * memory there */
	RUNG_NUMA_GPU = 1 << 4,
	/** GPU x GPU: copy engines, and rows that a kernel reads; of a GPU and itself: its own
	 * memory */
	RUNG_NUMA_PEER = 1 << 5,
	/** CPU node x drive: random reads past the page cache, by the engines of the store */
	RUNG_NUMA_NVME = 1 << 6,
	RUNG_NUMA_TOUCH = 1 << 7,    /**< memory node: the first write to fresh memory */
	RUNG_NUMA_REGISTER = 1 << 8, /**< memory node: pinning memory for io_uring */
	RUNG_NUMA_ALL = (1 << 9) - 1
};

/** "bandwidth", "latency", "loaded", "gather", "gpu", "peer", "nvme", "touch", "register"; NULL for
 * none of them or several. */
RUNG_API const char *rung_numa_matrix_name(enum rung_numa_matrix matrix);

/** Options of rung_numa_measure(): what to measure, and on what. */
struct rung_numa_measure_opts {
	size_t size;       /**< sizeof(struct rung_numa_measure_opts) */
	uint32_t matrices; /**< of enum rung_numa_matrix, added; 0: all */
	int quick;        /**< nonzero: smaller buffers, fewer cells and samples, shorter regions */
	uint32_t samples; /**< of each value, at most 1000; 0: 5, and 3 when quick */
	/** least length of a timed region, at most 60; 0: 0.2, and 0.05 when quick */
	double sample_seconds;
	/** to take of a node at most; 0: half of what it has free. Too little makes values
	 * absent */
	uint64_t memory_bytes_max;
	/** [file_count] to read at random: large files that are written through, or block
	 * devices */
	const char *const *files;
	size_t file_count;
	/** also measure the disk under this folder, by a file that is written there and is gone
	 * afterwards */
	const char *dir;
	/** its size; 0: 2 GiB, and 256 MiB when quick, at most a quarter of what is free */
	uint64_t dir_bytes;
	uint32_t threads_max; /**< on a node; 0: one on each of its cores that may be used */
	/** [row_count] further rows to gather and read, each 4 bytes to 1 MiB */
	const uint32_t *row_bytes;
	size_t row_count;
	/** [depth_count] reads in flight, each 1 to 128; NULL: 1 to 128 by doubling, when quick 1,
	 * 8, 32, 128 */
	const uint32_t *depths;
	size_t depth_count;
	/** may be NULL; steps are named as matrices, and count values */
	rung_progress_fn progress;
	void *progress_ctx;
};

/** Initialiser: all defaults. In C++: rung_numa_measure_opts_init(). */
#define RUNG_NUMA_MEASURE_OPTS_INIT RUNG_INIT(struct rung_numa_measure_opts)
RUNG_INIT_FUNCTION(rung_numa_measure_opts, {})

/** A value that was measured several times. */
struct rung_numa_value {
	const double *samples; /**< [count] as they were taken */
	size_t count;          /**< 0: this result has no such value */
	double median, min, max;
};

/** Of a result: numbers of nodes, -1 where there is none; NaN, NULL and 0 where something plays no
 * part or is not known. */
struct rung_numa_result {
	enum rung_numa_matrix matrix;
	/** "read", "write", "copy", "triad"; of GPUs "to_gpu", "from_gpu", "both", "read",
	 * "gather", "copy"; "io_uring" */
	const char *kind;
	int cpu_node;
	int memory_node;
	/** by position among the topology's GPUs, -1: none; between GPUs bytes go from gpu to
	 * to_gpu, which copies or gathers */
	int gpu, to_gpu;
	/** 1: a thread on each core of cpu_node that may be used, 0: one, -1: threads play no
	 * part */
	int all_cores;
	uint32_t threads;
	uint32_t level;       /**< of a loaded latency: 0 nothing else runs, then ascending */
	uint32_t queue_depth; /**< reads in flight */
	uint64_t row_bytes;   /**< of a row or a read */
	uint64_t page_bytes;
	uint64_t buffer_bytes; /**< of each array, table or file worked on */
	/** of the pages looked at, on memory_node; NaN: cannot be looked up here */
	double placed_share;
	double huge_share; /**< of the memory, in huge pages; NaN: not known */
	double of_copy; /**< of a gather: bytes a second over those of the copy by the same cores */
	/** of a gather: rows a second of one thread x idle latency: how many it waits for at a
	 * time */
	double rows_in_flight;
	double lines_in_flight; /**< the same in cache lines of 64 bytes */
	const char *drive;      /**< the disk's name as the kernel has it: "nvme0n1" */
	const char *file;
	const char *engine; /**< "io_uring", "pread" */
	struct rung_numa_value bytes_per_s;
	struct rung_numa_value per_s; /**< rows or reads */
	struct rung_numa_value latency_ns;
	struct rung_numa_value seconds_per_gib;
	const char *absent;                     /**< why there is no value; NULL: there is one */
	const char *gpu_bus_id, *to_gpu_bus_id; /**< also of GPUs that are not in the topology */
	/** A smaller buffer_bytes leaves part of the value to the caches. 0: they play no part */
	uint64_t advised_bytes;
};

/** What the machine was set to, and what was asked for. Texts are NULL, numbers -1 or 0 where the
 * kernel does not tell. */
struct rung_numa_report_info {
	size_t size; /**< sizeof(struct rung_numa_report_info), set by the caller */
	const char *kernel;
	const char *cpu_model;
	const char *governor; /**< of the first CPU's clock */
	const char *thp;      /**< "always", "madvise", "never" */
	/** "non-temporal" or "plain": what write, copy, triad and gathers store with */
	const char *stores;
	int smt;
	int hypervisor;
	uint64_t last_level_cache_bytes; /**< of all CPUs this process may use */
	uint32_t matrices;
	int quick;
	uint32_t samples;
	double sample_seconds;
	int64_t began_s; /**< since 1970, UTC */
	double seconds;  /**< in all */
	size_t result_count;
};

struct rung_numa_report;

/**
 * Measure this machine. Takes memory on each of its nodes in turn, keeps the cores busy it may use,
 * and reads the drives it was given; what cannot be measured is a result that says why. What needs
 * a GPU starts CUDA in this process, on all GPUs that it shows to it, and lets those that can use
 * each other's memory do so from then on (cudaDeviceEnablePeerAccess); their memory is given back.
 *
 * @param topology    of this machine (rung_topology_load(NULL)); may be destroyed afterwards
 * @param opts        NULL: defaults
 * @param report_out  free with rung_numa_report_destroy()
 * @return 0; RUNG_E_INVAL (options; a file that is too small, has holes, or is none), RUNG_E_NOENT
 *         and RUNG_E_IO (files), RUNG_E_NOSPC (dir), RUNG_E_NOMEM, RUNG_E_CANCELED, RUNG_E_ABI
 *
 * Threads: the caller's sleeps while threads of its own work, pinned to CPUs. Two calls at a time
 * measure each other.
 */
RUNG_API int rung_numa_measure(const struct rung_topology *topology,
                               const struct rung_numa_measure_opts *opts,
                               struct rung_numa_report **report_out);

/* What follows belongs to the report and lives as long as it. */

/** @return 0, RUNG_E_INVAL, RUNG_E_ABI */
RUNG_API int rung_numa_report_info(const struct rung_numa_report *report,
                                   struct rung_numa_report_info *info_out);

/** Result at position `idx`, in the order of the matrices, each in that of the nodes; NULL past the
 * end. */
RUNG_API const struct rung_numa_result *rung_numa_report_result(
	const struct rung_numa_report *report, size_t idx);

/** Free; NULL is allowed. */
RUNG_API void rung_numa_report_destroy(struct rung_numa_report *report);

#ifdef __cplusplus
}
#endif
#endif
