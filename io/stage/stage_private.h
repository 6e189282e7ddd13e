/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One run of rung_stage(). Private to io/stage*.c and its tests.
 *
 *   stage.c          the order of the steps, and the report
 *   stage_input.c    sources opened and checked, splits read
 *   stage_layout.c   bytes from row to row, rows over folders
 *   stage_stripe.c   features files in other folders
 *   stage_space.c    free space for all of it, on each file system
 *   stage_memory.c   the budget: what each step may take, and the least that works
 *   stage_job.c      which job a folder belongs to
 *   stage_journal.c  what is finished
 *   stage_dir.c      the folder: its names, its lock, what an earlier run left of it
 *   stage_entries.c  what lies in it, and what of that may be removed
 *   stage_check.c    its files against their checksums, before they are relied on
 *   stage_publish.c  the name it gets in the end
 *   stage_finished.c a folder that has its name already
 *   stage_graph.c    graph, score, ranks, relabelled graph, in memory or in files
 *   stage_write.c    files of what is in memory, with their checksums; manifest
 *   stage_probe.c    what the devices do
 *   stage_plan.c     how rows are brought into order
 *   stage_rows.c     rows in order, a range at a time
 *   stage_gather.c   those of a range read where they lie
 *   stage_reads.c    many reads in flight
 *   stage_image.c    a range as it lies in the files, and written to them
 *   stage_scan.c     rows read in their old order
 *   stage_deal.c     rows dealt into buckets that lie in the file itself
 */
#ifndef RUNG_IO_STAGE_PRIVATE_H
#define RUNG_IO_STAGE_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "dataset/checksum.h"
#include "file/direct.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "rung/edges.h"
#include "rung/stage.h"
#include "folder/stage_journal.h"
#include "rows/stage_reads.h"
#include "layout/layout.h"

/**
 * The folder. Files are made in OUT.partial, which this process holds locked; it becomes OUT by one rename when it is
 * complete, so that OUT is at any moment absent, the old dataset, or the new one.
 */
struct rung__stage_dir {
	char *path;                                   /* OUT, without slashes at its end */
	char *partial_path;                           /* OUT.partial */
	char *aside_path;                             /* where OUT goes on file systems that cannot exchange two folders */
	const char *name, *partial_name, *aside_name; /* their last parts, inside parent_fd */
	int parent_fd;
	int fd; /* OUT.partial; -1 while it is not ours */
	bool force, resume, replaces;
	bool keep;       /* something in OUT.partial is finished: it stays when the run fails */
	bool staged;     /* OUT is a dataset, perhaps of the job that is to go on */
	bool published;  /* OUT has a journal: a run was killed as that was to be removed */
	char left[RUNG__ERROR_BYTES]; /* what was replaced and could not be removed, and why; "":
					 nothing */
};

/** Open the parent, and see that OUT may be written: RUNG_E_EXIST when it is there and not to be replaced. Writes nothing. */
int rung__stage_dir_init(struct rung__stage_dir *dir, const char *out_dir, bool force, bool resume);
/**
 * Make and lock OUT.partial, and read its journal. What an earlier run left there stays when it is to go on and has finished something, and
 * is removed else. RUNG_E_BUSY when another process has it, RUNG_E_EXIST when it holds files that are not rung's, or finished work that is
 * neither to go on nor to be thrown away.
 */
int rung__stage_dir_acquire(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Open an OUT that is `staged`, as `fd`. Sets `published`; it is locked then. RUNG_E_BUSY when
 * another process is at it. */
int rung__stage_dir_open_out(struct rung__stage_dir *dir);
/** Let go of it: OUT.partial is to be made. */
void rung__stage_dir_close_out(struct rung__stage_dir *dir);
/** Sync the folder that OUT.partial is in: what the journal says of OUT.partial counts only while
 * that has a name. */
int rung__stage_dir_sync_parent(const struct rung__stage_dir *dir);
/** Remove the files of OUT.partial that the journal does not call finished or begun. */
int rung__stage_dir_drop_unfinished(struct rung__stage_dir *dir, struct rung__journal *journal);
/** Give the complete OUT.partial its name, remove its journal, and remove what it replaces. */
int rung__stage_dir_publish(struct rung__stage_dir *dir);
/** What was left of that when a run was killed right behind giving the name: OUT is `published`. */
int rung__stage_dir_finish(struct rung__stage_dir *dir);
/** Remove OUT.partial if it is still ours and nothing in it is finished, and close everything. */
void rung__stage_dir_fini(struct rung__stage_dir *dir);
/** Bytes where OUT will be that are free, or taken by OUT.partial already. */
int rung__stage_dir_free_bytes(const struct rung__stage_dir *dir, uint64_t *free_out);

struct rung__stage_split_ids {
	uint64_t *ids;
	uint64_t count;
};

/** How rows of a source come into the files of an array. */
struct rung__rows_plan {
	enum rung_stage_plan kind;
	uint64_t range_rows;     /* rows of the output that are put in order at a time */
	uint64_t range_count;
	uint32_t area_count;     /* 2: one is written while the next is filled */
	uint64_t area_bytes;
	uint32_t reader_count;   /* reads in flight: of threads, or of one that gathers */
	uint64_t read_bytes;     /* of each, with a page at both ends */
	uint64_t memory_bytes;   /* of all that */
	uint64_t bytes_read, bytes_written;
	uint64_t temp_bytes;     /* that the files are longer meanwhile */
	double seconds;          /* 0: not known */
};

/** Labels and further arrays: a row a vertex, each in one file. */
struct rung__carried {
	struct rung_source *src;
	const char *what;                    /* "labels", "arrays" */
	char name[RUNG__SPLIT_NAME_BYTES + 16];   /* of the file */
	struct rung__layout layout;
	struct rung__rows_plan plan;
};

/** What the devices do; 0: not measured. */
struct rung__figures {
	double read_bytes_per_s, write_bytes_per_s, row_reads_per_s;
	bool one_device;   /* source and output share it */
};

struct rung__stage {
	struct rung_stage_opts opts;
	int threads;
	uint64_t memory_bytes;          /* the budget */
	bool in_files;                  /* the graph stays in files */
	enum rung_score_method method;  /* by its own name also when it is the default; without score_source */
	struct rung__stage_dir dir;
	struct rung__journal journal;
	struct rung_source *features, *score_source;
	struct rung__stage_split_ids *splits; /* [opts.split_count], original ids */
	uint64_t edge_count_max;              /* the graph has at most so many */
	uint64_t block_count_max;             /* and all files, checksums.npy among them, so many blocks */
	uint64_t graph_source_bytes;          /* that its sources hold while it is read */
	struct rung__figures figures;
	struct rung__rows_plan features_plan;
	struct rung__carried carried[1 + RUNG__ARRAYS_MAX];
	uint32_t carried_count;
	uint64_t rows_bytes;                  /* most memory that one of the two takes */
	struct rung_graph *graph;             /* one of the two, while it is needed */
	struct rung_edges *edges;
	float *score; /* by original id */
	void *vertex_of_rank, *rank_of_vertex;
	struct rung__manifest *manifest;
	char *job, *job_inputs; /* lines of stage_job.c; those of the inputs are the last of all */
	uint64_t *sums;        /* [manifest->block_count] */
	unsigned char *buffer; /* [RUNG__STAGE_BUFFER_BYTES] of the file being written */
	uint64_t step_done, step_total; /* bytes of the present step, for progress */
	uint64_t phase_ns, phase_read_bytes, phase_written_bytes; /* when it began */
	struct rung_stage_report report;
};

#define RUNG__JOURNAL_RANKED "ranked" /* the line behind which there is something to go on with */
#define RUNG__ROW_READS 128u                       /* in flight, of single rows, where memory allows */
#define RUNG__ROW_READ_BYTES (UINT64_C(32) << 10)  /* of each, at most */
#define RUNG__STAGE_BUFFER_BYTES (4u << 20) /* whole blocks of the checksums */

/** Open and check every input, read the splits, and fill the manifest with what they say. */
int rung__stage_open_inputs(struct rung__stage *stage);
void rung__stage_close_inputs(struct rung__stage *stage);

/* ---- layout ---- */

/** Stride and files of the features, into the manifest. */
int rung__stage_plan_layout(struct rung__stage *stage);
uint64_t rung__padded_stride(uint64_t row_bytes, enum rung_stage_pad pad);
/** The folders are folders, and names of files in them are not too long. */
int rung__stripes_check_folders(const struct rung__stage *stage);
/** They may be written to. */
int rung__stripes_check(const struct rung__stage *stage);
/** Make features file `file` in its folder, and `name` in OUT.partial a link to it. @return descriptor, or a failure */
int rung__stripe_make(const struct rung__stage *stage, uint32_t file, const char *name);
/** Does a link lead to such a file? */
bool rung__stripe_link_ok(int dir_fd, const char *name, char target_out[PATH_MAX]);
/** Remove the file that a link leads to, if it does. */
int rung__stripe_remove(int dir_fd, const char *name);

/** RUNG_E_NOSPC when a file system lacks room for all that goes there: OUT, stripes, and the
 * temporary files of the graph. */
int rung__stage_check_space(struct rung__stage *stage);

/* ---- memory ---- */

/** Settle the budget, and whether the graph goes into memory. RUNG_E_INVAL with the least that works. */
int rung__stage_plan_memory(struct rung__stage *stage);
/** Most bytes held at once. */
uint64_t rung__stage_memory_of(const struct rung__stage *stage);
/** What is held from the first step to the last: splits and checksums. */
uint64_t rung__stage_fixed_bytes(const struct rung__stage *stage);
/** Of the budget, what the buffers of a pass over edges in files may take. */
uint64_t rung__stage_edges_bytes(const struct rung__stage *stage);
/** Both maps, or one. */
uint64_t rung__stage_map_bytes(const struct rung__stage *stage, unsigned maps);

/* ---- the job ---- */

/** Look at the inputs, before any is opened. */
int rung__stage_job_begin(struct rung__stage *stage);
/** All that the files depend on, for the manifest and the journal; the layout is known. */
int rung__stage_job_describe(struct rung__stage *stage);
/** Add it to a new journal. */
int rung__stage_job_note(struct rung__stage *stage);
/** RUNG_E_INVAL naming what differs when the journal that was found is another job's. */
int rung__stage_job_check(const struct rung__stage *stage);
/** RUNG_E_EXIST naming what differs when a dataset's record is another job's, or NULL. */
int rung__stage_job_check_finished(const struct rung__stage *stage, const char *recorded);
/** RUNG_E_CORRUPT naming the input that is not what it was at rung__stage_job_begin(). */
int rung__stage_job_unchanged(const struct rung__stage *stage);
/** Is OUT, which is `staged`, this job's dataset? Then it is checked, and nothing is left to do.
 * With force another one is no failure. */
int rung__stage_finished(struct rung__stage *stage, bool *finished_out);

/* ---- graph ---- */

/** How many edges there are at most, from what the files say. */
int rung__stage_count_edges(struct rung__stage *stage);
/** What the manifest has of graph and score: from the journal, or by reading the graph. */
int rung__stage_settle_counts(struct rung__stage *stage);
/** Graph, score, ranks, and the files of the maps and the score; or the maps as an earlier run left them. */
int rung__stage_rank(struct rung__stage *stage);
/** The files of the relabelled graph. From here on the only map is rank_of_vertex. */
int rung__stage_relabel(struct rung__stage *stage);
/** Read the graph, unless that was done; the manifest then has its edges. */
int rung__stage_load_graph(struct rung__stage *stage);
void rung__stage_drop_graph(struct rung__stage *stage);

/* ---- files ---- */

/** Is a file finished already? */
bool rung__stage_file_done(const struct rung__stage *stage, const char *name);
/** Write an array that is in memory, sync it, and add it to the journal, to be committed. */
int rung__stage_write_array(struct rung__stage *stage, const char *name, const void *data);
/** Score by rank. */
int rung__stage_write_score(struct rung__stage *stage);
/** The same for a file that another function wrote and synced: its blocks are read and summed. */
int rung__stage_sum_file(struct rung__stage *stage, const char *name);
/** An array as an earlier run left it; RUNG_E_CORRUPT when it is another by now. */
int rung__stage_read_array(struct rung__stage *stage, const char *name, void *data_out);
/** All splits, as ranks in the order they were given. */
int rung__stage_write_splits(struct rung__stage *stage);
/** checksums.npy, and the manifest under its temporary name. */
int rung__stage_write_manifest(struct rung__stage *stage);

/** Room for a buffer, and for the checksums of all blocks; those that the journal has are set. */
int rung__stage_take_sums(struct rung__stage *stage);

/* ---- checks ---- */

#define RUNG__STAGE_CURE \
	"put the file back and continue with --resume, or start from scratch with --force"

/** Is a block compared with its checksum before the folder gets its name? All are of files under 64
 * MiB, else the first, the last, one in 64. */
static inline bool rung__block_is_checked(const struct rung__manifest_file *file, uint64_t block)
{
	return file->bytes < UINT64_C(64) << 20 || block % 64 == 0 ||
	       block + 1 == file->block_count;
}

/** The files in OUT.partial that the journal calls finished. RUNG_E_CORRUPT naming the first that
 * is missing, cut or changed. */
int rung__stage_check_done(struct rung__stage *stage);
/** All files of stage->manifest in the folder dir.fd, called `dir` in messages, whose `cure` they
 * end in. */
int rung__stage_check_all(struct rung__stage *stage, const char *dir, const char *cure);
/** The manifest under its temporary name, likewise. */
int rung__stage_check_manifest(struct rung__stage *stage);

/* ---- rows ---- */

struct rung__image_part {
	uint64_t begin, base, end; /* bytes of the file: of new rows, whole blocks before that, behind the last row */
	unsigned char *at;         /* where base is */
	uint64_t first_piece;      /* of the pieces that the image is written in */
};

/** Rows [first, end) of an array, by rank, as they lie in its files. */
struct rung__image {
	uint64_t first, end;
	uint64_t dealt_sum;        /* rows->dealt_sum once it was filled */
	uint64_t piece_count;
	struct rung__image_part parts[RUNG__FILES_MAX];
};

struct rung__stage_rows {
	struct rung__stage *stage;
	const char *what;                        /* "features", "labels", "arrays" */
	const struct rung_source *src;
	const struct rung__manifest_file *files; /* [layout.file_count] of the manifest */
	struct rung__layout layout;
	struct rung__direct out[RUNG__FILES_MAX];
	char *paths[RUNG__FILES_MAX];
	struct rung__rows_plan plan;
	struct rung__direct source;              /* fd -1: it is in memory, or inflated as it is read */
	uint64_t row_count;
	uint64_t done;                           /* rows that are written, synced and in the journal */
	unsigned char *areas[2];                 /* [plan.area_bytes] */
	unsigned char *read_buffers;             /* [plan.reader_count][plan.read_bytes] */
	struct rung__row_reads reads;                /* into them, of single rows */
	void *vertices;                          /* [plan.range_rows] of the range, ascending; for plans that need it */
	unsigned char *tails;                    /* [file_count][RUNG__BLOCK_BYTES] what the last range began of the next block */
	bool tails_known;
	const struct rung__image *written;       /* the range being written */
	_Atomic uint64_t dealt_sum; /* rung__row_sum() of all rows that are in a bucket, modulo
				       2^64: 0 when all came back as they were */
};

/** Write all rows of a source, in rank order, into the layout's files, `name` the first of them. */
int rung__stage_write_rows(struct rung__stage *stage, const struct rung_source *src, const char *what, const char *name,
			   const struct rung__layout *layout, const struct rung__rows_plan *plan);

/** The plan for it within the budget, `name` being the first file; RUNG_E_INVAL with the least that the rows take. */
int rung__rows_plan(struct rung__stage *stage, const struct rung_source *src, const char *name, const struct rung__layout *layout,
		    struct rung__rows_plan *plan_out);

/** Measure the devices of a source and of the output, for well under a second; zeros for a source too small to be worth it. */
void rung__stage_probe(const struct rung__stage *stage, const struct rung_source *src, struct rung__figures *figures_out);

/** Where bucket `bucket` of dealt rows lies: in which file, from which byte on. */
uint32_t rung__bucket_file(const struct rung__stage_rows *rows, uint64_t bucket);
uint64_t rung__bucket_offset(const struct rung__stage_rows *rows, uint64_t bucket);
/** Bytes of a file while buckets lie in it. */
uint64_t rung__dealt_file_bytes(const struct rung__layout *layout, const struct rung__rows_plan *plan, uint64_t row_count, uint32_t file);
/** Of a row of a vertex, for rung__stage_rows.dealt_sum: buckets are in no checksum of the
 * dataset's, and may be read by a later run. */
static inline uint64_t rung__row_sum(const struct rung__stage_rows *rows, uint64_t vertex,
				     const unsigned char *row)
{
	return rung__mix64(rung__checksum(row, (size_t)rows->layout.row_bytes) ^
			   rung__mix64(vertex));
}

/** Deal what is not dealt yet. */
int rung__stage_deal(struct rung__stage_rows *rows);

/** Lay out rows [first, end) in an area, behind what the range before began of their first blocks. */
int rung__image_begin(const struct rung__stage_rows *rows, uint64_t first, uint64_t end, unsigned char *area, struct rung__image *image);
/** Keep what the next range goes on behind. */
void rung__image_keep_tails(struct rung__stage_rows *rows, const struct rung__image *image);
/** Bytes of area that `row_count` rows take at most. */
uint64_t rung__image_bytes(const struct rung__layout *layout, uint64_t row_count);
/** Begin to write it; end with rung__jobs_end(). */
struct rung__jobs;
int rung__image_write(struct rung__stage_rows *rows, const struct rung__image *image, struct rung__jobs **jobs_out);
/** Sync the files. */
int rung__rows_sync(const struct rung__stage_rows *rows);
/** Add to the journal that the rows up to image->end are done, to be committed. */
int rung__image_note(struct rung__stage_rows *rows, const struct rung__image *image);
/** The row of a rank that is in the image: bytes behind it up to the next are to be zero. */
static inline unsigned char *rung__image_row(const struct rung__image *image, const struct rung__layout *layout, uint64_t rank)
{
	const struct rung__image_part *part = &image->parts[rung__row_file(layout, rank)];

	return part->at + (rung__row_offset(layout, rank) - part->base);
}

static inline void rung__image_put(const struct rung__image *image, const struct rung__layout *layout, uint64_t rank,
				   const unsigned char *row)
{
	unsigned char *to = rung__image_row(image, layout, rank);

	memcpy(to, row, (size_t)layout->row_bytes);
	memset(to + layout->row_bytes, 0, (size_t)(layout->row_stride - layout->row_bytes));
}

/** Vertex number `place` of those of a range, which ascend. */
static inline uint64_t rung__rows_vertex(const struct rung__stage_rows *rows, uint64_t place)
{
	return rung__id_get(rows->vertices, rows->stage->manifest->index_bytes, place);
}

static inline void rung__image_put_vertex(const struct rung__stage_rows *rows, const struct rung__image *image, uint64_t vertex,
					  const unsigned char *row)
{
	const struct rung__stage *stage = rows->stage;

	rung__image_put(image, &rows->layout, rung__id_get(stage->rank_of_vertex, stage->manifest->index_bytes, vertex), row);
}

/** Fill a range with its rows, which rows->vertices names. */
int rung__stage_gather(struct rung__stage_rows *rows, const struct rung__image *image);

/** Rows behind each other: in memory, in a file, or inflated. */
struct rung__row_span {
	const unsigned char *data;   /* NULL: not in memory */
	const struct rung_source *src;   /* that they are of; NULL: dealt rows */
	bool streamed;               /* read through `src`; else from the file */
	const struct rung__direct *file;
	uint64_t offset;             /* of the first in the file */
};

/** Rows [first, first + count), as chunk number `chunk` of a scan; called by several threads, each with another chunk. */
typedef void (*rung__scan_fn)(void *ctx, uint64_t chunk, uint64_t first, uint64_t count, const unsigned char *rows);

/** Rows of a chunk. */
uint64_t rung__scan_chunk_rows(const struct rung__stage_rows *rows);
/** Read rows [first, first + count) of a span. Chunk 0 begins at `first`. */
int rung__scan(struct rung__stage_rows *rows, const struct rung__row_span *span, uint64_t first, uint64_t count, rung__scan_fn fn,
	       void *ctx);
/** The source's rows as a span. */
struct rung__row_span rung__source_span(const struct rung__stage_rows *rows);

/* ---- progress ---- */

/** Progress of this run; nonzero cancels, with the failure recorded. */
int rung__stage_progress(const struct rung__stage *stage, const char *what, uint64_t done, uint64_t total);
/** So many bytes more of the step `what`. */
int rung__stage_advance(struct rung__stage *stage, const char *what, uint64_t bytes);
/** A step of the report begins, and the one before ends; NULL: only that. */
void rung__stage_phase(struct rung__stage *stage, const char *name);

/** Tests: called before each step that changes the file system; NULL (the default): not. */
extern void (*rung__stage_step_hook)(const char *step);

/** Tests: do without renameat2(), as on file systems that lack its flags. */
extern bool rung__stage_plain_rename;

/** Tests: at most so many rows in a range; 0 (the default): as many as fit. */
extern uint64_t rung__stage_range_rows_max;

/** Tests: leave the graph in files, whatever fits. */
extern bool rung__stage_graph_in_files;

static inline void rung__stage_step(const char *step)
{
	if (rung__stage_step_hook)
		rung__stage_step_hook(step);
}

#endif
