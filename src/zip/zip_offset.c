/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The position of the data of an entry in a zip file. The end record has the position of the
 * central directory, its entry that of the local header, and the data follow the local header. The
 * local header must be read, because the length of its extra field can differ from that of the
 * entry. Only plain files are handled (one disk, offsets from the start of the file, zip64
 * included), and every number is checked against the file. For other files the result is false, and
 * the caller uses libzip.
 *
 * The numbers in this file are offsets of fields in the records of PKWARE's APPNOTE.TXT. All are
 * little-endian and unaligned.
 */
#include <string.h>

#include "file/file.h"
#include "base/base.h"
#include "zip/zip_offset.h"

/* fixed parts of the records; names, extra fields and comments follow them */
#define END_BYTES   22u /* end of central directory */
#define END64_BYTES 56u /* the same in zip64 */
/* locator, which has the position of the zip64 end record */
#define LOCATOR_BYTES     20u
#define ENTRY_BYTES       46u    /* entry of the central directory */
#define LOCAL_BYTES       30u    /* local header, before the data */
#define COMMENT_BYTES_MAX 65535u /* longest comment, because its length has 16 bits */
/* largest directory that is read into memory; a larger one is left to libzip */
#define DIRECTORY_BYTES_MAX (64u << 20)
#define FLAG_ENCRYPTED      1u

struct directory {
	/* position and size in the file, and entries; untrusted */
	uint64_t offset, bytes, entry_count;
};

/* An entry of the central directory. */
struct directory_entry {
	uint64_t bytes, stored_bytes, local_offset;
	unsigned method, flags;
	const unsigned char *name; /* points into the directory, without a NUL at the end */
	size_t name_len;
};

/* A little-endian number of up to 8 bytes. */
static uint64_t le(const unsigned char *p, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = bytes; i-- > 0;)
		value = value << 8 | p[i];
	return value;
}

/* Read bytes if the file has them. A failure is not reported: the caller falls back to libzip. */
static bool read_at(int fd, void *buf, uint64_t bytes, uint64_t offset, uint64_t file_bytes)
{
	return offset <= file_bytes && bytes <= file_bytes - offset &&
	       rung__pread_all(fd, "zip", buf, bytes, offset) == 0;
}

/* The zip64 end record. Its locator is directly before the end record, at `end_at`. */
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

/* Find the end record in the last bytes of the file, from the back: a comment of any length can
 * follow it, and its length must reach exactly to the end of the file. */
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
		/* all bits set: the value did not fit, and is in the zip64 end record */
		if (dir->entry_count == UINT16_MAX || dir->bytes == UINT32_MAX ||
		    dir->offset == UINT32_MAX)
			found = find_directory64(fd, file_bytes, file_bytes - tail_bytes + at, dir);
		if (!found) /* a signature at an earlier position would be inside other data */
			break;
	}
free_tail:
	rung__free(tail);
	return found && dir->bytes <= DIRECTORY_BYTES_MAX;
}

/* Replace numbers that did not fit 32 bits and therefore have all bits set. The zip64 extra field,
 * with id 1, has the values of only those numbers, in the order of the array below. */
static bool widen(struct directory_entry *e, const unsigned char *extra, size_t extra_len)
{
	uint64_t *const numbers[] = { &e->bytes, &e->stored_bytes, &e->local_offset };

	/* each field: 2 bytes of id, 2 of length, content */
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
	/* without a zip64 field, a number with all bits set is missing */
	return e->bytes != UINT32_MAX && e->stored_bytes != UINT32_MAX &&
	       e->local_offset != UINT32_MAX;
}

/* Entry `idx` of a directory in memory. Entries have different lengths, so the loop walks over all
 * earlier entries. */
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

/* The data follow the local header, which must have the method and the name of the directory entry:
 * a wrong offset could otherwise lead to other data. */
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
	/* cannot overflow: it is below 2^63 + 2^17, because the header was read at local_offset */
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
	/* the entry must be the one that libzip has found by its index */
	ok = read_at(fd, text, dir.bytes, dir.offset, file_bytes) &&
	     find_entry(text, dir.bytes, idx, &e) && e.method == wanted->method &&
	     (e.flags & FLAG_ENCRYPTED) == 0 && e.bytes == wanted->bytes &&
	     e.stored_bytes == wanted->stored_bytes && e.name_len == strlen(wanted->name) &&
	     memcmp(e.name, wanted->name, e.name_len) == 0 &&
	     data_offset_of(fd, file_bytes, &e, offset_out);
	rung__free(text);
	return ok;
}
