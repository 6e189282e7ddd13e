/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers of a file as ids of one width, read in large pieces and checked while they are in the
 * cache. If the file has the requested width, it is read directly to the destination. Otherwise it
 * is read to a bounce buffer, from which the ids are narrowed or widened.
 *
 * The check first finds the largest value of a piece, in a loop that vectorises. Only if that is
 * too large, a second loop looks for the first bad id.
 */
#include "edges/edges.h"

#include <stdatomic.h>
#include <string.h>

#include "source/source.h"

int rung__id_file_open(struct rung__id_file *file, const struct rung_source *src)
{
	const struct rung__source_location place = rung__source_location(src);

	*file = (struct rung__id_file){
		.name = rung__source_spec(src),
		.data = place.data,
		.src = src,
		.streamed = place.streamed,
		.file.fd = -1,
		.offset = place.offset,
		.count = rung_source_info(src)->row_count,
		.dtype = rung_source_info(src)->dtype,
	};
	return place.data || place.streamed ? 0
	                                    : rung__direct_open(&file->file, place.fd, place.path);
}

void rung__id_file_close(struct rung__id_file *file)
{
	if (file->name)
		rung__direct_close(&file->file);
}

bool rung__id_file_in_place(const struct rung__id_file *file, unsigned id_bytes)
{
	return !file->data && !file->streamed && rung_dtype_bytes(file->dtype) == id_bytes &&
	       file->offset % id_bytes == 0;
}

/* Value i of raw bytes, which may be unaligned, in the format of rung__ids_text(). */
static uint64_t value_at(const unsigned char *raw, enum rung_dtype dtype, uint64_t i)
{
	uint64_t aligned = 0;
	const size_t bytes = rung_dtype_bytes(dtype);

	memcpy(&aligned, raw + i * bytes, bytes);
	return rung__ids_get(&aligned, dtype, 0);
}

/* Loops that the compiler vectorises. They copy with memcpy(), because the bytes of a file may be
 * unaligned. Each returns the largest value. */

static uint64_t largest_4(const unsigned char *raw, uint64_t count)
{
	uint32_t largest = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t id;

		memcpy(&id, raw + 4 * i, sizeof(id));
		largest = RUNG__MAX(largest, id);
	}
	return largest;
}

static uint64_t largest_8(const unsigned char *raw, uint64_t count)
{
	uint64_t largest = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t id;

		memcpy(&id, raw + 8 * i, sizeof(id));
		largest = RUNG__MAX(largest, id);
	}
	return largest;
}

static uint64_t narrow(const unsigned char *raw, uint64_t count, uint32_t *to)
{
	/* OR of the high halves: any bit there makes the result larger than 4 bytes can hold */
	uint32_t largest = 0, high = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t id;

		memcpy(&id, raw + 8 * i, sizeof(id));
		to[i] = (uint32_t)id;
		largest = RUNG__MAX(largest, (uint32_t)id);
		high |= (uint32_t)(id >> 32);
	}
	return (uint64_t)high << 32 | largest;
}

static uint64_t widen(const unsigned char *raw, uint64_t count, uint64_t *to)
{
	uint32_t largest = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t id;

		memcpy(&id, raw + 4 * i, sizeof(id));
		to[i] = id;
		largest = RUNG__MAX(largest, id);
	}
	return largest;
}

/* Convert ids from `raw` to `to`, which may be the same memory. @return number of good ids: all, or
 * those before the first bad one */
static uint64_t convert_ids(const struct rung__id_file *file, const struct rung__id_reader *reader,
                            const unsigned char *raw, uint64_t count, void *to)
{
	const size_t raw_bytes = rung_dtype_bytes(file->dtype);
	const uint64_t limit = rung__ids_limit(file->dtype, reader->limit);
	uint64_t largest, good = 0;

	if (raw_bytes == reader->id_bytes) {
		largest = raw_bytes == 4 ? largest_4(raw, count) : largest_8(raw, count);
		if (to != raw)
			memcpy(to, raw, count * raw_bytes);
	} else if (raw_bytes == 8) {
		largest = narrow(raw, count, to);
	} else {
		largest = widen(raw, count, to);
	}
	/* read as unsigned, a negative i32 is 2^31 or more, which a larger limit would accept */
	if (largest < (file->dtype == RUNG_I32 ? RUNG__MIN(limit, UINT64_C(1) << 31) : limit))
		return count;
	while (good < count && value_at(raw, file->dtype, good) < limit)
		good++;
	return good;
}

/* Read bytes at any offset. Direct reads begin on a page; *raw_out is the first requested byte in
 * `buffer`. */
static int read_at(const struct rung__id_file *file, uint64_t offset, uint64_t bytes,
                   unsigned char *buffer, unsigned char **raw_out)
{
	const uint64_t lead = offset % RUNG__PAGE_BYTES;

	*raw_out = buffer + lead;
	return rung__direct_read(&file->file, buffer, lead + bytes, offset - lead);
}

/* Convert a piece, ids [first, first + count), to its destination: from memory, or through the
 * bounce buffer. *value_out is set if an id is bad. */
static int read_piece(const struct rung__id_file *file, const struct rung__id_reader *reader,
                      uint64_t first, uint64_t count, unsigned char *to, uint64_t *good_out,
                      uint64_t *value_out)
{
	const size_t raw_bytes = rung_dtype_bytes(file->dtype);
	unsigned char *raw = NULL;
	int rc = 0;

	if (file->data)
		/* not modified */
		raw = (unsigned char *)(uintptr_t)file->data + first * raw_bytes;
	else if (file->streamed)
		rc = rung__source_read_bytes(file->src, first * raw_bytes, count * raw_bytes,
		                             raw = reader->bounce);
	else
		rc = read_at(file, file->offset + first * raw_bytes, count * raw_bytes,
		             reader->bounce, &raw);
	/* for the CRC of a stored member of a .npz */
	if (rc == 0 && file->src && !file->data && !file->streamed)
		rc = rung__source_was_read(file->src, first * raw_bytes, count * raw_bytes, raw);
	if (rc < 0)
		return rc;
	*good_out = convert_ids(file, reader, raw, count, to);
	if (*good_out < count)
		*value_out = value_at(raw, file->dtype, *good_out);
	return 0;
}

/* Read directly into the buffer. Pieces end on pages, so that the next one begins where the
 * previous one ended. The first piece also has bytes before the first id, which `fresh` does not
 * count. */
static int read_in_place(const struct rung__id_file *file, const struct rung__id_reader *reader,
                         uint64_t first, uint64_t count, unsigned char *buffer,
                         struct rung__ids *out)
{
	const uint64_t begin = file->offset + first * reader->id_bytes,
		       lead = begin % RUNG__PAGE_BYTES;
	const uint64_t bytes = lead + count * reader->id_bytes;
	uint64_t converted = 0, done = 0;

	out->ids = buffer + lead;
	while (done < bytes && out->good == converted &&
	       !(reader->stop && atomic_load(reader->stop))) {
		const uint64_t piece = RUNG__MIN(reader->read_bytes, bytes - done);
		uint64_t fresh;
		int rc = rung__direct_read(&file->file, buffer + done, piece, begin - lead + done);

		if (rc < 0)
			return rc;
		done += piece;
		fresh = done > lead ? (done - lead) / reader->id_bytes - converted : 0;
		if (file->src)
			rc = rung__source_was_read(file->src,
			                           (first + converted) * reader->id_bytes,
			                           fresh * reader->id_bytes,
			                           buffer + lead + converted * reader->id_bytes);
		if (rc < 0)
			return rc;
		out->good += convert_ids(file, reader, buffer + lead + converted * reader->id_bytes,
		                         fresh, buffer + lead + converted * reader->id_bytes);
		converted += fresh;
	}
	if (out->good < converted)
		out->value = value_at(buffer + lead, file->dtype, out->good);
	return 0;
}

int rung__id_file_read(const struct rung__id_file *file, const struct rung__id_reader *reader,
                       uint64_t first, uint64_t count, void *buffer, struct rung__ids *ids_out)
{
	const uint64_t per_piece = reader->read_bytes / rung_dtype_bytes(file->dtype);
	uint64_t done = 0;
	int rc = 0;

	/* a bad id or a stop ends the loop: ids_out->good is then below `done` or `count` */
	*ids_out = (struct rung__ids){ .ids = buffer };
	if (rung__id_file_in_place(file, reader->id_bytes))
		return read_in_place(file, reader, first, count, buffer, ids_out);
	while (rc == 0 && done < count && ids_out->good == done &&
	       !(reader->stop && atomic_load(reader->stop))) {
		const uint64_t piece = RUNG__MIN(per_piece, count - done);
		uint64_t good = 0;

		rc = read_piece(file, reader, first + done, piece,
		                (unsigned char *)buffer + done * reader->id_bytes, &good,
		                &ids_out->value);
		ids_out->good += good;
		done += piece;
	}
	return rc;
}
