/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The position of the data of an entry in a zip file. The end record leads to the central
 * directory, its entry to the local header, and that to the data. Only the plain case is handled
 * (one disk, offsets from the start of the file, zip64 included); every number is checked against
 * the file. In any other case the answer is no, and the caller uses libzip.
 */
#include <string.h>

#include "file/file.h"
#include "base/base.h"
#include "zip/zip_offset.h"

#define END_BYTES           22u
#define END64_BYTES         56u
#define LOCATOR_BYTES       20u
#define ENTRY_BYTES         46u
#define LOCAL_BYTES         30u
#define COMMENT_BYTES_MAX   65535u
#define DIRECTORY_BYTES_MAX (64u << 20)
#define FLAG_ENCRYPTED      1u

struct directory {
	uint64_t offset, bytes, entry_count;
};

struct directory_entry {
	uint64_t bytes, stored_bytes, local_offset;
	unsigned method, flags;
	const unsigned char *name;
	size_t name_len;
};

static uint64_t le(const unsigned char *p, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = bytes; i-- > 0;)
		value = value << 8 | p[i];
	return value;
}

static bool read_at(int fd, void *buf, uint64_t bytes, uint64_t offset, uint64_t file_bytes)
{
	return offset <= file_bytes && bytes <= file_bytes - offset &&
	       rung__pread_all(fd, "zip", buf, bytes, offset) == 0;
}

static bool find_directory64(int fd, uint64_t file_bytes, uint64_t end_at, struct directory *dir)
{
	unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];

	if (end_at < LOCATOR_BYTES ||
	    !read_at(fd, locator, LOCATOR_BYTES, end_at - LOCATOR_BYTES, file_bytes) ||
	    memcmp(locator, "PK\6\7", 4) != 0)
		return false;
	if (!read_at(fd, end, END64_BYTES, le(locator + 8, 8), file_bytes) ||
	    memcmp(end, "PK\6\6", 4) != 0)
		return false;
	dir->entry_count = le(end + 32, 8);
	dir->bytes = le(end + 40, 8);
	dir->offset = le(end + 48, 8);
	return true;
}

static bool find_directory(int fd, uint64_t file_bytes, struct directory *dir)
{
	uint64_t tail_bytes = RUNG__MIN(file_bytes, END_BYTES + COMMENT_BYTES_MAX), at;
	unsigned char *tail;
	bool found = false;

	if (file_bytes < END_BYTES)
		return false;
	tail = rung__malloc((size_t)tail_bytes);
	if (!tail)
		return false;
	if (!read_at(fd, tail, tail_bytes, file_bytes - tail_bytes, file_bytes))
		goto free_tail;
	for (at = tail_bytes - END_BYTES + 1; at-- > 0 && !found;) {
		const unsigned char *end = tail + at;

		if (memcmp(end, "PK\5\6", 4) != 0 || le(end + 20, 2) != tail_bytes - at - END_BYTES)
			continue;
		found = true;
		dir->entry_count = le(end + 10, 2);
		dir->bytes = le(end + 12, 4);
		dir->offset = le(end + 16, 4);
		if (dir->entry_count == UINT16_MAX || dir->bytes == UINT32_MAX ||
		    dir->offset == UINT32_MAX)
			found = find_directory64(fd, file_bytes, file_bytes - tail_bytes + at, dir);
		if (!found)
			break;
	}
free_tail:
	rung__free(tail);
	return found && dir->bytes <= DIRECTORY_BYTES_MAX;
}

/* The zip64 field has those of the three numbers that did not fit, in this order. */
static bool widen(struct directory_entry *e, const unsigned char *extra, size_t extra_len)
{
	uint64_t *const numbers[] = { &e->bytes, &e->stored_bytes, &e->local_offset };

	while (extra_len >= 4) {
		size_t len = (size_t)le(extra + 2, 2);
		const unsigned char *at = extra + 4;

		if (len > extra_len - 4)
			return false;
		if (le(extra, 2) == 1) {
			for (size_t i = 0; i < RUNG__ARRAY_LEN(numbers); i++) {
				if (*numbers[i] != UINT32_MAX)
					continue;
				if (len < 8)
					return false;
				*numbers[i] = le(at, 8);
				at += 8;
				len -= 8;
			}
			return true;
		}
		extra += 4 + len;
		extra_len -= 4 + len;
	}
	return e->bytes != UINT32_MAX && e->stored_bytes != UINT32_MAX &&
	       e->local_offset != UINT32_MAX;
}

static bool find_entry(const unsigned char *dir, uint64_t dir_bytes, uint64_t idx,
                       struct directory_entry *e)
{
	for (uint64_t i = 0;; i++) {
		size_t name_len, extra_len, comment_len;

		if (dir_bytes < ENTRY_BYTES || memcmp(dir, "PK\1\2", 4) != 0)
			return false;
		name_len = (size_t)le(dir + 28, 2);
		extra_len = (size_t)le(dir + 30, 2);
		comment_len = (size_t)le(dir + 32, 2);
		if (dir_bytes - ENTRY_BYTES < name_len + extra_len + comment_len)
			return false;
		if (i == idx) {
			e->flags = (unsigned)le(dir + 8, 2);
			e->method = (unsigned)le(dir + 10, 2);
			e->stored_bytes = le(dir + 20, 4);
			e->bytes = le(dir + 24, 4);
			e->local_offset = le(dir + 42, 4);
			e->name = dir + ENTRY_BYTES;
			e->name_len = name_len;
			return widen(e, dir + ENTRY_BYTES + name_len, extra_len);
		}
		dir += ENTRY_BYTES + name_len + extra_len + comment_len;
		dir_bytes -= ENTRY_BYTES + name_len + extra_len + comment_len;
	}
}

static bool data_offset_of(int fd, uint64_t file_bytes, const struct directory_entry *e,
                           uint64_t *offset_out)
{
	unsigned char local[LOCAL_BYTES], name[UINT16_MAX];
	uint64_t at;

	if (!read_at(fd, local, LOCAL_BYTES, e->local_offset, file_bytes) ||
	    memcmp(local, "PK\3\4", 4) != 0 || le(local + 8, 2) != e->method ||
	    le(local + 26, 2) != e->name_len)
		return false;
	if (!read_at(fd, name, e->name_len, e->local_offset + LOCAL_BYTES, file_bytes) ||
	    memcmp(name, e->name, e->name_len) != 0)
		return false;
	/* below 2^63 + 2^17: the header was read */
	at = e->local_offset + LOCAL_BYTES + e->name_len + le(local + 28, 2);
	if (at > file_bytes || e->stored_bytes > file_bytes - at)
		return false;
	*offset_out = at;
	return true;
}

bool rung__zip_offset(int fd, uint64_t file_bytes, uint64_t idx,
                      const struct rung__zip_entry *wanted, uint64_t *offset_out)
{
	struct directory dir = { 0 };
	unsigned char *text;
	struct directory_entry e;
	bool ok;

	if (!wanted->name || !find_directory(fd, file_bytes, &dir) || idx >= dir.entry_count)
		return false;
	text = rung__malloc((size_t)dir.bytes);
	if (!text)
		return false;
	ok = read_at(fd, text, dir.bytes, dir.offset, file_bytes) &&
	     find_entry(text, dir.bytes, idx, &e) && e.method == wanted->method &&
	     (e.flags & FLAG_ENCRYPTED) == 0 && e.bytes == wanted->bytes &&
	     e.stored_bytes == wanted->stored_bytes && e.name_len == strlen(wanted->name) &&
	     memcmp(e.name, wanted->name, e.name_len) == 0 &&
	     data_offset_of(fd, file_bytes, &e, offset_out);
	rung__free(text);
	return ok;
}
