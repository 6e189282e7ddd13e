/* SPDX-License-Identifier: Apache-2.0 */
/** A reader of a file with known content, on a disk, without an engine yet. */
#ifndef SUPPORT_ENGINE_FIXTURE_H
#define SUPPORT_ENGINE_FIXTURE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dataset.h"
#include "engine/file_reader.h"
#include "file/file.h"
#include "store_fixture.h"

#define FILE_BYTES (1u << 20)
#define POOL_BYTES (1u << 20)
#define DEPTH      8u

static char folder[256], path[300];
static unsigned char content[FILE_BYTES];
static unsigned char *pool;
static struct rung__reader reader;

/* Opens the reader's file in the same way as file_reader.c. */
static inline void open_reader(void)
{
	reader = (struct rung__reader){
		.args = { .pool = pool,
		          .pool_bytes = POOL_BYTES,
		          .probe_bytes = POOL_BYTES,
		          .token_count = DEPTH,
		          .queue_depth = DEPTH },
		.geometry = { .file_bytes = FILE_BYTES, .path = path },
		.path = path,
		.fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC),
		.direct = true,
	};
	if (reader.fd < 0) {
		reader.fd = open(path, O_RDONLY | O_CLOEXEC);
		reader.direct = false;
	}
	reader.geometry.align = rung__dio_align(reader.fd);
}

static inline void close_reader(void)
{
	rung__engine_end(&reader);
	close(reader.fd);
}

static inline void set_up(void)
{
	const char *tmp = getenv("TMPDIR");

	/* /var/tmp: /tmp may be a tmpfs, and the file must be on a disk */
	snprintf(folder, sizeof(folder), "%s/rung-engine-XXXXXX", tmp ? tmp : "/var/tmp");
	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	for (size_t i = 0; i < FILE_BYTES; i++)
		content[i] = (unsigned char)(rung__mix64(i / 8) >> i % 8 * 8);
	cr_assert_eq(support_write_file(path, content, FILE_BYTES), 0);
	pool = rung__map_pages(POOL_BYTES);
	cr_assert(pool);
	open_reader();
}

static inline void tear_down(void)
{
	close_reader();
	rung__unmap_pages(pool, POOL_BYTES);
	support_remove(folder);
}

#endif
