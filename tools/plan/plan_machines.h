/* SPDX-License-Identifier: Apache-2.0 */
/** Arrangements of a data set on several machines, and what each costs. Private to tools/plan. */
#ifndef RUNG_TOOL_PLAN_MACHINES_H
#define RUNG_TOOL_PLAN_MACHINES_H

#include <jansson.h>

#include "tool.h"

#define PLAN_PREFIXES     4
#define PLAN_ARRANGEMENTS (PLAN_PREFIXES + 3)
#define PLAN_NEAR         1.05 /* times the shortest time: as good, if it needs less disk */
#define PLAN_MACHINES_MIN 2
#define PLAN_MACHINES_MAX 1000000

/** Options of several machines. */
struct plan_machines_args {
	uint32_t machines;          /**< 0: not given */
	double nic;                 /**< bytes per second of each machine; 0: not given */
	double storage;             /**< bytes per second for all machines; 0: not given */
	const char *shared;         /**< file: profile of the shared storage; NULL: not given */
	struct rung_profile *rates; /**< its contents */
};

/** Shares of the rows that a local prefix may have. */
extern const double plan_prefixes[PLAN_PREFIXES];

/** The work of a batch in the plan of one machine. */
struct plan_work {
	uint64_t row_bytes;
	uint32_t sector_bytes; /**< unit of reads */
	double copy_bytes;     /**< of all files */
	double feature_bytes;  /**< part of it */
	double memory_share;   /**< of the rows that are in memory */
	double served;         /**< share of the requests that it serves, without the cache */
	uint64_t seeds;
	uint32_t batch;
	double cold_rows; /**< the other requests; a cache may serve some of them */
	double row_reads, row_read_bytes, list_reads, list_read_bytes;
	double memory_seconds;            /**< of memory and GPU */
	double row_seconds, list_seconds; /**< of the reads of local drives */
	double compute;                   /**< seconds of the model; 0: not given */
	/** [PLAN_PREFIXES] share of the requests that each prefix of the rows has */
	double hits[PLAN_PREFIXES];
	int no_prefix; /**< nonzero: rows in place, which have no order */
};

/** A place for the cold rows. */
struct plan_arrangement {
	const char *name;
	double share;              /**< of the rows, on local drives */
	double disk_bytes;         /**< of each machine */
	double memory_bytes;       /**< of each machine, in addition to the budget */
	double fetch_seconds;      /**< in which the NIC delivers both */
	double local_share;        /**< of the cold rows, that local drives serve */
	double nic_bytes;          /**< over the NIC, per batch */
	double rows_per_s;         /**< cold rows, per machine */
	double seconds;            /**< per batch */
	double epoch_seconds;      /**< of all machines together */
	double source_bytes_per_s; /**< that all machines read from the shared storage */
	const char *limit;         /**< "memory", "drive", "network" or "storage" */
};

struct plan_machines {
	struct plan_machines_args args;
	struct plan_work work;
	uint64_t batches; /**< of each machine, per epoch */
	/** Own copies come first, then prefixes with descending shares, shared storage, and the
	 * memory of other machines, which rung does not serve. Without reads there are none. */
	struct plan_arrangement arrangement[PLAN_ARRANGEMENTS];
	uint32_t count;
	/** bytes read per cold row in pages of 4096 bytes, the unit on file systems that report
	 * none */
	double page_bytes;
	double storage_even; /**< NIC with which shared storage is as fast as local drives */
	double memory_even;  /**< the same for the memory of other machines */
	uint32_t advice;     /**< index of an arrangement */
};

/** Compute all arrangements. */
void plan_machines_init(struct plan_machines *plan, const struct plan_machines_args *args,
                        const struct plan_work *work);

/** Bytes that a read of rows has on average in addition to the rows, in whole sectors: rows begin
 * at all multiples of the greatest common divisor equally often. */
double plan_sector_rest(uint64_t row_bytes, uint32_t sector_bytes);

/** Seconds in which all machines fetch `bytes` bytes each. */
double plan_fetch_seconds(const struct plan_machines_args *args, double bytes);

/** The arrangements and the advice; null without --machines. */
json_t *plan_machines_json(const struct plan_machines_args *args, const struct plan_work *work);

/** Print the arrangements, the arithmetic and the advice; nothing without --machines. */
void plan_machines_print(const struct plan_machines_args *args, const struct plan_work *work);

#endif
