/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The CUDA operations as C functions: gather and scatter of rows. Sampling is in sampler_launch.h.
 * There is one .cu file per operation.
 *
 * Both are asynchronous: they queue their work on a stream and return. They do not allocate, wait
 * or log. All pointers inside the structs are addresses that the current device can use: its own
 * memory, a peer's, or mapped host memory. The memory belongs to the caller, and the kernels use it
 * until the stream has passed the call. The structs themselves are read only during the call.
 *
 * Rows, maps and ids must not be written while the kernel runs; maps and ids are read through the
 * read-only path.
 *
 * Threads: any number, each with its own counts, report and outputs; the device is the calling
 * thread's current one.
 *
 * A gather has up to eight views. Each is a range of ranks, given by its end, in one kind of
 * memory: replicated local memory, memory interleaved over G GPUs (row i of the view is on GPU i
 * mod G, in slot i div G), and host memory read over the link. Ranks after the last view are
 * misses. Ranks, slots and byte offsets have 64 bits, output rows 32, as in the miss list of the
 * CPU.
 */
#ifndef RUNG_KERNELS_LAUNCH_H
#define RUNG_KERNELS_LAUNCH_H

#include "base/base.h"
#include "rung/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

#define RUNG__CUDA_VIEWS_MAX     8
#define RUNG__CUDA_BASES_MAX     16 /* maximum number of GPUs over which one view is interleaved */
#define RUNG__CUDA_ROW_BYTES_MAX (UINT32_C(1) << 30)

/**
 * A range of ranks that the kernel can read: from the end of the previous view (0 for the first) to
 * rank_end. Row i, counted from the first rank of the view, is at base[i mod base_count] + (i div
 * base_count) * stride. One base: local or host memory; several: interleaved over GPUs. For an
 * empty view (its end equals that of the previous one) the other members are ignored.
 */
struct rung__cuda_view {
	const unsigned char *base[RUNG__CUDA_BASES_MAX];
	uint32_t base_count;
	/* nonzero: host memory over a link, copied by few blocks in whole 128-byte lines. 0: memory
	 * of GPUs, including peers: saturating NVLink needs a large part of the GPU, and its rows
	 * arrive without long waits */
	uint32_t over_link;
	uint64_t stride;   /* bytes from slot to slot, at least row_bytes */
	uint64_t rank_end; /* at least that of the previous view, at most row_count */
};

/** Counters of a running gather, in device memory. They must be zero before the first gather, and
 * each gather leaves them zero again. */
struct rung__cuda_counts {
	unsigned long long miss_count;
	unsigned long long bad_count;
	/* the complement (~) of the smallest index of an invalid id: a maximum that starts at
	 * zero */
	unsigned long long bad_index_inverted;
	unsigned long long view_rows[RUNG__CUDA_VIEWS_MAX];
	/* items that warps have taken after their first one, for NEAR and LINK (gather.cu) */
	unsigned items_taken[2];
	unsigned long long blocks_done;
};

/** Results of a gather, written at its end: memory of the device, or mapped host memory. */
struct rung__cuda_report {
	uint64_t miss_count; /* entries of miss_ranks and miss_rows */
	uint64_t bad_count;  /* ids outside 0..row_count-1; their output rows are not written */
	/* smallest index of such an id, and the id (sign-extended): valid if bad_count > 0 */
	uint64_t bad_index;
	uint64_t bad_id;
	uint64_t view_rows[RUNG__CUDA_VIEWS_MAX]; /* rows copied from each view */
};

/**
 * Completion of a launch for the host: when `word` is `turn`, read with acquire, the host may read
 * the results of the launch and reuse the memory. A launch that fails stores nothing.
 */
struct rung__cuda_end {
	uint32_t *word; /* mapped host memory; NULL: the host is not notified */
	uint32_t turn;  /* differs from that of the previous launch with the same word */
};

/** How stored rows become output rows; all zero: they are copied. The rows are those of
 * src/quant. */
struct rung__cuda_form {
	uint32_t format;            /* enum rung_quant_format */
	enum rung_dtype dtype;      /* of the output: RUNG_F16, RUNG_BF16 or RUNG_F32 */
	uint32_t columns;           /* values of a row */
	const float *column_scales; /* [columns]; NULL: each row begins with its scale */
};

struct rung__cuda_gather {
	const void *ids;
	uint64_t id_count; /* below 2^32: output rows are numbered with 4 bytes */
	/* RUNG_I32, RUNG_U32, RUNG_I64 or RUNG_U64; ids aligned to their width */
	enum rung_dtype id_dtype;
	uint32_t map_bytes;         /* size of an entry of the map: 4 or 8 */
	const void *rank_of_vertex; /* row_count entries; NULL: ids are ranks */
	uint64_t row_count;         /* upper bound of ids and ranks */
	uint32_t row_bytes;         /* as stored: 1..RUNG__CUDA_ROW_BYTES_MAX */
	uint32_t view_count;        /* 0..RUNG__CUDA_VIEWS_MAX */
	struct rung__cuda_form form;
	struct rung__cuda_view views[RUNG__CUDA_VIEWS_MAX];
	unsigned char *out;  /* row i of the list goes to out + i * out_stride */
	uint64_t out_stride; /* at least the bytes of an output row */
	/* arrays of id_count entries: rank and output row of ids beyond all views, in any order. If
	 * miss_ranks is NULL, misses are counted but not listed */
	uint64_t *miss_ranks;
	uint32_t *miss_rows;
	uint64_t link_bytes; /* bytes to keep in flight over links; 0: LINK_BYTES of rows.h */
	/* gathers of at least these bytes have a warp per tile; 0: RUNG__LONG_BYTES */
	uint64_t long_bytes;
	struct rung__cuda_counts *counts; /* not used by another gather at the same time */
	/* written unless id_count is 0; the same applies to the word of `end` */
	struct rung__cuda_report *report;
	struct rung__cuda_end end;
};

/**
 * Copy the rows that the views hold and list the others.
 *
 * @param block_count  upper bound of the grid, from rung__cuda_gather_blocks(); fewer are started
 *                     for less work, but at least two if rows are over a link. Long gathers
 *                     (long_bytes) of rows in GPU memory start more
 * @param stream       where the work is queued, after earlier work
 * @return 0, RUNG_E_INVAL (nothing was started), RUNG_E_NODEV (no GPU or no driver), RUNG_E_NOSUP
 *         (this build has no code for the GPU), RUNG_E_IO (any other CUDA error, with its text; an
 *         error of earlier work on the device may be reported here)
 */
int rung__cuda_gather_launch(const struct rung__cuda_gather *gather, unsigned block_count,
                             struct CUstream_st *stream);

/**
 * The number of blocks of the gather that the current device holds at once. Loads the kernels, so
 * that no later launch has to: call it when opening.
 * @return 0, or as rung__cuda_gather_launch()
 */
int rung__cuda_gather_blocks(unsigned *block_count_out);

/** Rows in staging slots, and their output rows. Refill creates the lists, so they are trusted. */
struct rung__cuda_scatter {
	const unsigned char *slots; /* mapped host memory */
	/* where row i begins, in bytes from `slots`; offsets may repeat */
	const uint64_t *offsets;
	/* the output row of row i; an output row may occur twice only with the same bytes */
	const uint32_t *out_rows;
	uint64_t count;
	uint64_t offset_align; /* power of two that divides every offset; 0 means 1 */
	uint32_t row_bytes;    /* as stored: 1..RUNG__CUDA_ROW_BYTES_MAX */
	uint32_t over_link;    /* as in a view */
	uint64_t link_bytes;   /* as in a gather */
	struct rung__cuda_form form;
	unsigned char *out;  /* output row r is at out + r * out_stride */
	uint64_t out_stride; /* at least the bytes of an output row */
	/* device memory, zero; each scatter resets it to zero. NULL: without a word */
	unsigned long long *blocks_done;
	struct rung__cuda_end end; /* its word is unchanged if count is 0 */
};

/** Copy rows from slots to output rows. @param block_count, stream, @return as
 * rung__cuda_gather_launch() */
int rung__cuda_scatter_launch(const struct rung__cuda_scatter *scatter, unsigned block_count,
                              struct CUstream_st *stream);

/** Like rung__cuda_gather_blocks(), for the scatter. */
int rung__cuda_scatter_blocks(unsigned *block_count_out);

#ifdef __cplusplus
}
#endif
#endif
