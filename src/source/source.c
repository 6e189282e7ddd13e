/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a source: which format a spec names, and the formats .npy and raw:. The other formats are
 * in separate files, which this file calls, and which do not depend on each other.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "file/file.h"
#include "source/npy.h"
#include "source/source.h"
#include "source/state.h"

#define RAW_USAGE                            "raw:FILE,DTYPE,DIM[xDIM][,OFFSET[,trailing=ignore]]"
#define RAW_TRAILING                         ",trailing=ignore"
#define DTYPE_NAME(code, name, bytes, descr) " " name

/* A .npy in either order; rung_source_open() refuses Fortran order afterwards. */
static int open_npy(struct rung_source *src)
{
	struct rung__npy npy;
	uint64_t bytes;
	int rc;

	rc = rung__source_open_file(src, src->spec, strlen(src->spec), &bytes);
	if (rc < 0)
		return rc;
	rc = rung__npy_read(src->fd, src->path, 0, bytes, &npy);
	if (rc < 0)
		return rc;
	src->info = npy.array;
	src->transposed = npy.transposed;
	src->data_offset = npy.data_offset;
	return 0;
}

/* FILE.npz:MEMBER. The file is opened even without a member name, so that the message can list its
 * members. */
static int open_npz(struct rung_source *src, const char *colon)
{
	uint64_t bytes;
	int rc;

	rc = rung__source_open_file(
		src, src->spec, colon ? (size_t)(colon - src->spec) : strlen(src->spec), &bytes);
	if (rc < 0)
		return rc;
	if (!colon || colon[1] == '\0')
		return rung__source_no_member(src);
	return rung__source_open_member(src, colon + 1, bytes);
}

/* DIM[xDIM], at most RUNG_DIMS_MAX numbers. */
static bool parse_dims(const char *text, struct rung_array_info *info)
{
	for (info->dim_count = 0; info->dim_count < RUNG_DIMS_MAX; text++) {
		if (!rung__parse_number(&text, 'x', &info->dims[info->dim_count++]))
			return false;
		if (*text == '\0')
			return true;
	}
	return false;
}

static bool ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* A raw: spec. */
struct raw {
	struct rung_array_info info;
	uint64_t offset;
	size_t path_len;
	bool has_offset; /* the first bytes of the file need not be values */
	bool trailing;   /* nor the last ones */
};

/*
 * Parse a raw: spec after its prefix. The words are counted from the right, because FILE can
 * contain commas: the dtype is the second word, or the third if there is an OFFSET. `text` is
 * truncated to FILE.
 */
static bool parse_raw(char *text, struct raw *raw)
{
	char *words[3]; /* [0] is the last one */
	const char *offset_at;

	*raw = (struct raw){ .trailing = ends_in(text, RAW_TRAILING) };
	if (raw->trailing)
		text[strlen(text) - strlen(RAW_TRAILING)] = '\0';
	for (int i = 0; i < 3; i++) {
		char *comma = strrchr(text, ',');

		if (!comma)
			return false;
		*comma = '\0';
		words[i] = comma + 1;
		if (i == 1 && (raw->info.dtype = rung__dtype_parse(words[1])) != RUNG_DTYPE_NONE)
			break;
		if (i == 2 && (raw->info.dtype = rung__dtype_parse(words[2])) == RUNG_DTYPE_NONE)
			return false;
		offset_at = words[0];
		raw->has_offset = i == 2;
		if (i == 2 && !rung__parse_number(&offset_at, '\0', &raw->offset))
			return false;
		if (i == 2)
			words[0] = words[1]; /* the dimensions, now at [0] in both forms */
	}
	raw->path_len = strlen(text);
	return raw->path_len > 0 && parse_dims(words[0], &raw->info) &&
	       (raw->has_offset || !raw->trailing);
}

/* A file of a known format has other bytes in front of its values. */
static int check_magic(const struct rung_source *src, uint64_t file_bytes)
{
	static const struct {
		const char *magic, *format, *cure;
	} known[] = { { "\x93NUMPY", ".npy", "give it without raw:" },
		      { "PK\3\4", "zip", "give it as FILE.npz:MEMBER or FILE.pt:KEY" },
		      { "\x1f\x8b\x08", "gzip", "decompress it" },
		      { "\x28\xb5\x2f\xfd", "zstd", "decompress it" },
		      { "\x89HDF\r\n", "HDF5", "convert it with numpy.save()" },
		      { "PAR1", "Parquet", "convert it with numpy.save()" },
		      { "ARROW1", "Arrow", "convert it with numpy.save()" } };
	char first[8] = { 0 };
	int rc =
		rung__pread_all(src->fd, src->path, first, RUNG__MIN(file_bytes, sizeof(first)), 0);

	for (size_t i = 0; i < RUNG__ARRAY_LEN(known) && rc == 0; i++) {
		if (memcmp(first, known[i].magic, strlen(known[i].magic)) == 0)
			rc = rung__fail(RUNG_E_FORMAT,
			                "%s: begins as a %s file does, and raw: has values only; "
			                "%s, or add the OFFSET of its values",
			                src->path, known[i].format, known[i].cure);
	}
	return rc;
}

/* The bytes of the file must be those that the spec describes. */
static int check_raw(const struct rung_source *src, const struct raw *raw, uint64_t file_bytes,
                     uint64_t data_bytes)
{
	const uint64_t end = raw->offset + data_bytes;
	const char *state = file_bytes < end ? "missing" : "left over";
	int rc = raw->has_offset ? 0 : check_magic(src, file_bytes);

	if (rc < 0 || file_bytes == end || (file_bytes > end && raw->trailing))
		return rc;
	return rung__fail(RUNG_E_FORMAT,
	                  "%s: has %" PRIu64 " bytes, but '%s' needs %" PRIu64 " (%" PRIu64
	                  " of data from offset %" PRIu64 " on): %" PRIu64
	                  " bytes are %s at offset %" PRIu64 "; check dtype and dimensions, or %s",
	                  src->path, file_bytes, src->spec, end, data_bytes, raw->offset,
	                  file_bytes < end ? end - file_bytes : file_bytes - end, state,
	                  RUNG__MIN(file_bytes, end),
	                  file_bytes < end ? "copy the file again" : "add ,OFFSET" RAW_TRAILING);
}

/* A file without a header: type and shape come from the spec, and only the size can be checked. */
static int open_raw(struct rung_source *src)
{
	const char *words = src->spec + strlen("raw:");
	char *text = rung__strdup(words);
	uint64_t file_bytes, data_bytes, end;
	struct raw raw;
	bool valid;
	int rc;

	if (!text)
		return rung__fail(RUNG_E_NOMEM, "source '%s'", src->spec);
	valid = parse_raw(text, &raw);
	rung__free(text);
	if (!valid && raw.info.dtype == RUNG_DTYPE_NONE)
		return rung__fail(RUNG_E_INVAL,
		                  "source '%s': no known dtype; write it as " RAW_USAGE
		                  ", with one of" RUNG_DTYPE_LIST(DTYPE_NAME),
		                  src->spec);
	if (!valid)
		return rung__fail(RUNG_E_INVAL,
		                  "source '%s': not valid; write it as " RAW_USAGE
		                  ", as in raw:node_feat.npy,f16,121751666x768",
		                  src->spec);
	src->info = raw.info;
	src->data_offset = raw.offset;
	/* dimensions and offset come from the user, and their end must fit an off_t */
	if (!rung__array_measure(&src->info, &data_bytes) ||
	    !rung__add(src->data_offset, data_bytes, &end) || end > INT64_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "source '%s': the end of its data needs more than 63 "
		                  "bits; check its dimensions and offset",
		                  src->spec);
	rc = rung__source_open_file(src, words, raw.path_len, &file_bytes);
	return rc < 0 ? rc : check_raw(src, &raw, file_bytes, data_bytes);
}

static bool begins_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A file of numbers, by its name. */
static bool is_text(const char *spec)
{
	return ends_in(spec, ".csv") || ends_in(spec, ".txt") || ends_in(spec, ".csv.gz") ||
	       ends_in(spec, ".txt.gz");
}

/* ---- the format of a spec ---- */

enum spec_kind {
	SPEC_NPY, /* also used for a name without a known ending */
	SPEC_NPZ,
	SPEC_TORCH,
	SPEC_TEXT,
	SPEC_RAW,
	SPEC_RANGE,
	SPEC_PAD,
	SPEC_EVERY
};

struct spec {
	enum spec_kind kind;
	const char *colon; /* .npz and .pt: the colon before the member; NULL: no member */
};

/* Whether the first `len` bytes of a spec name an existing file. It need not be a regular file: a
 * pipe is refused with a better message when it is opened. */
static bool names_file(const char *spec, size_t len)
{
	char path[PATH_MAX];
	struct stat st;

	if (len >= sizeof(path)) /* too long for any file */
		return false;
	memcpy(path, spec, len);
	path[len] = '\0';
	return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* The last colon at or before `end` that follows ".npz" or ".pt"; NULL without one. */
static const char *colon_before(const char *spec, const char *end, enum spec_kind *kind_out)
{
	for (const char *at = end; at > spec; at--) {
		if (*at != ':')
			continue;
		*kind_out = at - spec >= 4 && memcmp(at - 4, ".npz", 4) == 0  ? SPEC_NPZ
		            : at - spec >= 3 && memcmp(at - 3, ".pt", 3) == 0 ? SPEC_TORCH
		                                                              : SPEC_NPY;
		if (*kind_out != SPEC_NPY)
			return at;
	}
	return NULL;
}

/* Split FILE:MEMBER. Both can contain ".npz:", so the longest FILE that exists is used; if none
 * exists, the longest possible one, for the message. @return false: the spec has no member, or is
 * an existing file as it stands */
static bool find_member(const char *spec, struct spec *parts)
{
	const char *end = spec + strlen(spec), *colon;
	enum spec_kind kind;

	if (names_file(spec, strlen(spec))) /* a file whose name contains ".npz:" */
		return false;
	for (colon = colon_before(spec, end, &kind); colon;
	     colon = colon_before(spec, colon - 1, &kind)) {
		/* the first colon found is the fallback; an existing file ends the search */
		if (!parts->colon || names_file(spec, (size_t)(colon - spec)))
			*parts = (struct spec){ kind, colon };
		if (names_file(spec, (size_t)(colon - spec)))
			break;
	}
	return parts->colon != NULL;
}

/* Prefixes come first, then members, then endings. Anything else is a .npy, whatever its name. */
static struct spec parse_spec(const char *spec)
{
	static const struct {
		const char *prefix;
		enum spec_kind kind;
	} prefixes[] = { { "raw:", SPEC_RAW },
		         { RUNG__RANGE_PREFIX, SPEC_RANGE },
		         { RUNG__PAD_PREFIX, SPEC_PAD },
		         { RUNG__EVERY_PREFIX, SPEC_EVERY } };
	struct spec parts = { .kind = SPEC_NPY };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(prefixes); i++) {
		if (begins_with(spec, prefixes[i].prefix))
			return (struct spec){ .kind = prefixes[i].kind };
	}
	if (find_member(spec, &parts))
		return parts;
	parts.kind = ends_in(spec, ".npz")  ? SPEC_NPZ
	             : ends_in(spec, ".pt") ? SPEC_TORCH
	             : is_text(spec)        ? SPEC_TEXT
	                                    : SPEC_NPY;
	return parts;
}

static int open_text(struct rung_source *src)
{
	uint64_t bytes;
	int rc = rung__source_open_file(src, src->spec, strlen(src->spec), &bytes);

	return rc < 0 ? rc : rung__source_open_text(src);
}

/* FILE.pt:KEY. As for .npz, the message about a missing key lists the existing ones. */
static int open_torch(struct rung_source *src, const char *colon)
{
	uint64_t bytes;
	int rc = rung__source_open_file(
		src, src->spec, colon ? (size_t)(colon - src->spec) : strlen(src->spec), &bytes);

	return rc < 0 ? rc
	              : rung__source_open_torch(src, colon && colon[1] ? colon + 1 : NULL, bytes);
}

/* SRC inside is opened here, so that pad: and every: do not need to know the other formats. Its own
 * spec cannot be pad: or every:, so the recursion ends. */
static int open_derived(struct rung_source *src,
                        int (*open_it)(struct rung_source *src, struct rung_source *inner))
{
	struct rung_source *inner;
	const char *inner_spec;
	int rc = rung__source_check_derived(src, &inner_spec);

	if (rc == 0)
		rc = rung_source_open(inner_spec, &inner);
	return rc < 0 ? rc : open_it(src, inner);
}

static int open_any(struct rung_source *src)
{
	const struct spec parts = parse_spec(src->spec);

	switch (parts.kind) {
	case SPEC_RAW:
		return open_raw(src);
	case SPEC_RANGE:
		return rung__source_open_range(src);
	case SPEC_PAD:
		return open_derived(src, rung__source_open_padded);
	case SPEC_EVERY:
		return open_derived(src, rung__source_open_every);
	case SPEC_NPZ:
		return open_npz(src, parts.colon);
	case SPEC_TORCH:
		return open_torch(src, parts.colon);
	case SPEC_TEXT:
		return open_text(src);
	default:
		return open_npy(src);
	}
}

int rung__source_stat(const char *spec, struct stat *st_out)
{
	const char *inner = rung__source_inner_spec(spec);
	const struct spec parts = parse_spec(spec);
	struct raw raw; /* not used here */
	char *path;
	int rc;

	*st_out = (struct stat){ 0 };
	if (parts.kind == SPEC_RANGE) /* a range has no file */
		return 0;
	if (inner) /* pad: and every: have the file of their SRC */
		return rung__source_stat(inner, st_out);
	path = rung__strdup(parts.kind == SPEC_RAW ? spec + strlen("raw:") : spec);
	if (!path) { /* the caller expects errno to be set, as by stat() */
		errno = ENOMEM;
		return -1;
	}
	if (parts.kind == SPEC_RAW)
		parse_raw(path, &raw); /* truncates it to FILE */
	else if (parts.colon)
		path[parts.colon - spec] = '\0';
	rc = stat(path, st_out);
	rung__free(path);
	return rc;
}

const char *rung__source_file_part(const char *spec)
{
	const char *inner;

	while ((inner = rung__source_inner_spec(spec)) != NULL)
		spec = inner;
	switch (parse_spec(spec).kind) {
	case SPEC_RANGE:
	case SPEC_PAD: /* not valid: otherwise it has an inner spec */
	case SPEC_EVERY:
		return NULL;
	case SPEC_RAW:
		return spec + strlen("raw:");
	default:
		return spec;
	}
}

int rung__source_open_either_order(const char *spec, int *transposed_out,
                                   struct rung_source **src_out)
{
	struct rung_source *src;
	int rc;

	if (!spec || !spec[0])
		return rung__fail(RUNG_E_INVAL,
		                  "source: empty; give file.npy, file.npz:member or " RAW_USAGE);
	src = rung__zalloc(sizeof(*src));
	if (!src)
		return rung__fail(RUNG_E_NOMEM, "source '%s'", spec);
	src->fd = -1;
	src->spec = rung__strdup(spec);
	rc = src->spec ? open_any(src) : rung__fail(RUNG_E_NOMEM, "source '%s'", spec);
	/* a format that fails leaves what it has opened in `src` */
	if (rc < 0) {
		rung_source_close(src);
		return rc;
	}
	*transposed_out = src->transposed;
	*src_out = src;
	return 0;
}

int rung_source_open(const char *spec, struct rung_source **src_out)
{
	struct rung_source *src;
	int transposed;
	int rc = rung__source_open_either_order(spec, &transposed, &src);

	if (rc < 0)
		return rc;
	/* the rows would be those of the transpose; the message names the remedy */
	if (transposed) {
		rung_source_close(src);
		return rung__npy_refuse_fortran(spec);
	}
	*src_out = src;
	return 0;
}
