/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with io_uring, by the strategies of three other systems. The rules follow their published
 * code; the implementation is our own.
 *
 * uring-rows (GraphBolt): one read per row, of the 4096-byte blocks that hold it; a ring of 512,
 * groups of 256 that complete as a whole; rows are copied from a bounce buffer.
 *
 * uring-pages (DiskGNN): the distinct 4096-byte pages of the batch, in ascending order; a ring of
 * 1024, submitted in groups of 64; each full ring completes as a whole; rows are copied from the
 * pages.
 *
 * uring-slot (GNNDrive): a ring of 80 created for each batch, one system call per row; whole
 * 512-byte sectors are read directly into the output.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cold.h"

#define ROWS_RING    512u
#define ROWS_GROUP   256u
#define PAGES_RING   1024u
#define PAGES_SUBMIT 64u
#define SLOT_RING    80u
#define SECTOR       512u

struct uring {
	struct io_uring ring;
	int fd;
	unsigned char *bounce;
	uint64_t bounce_bytes; /* per row: its blocks at any alignment */
	/* uring-pages: */
	uint64_t *marks; /* one bit per page of the file, zero between batches */
	uint64_t mark_words;
	uint32_t *place_of_page; /* in the bounce buffer, valid for pages of the batch */
	uint64_t *pages;         /* of the batch, ascending */
};

static void make_ring(struct uring *u, unsigned entries)
{
	const int rc = io_uring_queue_init(entries, &u->ring, 0);

	if (rc < 0)
		bench_die("a ring of %u entries cannot be created: %s%s", entries, strerror(-rc),
		          rc == -ENOMEM ? "; raise ulimit -l" : "");
}

static struct uring *open_uring(struct cold_run *run, unsigned entries)
{
	struct uring *u = calloc(1, sizeof(*u));

	if (!u)
		bench_die("out of memory");
	if (entries)
		make_ring(u, entries);
	u->fd = cold_open_direct(run);
	run->state = u;
	return u;
}

static void close_uring(struct cold_run *run)
{
	struct uring *u = run->state;

	if (u->ring.ring_fd > 0)
		io_uring_queue_exit(&u->ring);
	close(u->fd);
	free(u->marks);
	free(u->place_of_page);
	free(u->pages);
	free(u);
}

/* The user data of a read is the least number of bytes that it must return: the last block of the
 * file may be shorter. */
static void prepare_read(struct cold_run *run, struct uring *u, void *to, uint64_t bytes,
                         uint64_t offset, uint64_t needed)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (!sqe)
		bench_die("the submission queue is full");
	io_uring_prep_read(sqe, u->fd, to, (unsigned)bytes, offset);
	io_uring_sqe_set_data64(sqe, needed);
	run->reads++;
	run->read_bytes += bytes;
}

/* Submits pending reads, waits for `count` completions and checks their length. */
static void wait_for(const struct cold_run *run, struct uring *u, unsigned count)
{
	while (count > 0) {
		struct io_uring_cqe *cqe;
		unsigned head, seen = 0;
		int rc = io_uring_submit_and_wait(&u->ring, count);

		if (rc < 0 && rc != -EINTR)
			bench_die("waiting for reads: %s", strerror(-rc));
		io_uring_for_each_cqe(&u->ring, head, cqe)
		{
			if (cqe->res < 0 || (uint64_t)cqe->res < io_uring_cqe_get_data64(cqe))
				bench_die("%s: a read failed", run->features.path);
			if (++seen == count)
				break;
		}
		io_uring_cq_advance(&u->ring, seen);
		count -= seen;
	}
}

/* ---- uring-rows ---- */

static uint64_t rows_bytes(const struct cold_run *run)
{
	return ROWS_GROUP * (cold_page_end(run->features.row_bytes) + BENCH_PAGE);
}

static void open_rows(struct cold_run *run)
{
	struct uring *u = open_uring(run, ROWS_RING);

	u->bounce_bytes = rows_bytes(run) / ROWS_GROUP;
	u->bounce = bench_map(rows_bytes(run));
}

static void begin_rows(struct cold_run *run, uint64_t batch, unsigned char *out)
{
	const struct cold_batch *b = &run->batches[batch];
	uint64_t row_bytes = run->features.row_bytes;
	struct uring *u = run->state;

	for (uint64_t first = 0; first < b->count; first += ROWS_GROUP) {
		uint64_t count = b->count - first < ROWS_GROUP ? b->count - first : ROWS_GROUP;

		for (uint64_t i = 0; i < count; i++) {
			uint64_t offset = cold_offset(run, b->ranks[first + i]),
				 begin = cold_page_begin(offset);

			prepare_read(run, u, u->bounce + i * u->bounce_bytes,
			             cold_page_end(offset + row_bytes) - begin, begin,
			             offset + row_bytes - begin);
		}
		wait_for(run, u, (unsigned)count);
		for (uint64_t i = 0; i < count; i++)
			memcpy(out + (first + i) * row_bytes,
			       u->bounce + i * u->bounce_bytes +
			               cold_offset(run, b->ranks[first + i]) % BENCH_PAGE,
			       row_bytes);
	}
}

const struct cold_strategy cold_uring_rows = { "uring-rows", open_rows, NULL,        begin_rows,
	                                       NULL,         NULL,      close_uring, rows_bytes };

/* ---- uring-pages ---- */

static void open_pages(struct cold_run *run)
{
	struct uring *u = open_uring(run, PAGES_RING);
	uint64_t page_count = cold_page_end(cold_offset(run, run->features.row_count)) / BENCH_PAGE;
	uint64_t pages_max = run->rows_max * (run->features.row_bytes / BENCH_PAGE + 2);

	u->mark_words = page_count / 64 + 1;
	u->marks = calloc(u->mark_words, sizeof(*u->marks));
	u->place_of_page = calloc(page_count + 1, sizeof(*u->place_of_page));
	u->pages = calloc(pages_max + 1, sizeof(*u->pages));
	if (!u->marks || !u->place_of_page || !u->pages)
		bench_die("out of memory");
	u->bounce = bench_map((pages_max < page_count ? pages_max : page_count) * BENCH_PAGE);
}

/* Fills u->pages, ascending. @return their number */
static uint64_t distinct_pages(const struct cold_run *run, struct uring *u,
                               const struct cold_batch *b)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < b->count; i++) {
		uint64_t offset = cold_offset(run, b->ranks[i]),
			 end = offset + run->features.row_bytes;

		for (uint64_t page = offset / BENCH_PAGE; page * BENCH_PAGE < end; page++)
			u->marks[page / 64] |= 1ull << page % 64;
	}
	for (uint64_t word = 0; word < u->mark_words; word++) {
		for (uint64_t bits = u->marks[word]; bits; bits &= bits - 1) {
			uint64_t page = word * 64 + (unsigned)__builtin_ctzll(bits);

			u->place_of_page[page] = (uint32_t)count;
			u->pages[count++] = page;
		}
		u->marks[word] = 0;
	}
	return count;
}

static void copy_row(const struct cold_run *run, const struct uring *u, uint64_t rank,
                     unsigned char *to)
{
	uint64_t offset = cold_offset(run, rank), left = run->features.row_bytes;

	while (left > 0) {
		uint64_t in_page = offset % BENCH_PAGE,
			 bytes = BENCH_PAGE - in_page < left ? BENCH_PAGE - in_page : left;

		memcpy(to,
		       u->bounce + (uint64_t)u->place_of_page[offset / BENCH_PAGE] * BENCH_PAGE +
		               in_page,
		       bytes);
		to += bytes;
		offset += bytes;
		left -= bytes;
	}
}

static void begin_pages(struct cold_run *run, uint64_t batch, unsigned char *out)
{
	const struct cold_batch *b = &run->batches[batch];
	struct uring *u = run->state;
	uint64_t count = distinct_pages(run, u, b),
		 file_end = cold_offset(run, run->features.row_count);

	for (uint64_t i = 0; i < count;) {
		uint64_t wave = count - i < PAGES_RING ? count - i : PAGES_RING;

		for (uint64_t end = i + wave; i < end; i++) {
			uint64_t begin = u->pages[i] * BENCH_PAGE;

			prepare_read(run, u, u->bounce + i * BENCH_PAGE, BENCH_PAGE, begin,
			             file_end - begin < BENCH_PAGE ? file_end - begin : BENCH_PAGE);
			if ((i + 1) % PAGES_SUBMIT == 0)
				io_uring_submit(&u->ring);
		}
		wait_for(run, u, (unsigned)wave);
	}
	for (uint64_t i = 0; i < b->count; i++)
		copy_row(run, u, b->ranks[i], out + i * run->features.row_bytes);
}

/* Only the pages of one ring count: a program could copy their rows before it reads on. */
static uint64_t pages_bytes(const struct cold_run *run)
{
	(void)run;
	return (uint64_t)PAGES_RING * BENCH_PAGE;
}

const struct cold_strategy cold_uring_pages = {
	"uring-pages", open_pages, NULL, begin_pages, NULL, NULL, close_uring, pages_bytes
};

/* ---- uring-slot ---- */

static void open_slot(struct cold_run *run)
{
	const struct bench_features *features = &run->features;

	if (features->row_bytes % SECTOR || features->row_stride % SECTOR ||
	    features->data_offset % SECTOR)
		bench_die("uring-slot: rows must be whole sectors of %u bytes", SECTOR);
	open_uring(run, 0); /* begin_slot() creates the ring */
}

static void begin_slot(struct cold_run *run, uint64_t batch, unsigned char *out)
{
	const struct cold_batch *b = &run->batches[batch];
	uint64_t row_bytes = run->features.row_bytes;
	struct uring *u = run->state;
	unsigned in_flight = 0;

	make_ring(u, SLOT_RING);
	for (uint64_t i = 0; i < b->count; i++) {
		if (in_flight == SLOT_RING) {
			wait_for(run, u, 1);
			in_flight--;
		}
		prepare_read(run, u, out + i * row_bytes, row_bytes, cold_offset(run, b->ranks[i]),
		             row_bytes);
		if (io_uring_submit(&u->ring) < 0)
			bench_die("%s: a read cannot be submitted", run->features.path);
		in_flight++;
	}
	wait_for(run, u, in_flight);
	io_uring_queue_exit(&u->ring);
	u->ring.ring_fd = 0; /* close_uring() has nothing to release */
}

/* Rows are read into the output. */
static uint64_t slot_bytes(const struct cold_run *run)
{
	(void)run;
	return 0;
}

const struct cold_strategy cold_uring_slot = { "uring-slot", open_slot, NULL,        begin_slot,
	                                       NULL,         NULL,      close_uring, slot_bytes };
