/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of .npz files. Stored ones are read in place. Deflated ones are inflated: small ones into
 * memory, large ones while they are read (source_zip.c). libzip compares the CRC of a deflated
 * member when it inflates the last byte; src/zip compares that of a stored one when all bytes have
 * been read. The sizes in a zip file are untrusted, and are checked before memory is allocated.
 */
#include <string.h>

#include "base/base.h"
#include "source/npy.h"
#include "source/source_generated.h"
#include "source/source_zip.h"

/* largest expansion factor of deflate; an entry that claims more is wrong */
#define DEFLATE_RATIO_MAX 1032u
#define LIST_BYTES        512u /* bytes of the list of member names in a message */
/* Larger deflated members are inflated while they are read. The first piece, of this size, contains
 * the header: the longest one that is accepted, and its prefix. */
#define WHOLE_BYTES_MAX (RUNG__NPY_HEADER_BYTES_MAX + 64u)

/* Write the names of the members as "a, b, c, ...", without ".npy". A name is untrusted: control
 * characters become '?'. */
static void list_members(zip_t *zip, char list[LIST_BYTES])
{
	zip_int64_t count = zip_get_num_entries(zip, 0);
	size_t used = 0;

	strcpy(list, "none"); /* overwritten by the first name */
	for (zip_int64_t i = 0; i < count; i++) {
		const char *name = zip_get_name(zip, (zip_uint64_t)i, 0);
		size_t len = name ? strlen(name) : 0;

		if (len > 4 && strcmp(name + len - 4, ".npy") == 0)
			len -= 4;
		/* 8 bytes: the separator, and ", ..." with its NUL */
		if (used + len + 8 > LIST_BYTES) {
			strcpy(list + used, ", ...");
			return;
		}
		if (used > 0) {
			memcpy(list + used, ", ", 2);
			used += 2;
		}
		for (size_t j = 0; j < len; j++)
			list[used++] =
				(unsigned char)name[j] < ' ' || name[j] == 0x7f ? '?' : name[j];
		list[used] = '\0';
	}
}

int rung__source_no_member(struct rung_source *src)
{
	char list[LIST_BYTES];
	zip_t *zip;
	int rc = rung__zip_open(src, &zip);

	if (rc < 0)
		return rc;
	list_members(zip, list);
	zip_discard(zip);
	return rung__fail(
		RUNG_E_INVAL,
		"%s: names no member of the .npz; write it as file.npz:MEMBER; its members: %s",
		src->spec, list);
}

/* Get the sizes and the compression of an entry. Later checks need all of them. */
static int stat_member(const struct rung_source *src, zip_t *zip, zip_int64_t idx, zip_stat_t *st)
{
	if (zip_stat_index(zip, (zip_uint64_t)idx, 0, st) < 0)
		return rung__zip_failed(src, "its entry cannot be read", zip_get_error(zip));
	if ((st->valid & (ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD)) !=
	    (ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD))
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: its zip entry has no sizes; write it again with numpy.savez()",
			src->spec);
	if ((st->valid & ZIP_STAT_ENCRYPTION_METHOD) && st->encryption_method != ZIP_EM_NONE)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: is encrypted; write it again with numpy.savez()", src->spec);
	return 0;
}

static bool name_ends_in(const char *name, const char *end)
{
	const size_t len = name ? strlen(name) : 0, end_len = strlen(end);

	return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

/* Find the entry with this name or, if `ending` is true, the entry whose name ends in it.
 * @param idx_out    the first such entry, or -1
 * @param twice_out  whether there are several */
static void locate(zip_t *zip, const char *name, bool ending, zip_int64_t *idx_out, bool *twice_out)
{
	const zip_int64_t count = zip_get_num_entries(zip, 0);

	*idx_out = -1;
	*twice_out = false;
	for (zip_int64_t i = 0; i < count; i++) {
		const char *entry = zip_get_name(zip, (zip_uint64_t)i, 0);

		if (!entry || !(ending ? name_ends_in(entry, name) : strcmp(entry, name) == 0))
			continue;
		*twice_out = *idx_out >= 0; /* stays true, because *idx_out is not reset */
		if (*idx_out < 0)
			*idx_out = i;
	}
}

/* A zip file can contain a name twice, and readers differ in which of the two members they use. */
static int fail_twice(const struct rung_source *src, const char *name)
{
	return rung__fail(
		RUNG_E_FORMAT,
		"%s: has two members '%s', which may differ; write it again with each name once",
		src->path, name);
}

/* Find a member by its name in the zip file, or else by that name with ".npy" appended, as
 * numpy.load() does. */
static int find_member(const struct rung_source *src, zip_t *zip, const char *member,
                       zip_stat_t *st)
{
	char list[LIST_BYTES], *with_npy = rung__format("%s.npy", member);
	const char *name = member;
	zip_int64_t idx;
	bool twice;
	int rc;

	if (!with_npy)
		return rung__fail(RUNG_E_NOMEM, "source '%s'", src->spec);
	locate(zip, name, false, &idx, &twice);
	if (idx < 0)
		locate(zip, name = with_npy, false, &idx, &twice);
	if (twice) {
		rc = fail_twice(src, name);
	} else if (idx < 0) {
		list_members(zip, list);
		rc = rung__fail(RUNG_E_NOENT, "%s: has no member '%s'; it has: %s", src->path,
		                member, list);
	} else {
		rc = stat_member(src, zip, idx, st);
	}
	rung__free(with_npy);
	return rc;
}

/* Inflate the whole entry. libzip compares the CRC only when the reader asks for a byte after the
 * last one; that read also finds an entry that inflates to more than it claims. */
static int inflate_all(struct rung__generated *generated, zip_file_t *file)
{
	unsigned char past;
	zip_int64_t got = 0;
	int rc = 0;

	while (rc == 0 && generated->done < generated->bytes) {
		uint64_t buffer_bytes;
		unsigned char *buffer = rung__generated_buffer(generated, &buffer_bytes);

		got = zip_fread(file, buffer, buffer_bytes);
		if (got <= 0)
			break;
		rc = rung__generated_add(generated, (uint64_t)got);
	}
	if (rc == 0 && generated->done == generated->bytes) /* an empty entry also has a CRC */
		got = zip_fread(file, &past, 1);
	if (rc < 0)
		return rc;
	if (got < 0)
		return rung__zip_inflating_failed(generated->src, file);
	if (generated->done < generated->bytes || got > 0)
		return rung__zip_wrong_length(generated->src, got > 0 ? "more" : "less",
		                              generated->bytes);
	return rung__generated_end(generated);
}

/* Compare the sizes of an entry with the file, before memory is allocated for it. */
static int check_sizes(const struct rung_source *src, const zip_stat_t *st, uint64_t file_bytes)
{
	if (st->comp_size <= file_bytes && st->size / DEFLATE_RATIO_MAX <= st->comp_size &&
	    (st->comp_method != ZIP_CM_STORE || st->size == st->comp_size))
		return 0;
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: damaged: its zip entry claims %" PRIu64
	                  " bytes, compressed to %" PRIu64 " bytes, in a file of %" PRIu64
	                  " bytes; copy it again",
	                  src->spec, (uint64_t)st->size, (uint64_t)st->comp_size, file_bytes);
}

/* Inflate an entry into memory or a temporary file, which `src` then owns. */
static int load_member(struct rung_source *src, zip_t *zip, const zip_stat_t *st)
{
	zip_file_t *file = zip_fopen_index(zip, st->index, 0);
	struct rung__generated generated;
	int rc;

	if (!file)
		return rung__zip_failed(src, "cannot be opened", zip_get_error(zip));
	rc = rung__generated_begin(&generated, src, st->size);
	if (rc == 0)
		rc = inflate_all(&generated, file);
	rung__generated_fini(&generated);
	zip_fclose(file);
	return rc;
}

/* Position of the data of a stored entry. @return false if src/zip cannot find them with certainty;
 * libzip then reads the entry */
static bool find_bytes(const struct rung_source *src, zip_t *zip, const zip_stat_t *st,
                       uint64_t file_bytes, uint64_t *offset_out)
{
	const struct rung__zip_entry entry = { .name = zip_get_name(zip, st->index, ZIP_FL_ENC_RAW),
		                               .method = st->comp_method,
		                               .bytes = st->size,
		                               .stored_bytes = st->comp_size };

	return rung__zip_offset(src->fd, file_bytes, st->index, &entry, offset_out);
}

/* Check the CRC of a stored member while it is read in place. @param array_offset  in the member */
static int watch_crc(struct rung_source *src, const zip_stat_t *st, uint64_t offset,
                     uint64_t array_offset)
{
	const struct rung__stored member = { .offset = offset,
		                             .bytes = st->size,
		                             .array_offset = array_offset,
		                             .array_bytes =
		                                     src->info.row_count * src->info.row_bytes,
		                             .crc = st->crc };

	return rung__member_crc_open(src->fd, src->spec, &member, &src->crc);
}

/* Choose how an entry is read: in place (stored), inflated while it is read (large and deflated,
 * with a CRC that is compared at its end), or inflated now. Then parse its .npy header. */
static int open_entry(struct rung_source *src, zip_t *zip, const zip_stat_t *st,
                      uint64_t file_bytes)
{
	const bool stored = st->comp_method == ZIP_CM_STORE;
	const bool large = st->comp_method == ZIP_CM_DEFLATE && st->size > WHOLE_BYTES_MAX &&
	                   (st->valid & ZIP_STAT_CRC);
	struct rung__npy npy = { .data_offset = 0 };
	uint64_t offset = 0;
	bool in_place;
	int rc = check_sizes(src, st, file_bytes);

	if (rc < 0)
		return rc;
	in_place = stored && find_bytes(src, zip, st, file_bytes, &offset);
	if (!in_place && !large)
		rc = load_member(src, zip, st);
	if (rc < 0)
		return rc;
	if (large)
		rc = rung__inflated_begin(src, st, WHOLE_BYTES_MAX, &npy);
	else if (src->data)
		rc = rung__npy_parse(src->spec, src->data, st->size, st->size, &npy);
	else
		rc = rung__npy_read(src->fd, src->spec, offset, st->size, &npy);
	src->info = npy.array;
	src->transposed = npy.transposed;
	/* `offset` is 0 unless the entry is read in place */
	src->data_offset = npy.data_offset + offset;
	return rc == 0 && in_place && (st->valid & ZIP_STAT_CRC)
	               ? watch_crc(src, st, offset, npy.data_offset)
	               : rc;
}

int rung__source_open_member(struct rung_source *src, const char *member, uint64_t file_bytes)
{
	zip_stat_t st;
	zip_t *zip;
	int rc;

	rc = rung__zip_open(src, &zip);
	if (rc < 0)
		return rc;
	rc = find_member(src, zip, member, &st);
	if (rc == 0)
		rc = open_entry(src, zip, &st, file_bytes);
	/* discarding loses nothing, because nothing was changed; a stream has a separate zip_t */
	zip_discard(zip);
	return rc;
}

int rung__source_load_ending(struct rung_source *src, const char *end, uint64_t file_bytes)
{
	zip_int64_t found;
	zip_stat_t st;
	zip_t *zip;
	bool twice;
	int rc = rung__zip_open(src, &zip);

	if (rc < 0)
		return rc;
	locate(zip, end, true, &found, &twice);
	if (found < 0)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: has no member whose name ends in '%s'; save it again with "
		                "torch.save()",
		                src->path, end);
	else if (twice)
		rc = fail_twice(src, end);
	else
		rc = stat_member(src, zip, found, &st);
	/* the pickle is parsed in memory: unlike other members it cannot go into a file */
	if (rc == 0 && st.size > rung__generated_memory_max)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: its member '*%s' claims %" PRIu64
		                " bytes, but at most %" PRIu64 " bytes are supported",
		                src->path, end, (uint64_t)st.size, rung__generated_memory_max);
	if (rc == 0)
		rc = check_sizes(src, &st, file_bytes);
	if (rc == 0)
		rc = load_member(src, zip, &st);
	zip_discard(zip);
	return rc;
}
