/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the pages of other processes. A page is copied with read(), not mapped: its owner, or
 * another process of the user, could shorten the file, and mapped memory past its end cannot be
 * read. In practice the kernel copies whole words, so each counter is one that was stored.
 */
#include "watch/watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VIEWS_MAX 256u /* the pages of a user that are read */
#define READS_MAX 8u   /* attempts to copy a page between two changes of its waits */

struct reading {
	struct rung__watch_view *views; /* [VIEWS_MAX] */
	size_t count;
	struct rung__watch_page *page; /* the copy of one */
};

/* Control characters would be obeyed by a terminal. */
static void tame(char *text)
{
	for (; *text; text++) {
		const unsigned char byte = (unsigned char)*text;

		/* 0xc2 begins the control characters above 127 in UTF-8 */
		if (byte < ' ' || byte == 0x7f || (byte == 0xc2 && (unsigned char)text[1] < 0xa0))
			*text = '?';
	}
}

static void copy_text(char *to, const char *from, size_t room)
{
	memcpy(to, from, room);
	to[room - 1] = 0;
	tame(to);
}

/* Copy a page. @return false if it is not a valid one */
static bool copy_page(int fd, struct rung__watch_page *page)
{
	for (unsigned tries = 0; tries < READS_MAX; tries++) {
		const off_t seq_at = (off_t)offsetof(struct rung__watch_page, waits.seq);
		uint64_t seq;

		if (pread(fd, page, sizeof(*page), 0) != (ssize_t)sizeof(*page) ||
		    pread(fd, &seq, sizeof(seq), seq_at) != (ssize_t)sizeof(seq))
			return false;
		if (seq % 2 == 0 && seq == page->waits.seq)
			break;
	}
	if (page->waits.seq % 2) { /* it changed in each attempt: only waits that ended count */
		for (unsigned kind = 0; kind < RUNG__WAIT_COUNT; kind++)
			atomic_store(&page->waits.since_ns[kind], 0);
	}
	atomic_store(&page->waits.seq, 0); /* the copy does not change */
	return page->is_open == 1 && page->bytes == sizeof(*page) &&
	       page->file_count <= RUNG_FEATURE_FILES_MAX;
}

/* Name and first argument of a process: "rung bench". */
static void name_process(struct rung__watch_view *view)
{
	char path[64], text[4096], *name, *slash;
	ssize_t length = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/cmdline", view->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		length = read(fd, text, sizeof(text) - 2);
		close(fd);
	}
	if (length <= 0)
		return;
	text[length] = text[length + 1] = 0;
	slash = strrchr(text, '/');
	name = slash ? slash + 1 : text;
	snprintf(view->command, sizeof(view->command), "%.31s %.31s", name,
	         text + strlen(text) + 1);
	if (view->command[strlen(view->command) - 1] == ' ')
		view->command[strlen(view->command) - 1] = 0;
	tame(view->command);
}

static void fill_tiers(const struct rung__watch_page *page, struct rung__watch_view *view)
{
	for (unsigned t = 0; t < RUNG_TIERS_MAX; t++) {
		struct rung_tier_stats *tier = &view->stats.tiers[view->stats.tier_count];

		if (!page->tiers[t].name[0])
			continue;
		copy_text(view->tier_names[view->stats.tier_count++], page->tiers[t].name,
		          RUNG__WATCH_NAME_BYTES);
		tier->rows = page->tiers[t].rows;
		tier->hits = page->counters.tier_hits[t];
		tier->bytes = tier->hits * page->row_bytes;
	}
}

/* As rung__watch_folder_each() calls it. */
static void add_page(void *ctx, int fd, uint32_t number)
{
	struct reading *reading = ctx;
	const struct rung__watch_page *page = reading->page;
	struct rung__watch_view *view = &reading->views[reading->count];

	if (reading->count == VIEWS_MAX || !copy_page(fd, reading->page))
		return;
	reading->count++;
	*view = (struct rung__watch_view){
		.pid = page->pid,
		.owner_pid = page->owner_pid,
		.number = number,
		.is_lists = page->is_lists != 0,
		.is_attached = page->is_attached != 0,
		.opened_s = page->opened_s,
		.now_ns = rung__now_ns(),
		.row_bytes = page->row_bytes,
		.queue_depth = page->queue_depth,
	};
	copy_text(view->engine, page->engine, sizeof(view->engine));
	copy_text(view->dataset, page->dataset, sizeof(view->dataset));
	view->stats.cache_rows = page->cache_rows;
	fill_tiers(page, view);
	rung__watch_sum(page, page->file_count, view->now_ns, &view->stats);
	name_process(view);
}

static int compare(const void *a, const void *b)
{
	const struct rung__watch_view *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Whether a folder is new. It is then added to those in `seen`. */
static bool is_new(int dir_fd, struct stat *seen, unsigned *count)
{
	if (fstat(dir_fd, &seen[*count]) < 0)
		return false;
	for (unsigned i = 0; i < *count; i++) {
		if (seen[i].st_dev == seen[*count].st_dev && seen[i].st_ino == seen[*count].st_ino)
			return false;
	}
	++*count;
	return true;
}

int rung__watch_read(struct rung__watch_view **views_out, size_t *count_out)
{
	struct reading reading = { .views = rung__zalloc_array(VIEWS_MAX, sizeof(**views_out)),
		                   .page = rung__malloc_aligned(64, sizeof(*reading.page)) };
	char folder[RUNG__WATCH_PATH_BYTES], why[256];
	struct stat seen[RUNG__WATCH_FOLDERS];
	unsigned seen_count = 0;

	if (!reading.views || !reading.page) {
		rung__free(reading.views);
		rung__free(reading.page);
		return rung__fail(RUNG_E_NOMEM, "no memory for statistics pages");
	}
	for (unsigned i = 0; i < RUNG__WATCH_FOLDERS; i++) {
		int dir_fd = -1;

		if (rung__watch_folder(i, folder))
			dir_fd = rung__watch_folder_open(folder, false, why, sizeof(why));
		if (dir_fd < 0)
			continue;
		/* two names may lead to one folder */
		if (is_new(dir_fd, seen, &seen_count))
			rung__watch_folder_each(dir_fd, add_page, &reading);
		close(dir_fd);
	}
	rung__free(reading.page);
	qsort(reading.views, reading.count, sizeof(*reading.views), compare);
	/* only now: sorting has moved the texts */
	for (size_t v = 0; v < reading.count; v++) {
		struct rung__watch_view *view = &reading.views[v];

		view->stats.engine = view->engine;
		for (uint32_t t = 0; t < view->stats.tier_count; t++)
			view->stats.tiers[t].name = view->tier_names[t];
	}
	*views_out = reading.views;
	*count_out = reading.count;
	return 0;
}
