/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repairs bad blocks: they are rebuilt and written in place. A block is written only if its rebuilt
 * content has the recorded checksum, and only over a block that does not have it. So a repair
 * cannot damage a good block, and if the process is killed, it can be started again.
 *
 * The order follows the dependencies: checksums.npy, which defines the right content of all files;
 * then the maps; then the data that need the maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/features.h"
#include "file/file.h"
#include "source/npy.h"
#include "verify/state.h"

/* maximum number of uncertain entries in a block of checksums.npy: up to 2^12 combinations of their
 * values are tried */
#define DOUBTS_MAX 12u

struct repair {
	struct rung__verify *v;
	struct rung__rebuild rebuild;
	unsigned char *buf;  /* [RUNG__BLOCK_BYTES] page-aligned: the rebuilt block */
	unsigned char *read; /* [RUNG__BLOCK_BYTES] page-aligned: a block read from its file */
};

/* A file with bad blocks. It is opened when its first block is written, and created if it is
 * missing: a file that cannot be repaired is not touched. */
struct repair_target {
	const struct rung__manifest_file *file;
	char *path; /* for messages */
	int fd;     /* -1: not open */
};

/* Size of a block in bytes; the last block of a file can be shorter. */
static uint64_t block_bytes(const struct rung__manifest_file *file, uint64_t block)
{
	return RUNG__MIN(file->bytes - block * RUNG__BLOCK_BYTES, RUNG__BLOCK_BYTES);
}

/* The recorded checksum of a block: in the manifest for checksums.npy, otherwise in that file. */
static uint64_t recorded(const struct rung__verify *v, const struct rung__manifest_file *file,
                         uint64_t block)
{
	return file == &v->ds->manifest->checksums ? v->ds->manifest->checksums_sums[block]
	                                           : v->sums[file->first_block + block];
}

/* Whether a features file is a link into another dataset, which this one must not change. */
static bool is_of_another(int dir_fd, const char *name)
{
	char folder[PATH_MAX], manifest[PATH_MAX];

	return rung__features_elsewhere(dir_fd, name, folder) &&
	       (size_t)snprintf(manifest, sizeof(manifest), "%s/" RUNG__MANIFEST, folder) <
	               sizeof(manifest) &&
	       access(manifest, F_OK) == 0;
}

/* Open a file for writing. Only features files are allowed to be links. O_NONBLOCK: opening a
 * special file of that name must not wait. */
static int open_target(const struct rung__verify *v, struct repair_target *t)
{
	const bool features =
		strncmp(t->file->name, RUNG__FEATURES_PREFIX, strlen(RUNG__FEATURES_PREFIX)) == 0;
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | (features ? 0 : O_NOFOLLOW);
	struct stat st;

	if (t->fd >= 0)
		return 0;
	if (features && is_of_another(v->ds->dir_fd, t->file->name))
		return rung__fail(RUNG_E_EXIST,
		                  "%s: is a link to the features of another dataset; repair that "
		                  "one",
		                  t->path);
	t->fd = openat(v->ds->dir_fd, t->file->name, flags, 0666);
	if (t->fd < 0 && errno == ELOOP)
		return rung__fail(RUNG_E_EXIST,
		                  "%s: is a symbolic link; repair a copy of the folder, or fetch "
		                  "the linked file again",
		                  t->path);
	if (t->fd < 0)
		return rung__fail_errno(errno, "%s: cannot be opened for writing", t->path);
	if (fstat(t->fd, &st) < 0)
		return rung__fail_errno(errno, "%s", t->path);
	if (!S_ISREG(st.st_mode))
		return rung__fail(RUNG_E_FORMAT, "%s: is not a regular file; remove it", t->path);
	return 0;
}

/* Whether a block has its checksum when it is read back. The page cache is bypassed if possible: it
 * would return the data that were just written, whatever the device stored. */
static bool good_on_disk(const struct repair *r, const struct repair_target *t, uint64_t block,
                         uint64_t sum)
{
	const uint64_t bytes = block_bytes(t->file, block);
	struct rung__direct file;
	bool good;

	if (rung__direct_open(&file, t->fd, t->path) < 0)
		return false;
	good = rung__direct_read(&file, r->read, bytes, block * RUNG__BLOCK_BYTES) == 0 &&
	       rung__checksum(r->read, (size_t)bytes) == sum;
	rung__direct_close(&file);
	return good;
}

/* Write the rebuilt block, sync it, and read it back. */
static int write_block(const struct repair *r, struct repair_target *t, uint64_t block,
                       uint64_t sum)
{
	int rc = open_target(r->v, t);

	if (rc == 0)
		rc = rung__pwrite_all(t->fd, t->path, r->buf, block_bytes(t->file, block),
		                      block * RUNG__BLOCK_BYTES);
	if (rc == 0 && fdatasync(t->fd) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be synced to the device", t->path);
	if (rc == 0 && !good_on_disk(r, t, block, sum))
		rc = rung__fail(RUNG_E_IO,
		                "%s: block %" PRIu64
		                " was written, but other data were read back: the device is "
		                "failing; replace it",
		                t->path, block);
	return rc;
}

/* Sync the folder of a file: until then the name of a new file may be lost. For the target of a
 * link this is a different folder than the dataset's, so its path is read from /proc. */
static int sync_folder_of(const struct repair_target *t)
{
	char link[40], path[PATH_MAX];
	ssize_t bytes;
	int fd, rc = 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", t->fd);
	bytes = readlink(link, path, sizeof(path) - 1);
	while (bytes > 1 && path[bytes - 1] != '/')
		bytes--;
	path[RUNG__MAX(bytes, 0)] = '\0';
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL))
		rc = rung__fail_errno(errno, "%s: its folder cannot be synced to the device",
		                      t->path);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Record the failure of a block. It does not stop the repair of other blocks, unless every other
 * block would fail for the same reason: no memory, canceled, too small a budget. The first message
 * is kept for the report. @return 0, or a failure that ends the repair */
static int note(struct rung__verify *v, int rc)
{
	if (rc == RUNG_E_NOMEM || rc == RUNG_E_CANCELED || rc == RUNG_E_INVAL)
		return rc;
	if (rc < 0 && !v->report.unrepaired) {
		v->report.unrepaired = rung__strdup(rung_last_error());
		if (!v->report.unrepaired)
			return rung__fail(RUNG_E_NOMEM, "verify: no memory for an error message");
	}
	return 0;
}

/* ---- files that are rebuilt from sources ---- */

/* Rebuild a block, and write it if it has the recorded checksum. */
static int repair_block(struct repair *r, struct repair_target *t, uint64_t block)
{
	const uint64_t sum = recorded(r->v, t->file, block);
	int rc = rung__rebuild_block(&r->rebuild, t->file, block, r->buf);

	if (rc == 0 && rung__checksum(r->buf, (size_t)block_bytes(t->file, block)) != sum)
		rc = rung__fail(RUNG_E_CORRUPT,
		                "%s: the rebuilt block %" PRIu64
		                " does not match its recorded checksum: the sources have changed "
		                "since staging; the file was left unchanged",
		                t->file->name, block);
	return rc < 0 ? rc : write_block(r, t, block, sum);
}

/* Remove bytes after the end of a file. These can be the only error of its last block, which is
 * then repaired without a source. */
static int cut_end(struct repair *r, struct repair_target *t, unsigned char *states)
{
	const uint64_t last = t->file->block_count - 1;
	struct stat st;
	int fd, rc;

	if (fstatat(r->v->ds->dir_fd, t->file->name, &st, 0) < 0 ||
	    (uint64_t)st.st_size <= t->file->bytes)
		return 0;
	rc = open_target(r->v, t);
	if (rc < 0)
		return rc;
	fd = t->fd;
	if (ftruncate(fd, (off_t)t->file->bytes) < 0 || fdatasync(fd) < 0)
		return rung__fail_errno(errno, "%s: the extra bytes at its end cannot be removed",
		                        t->path);
	if (good_on_disk(r, t, last, recorded(r->v, t->file, last)))
		states[last] = RUNG__BLOCK_REPAIRED;
	return 0;
}

static int report_progress(const struct rung__verify *v, uint64_t done, uint64_t total)
{
	if (v->opts.progress && v->opts.progress(v->opts.progress_ctx, "repair", done, total))
		return rung__fail(RUNG_E_CANCELED, "repair: canceled");
	return 0;
}

/* A function that repairs one block of a file. */
typedef int (*block_fn)(struct repair *r, struct repair_target *t, uint64_t block);

/* Repair the bad blocks of a file, and update their states. */
static int repair_blocks(struct repair *r, struct repair_target *t, unsigned char *states,
                         block_fn fn)
{
	int rc = note(r->v, cut_end(r, t, states));

	for (uint64_t block = 0; block < t->file->block_count && rc == 0; block++) {
		if (states[block] != RUNG__BLOCK_BAD)
			continue;
		rc = fn(r, t, block);
		if (rc == 0)
			states[block] = RUNG__BLOCK_REPAIRED;
		else
			rc = note(r->v, rc);
		if (rc == 0)
			rc = report_progress(r->v, block + 1, t->file->block_count);
	}
	return rc;
}

/* Repair a file, if it has bad blocks. */
static int repair_file(struct repair *r, const struct rung__manifest_file *file, block_fn fn)
{
	unsigned char *states = rung__verify_states(r->v, file);
	struct repair_target t = { .file = file, .fd = -1 };
	int rc = 0;

	if (!memchr(states, RUNG__BLOCK_BAD, (size_t)file->block_count))
		return 0;
	t.path = rung__format("%s/%s", r->v->ds->dir, file->name);
	if (!t.path)
		return rung__fail(RUNG_E_NOMEM, "%s", file->name);
	rc = repair_blocks(r, &t, states, fn);
	if (rc == 0 && t.fd >= 0)
		rc = sync_folder_of(&t);
	if (t.fd >= 0)
		close(t.fd);
	rung__free(t.path);
	return rc;
}

/* ---- checksums.npy ---- */

/* The checksum of the present content of a block, whose number is counted over all files; 0 if it
 * cannot be read. */
static uint64_t sum_of_block(struct repair *r, uint64_t block)
{
	const struct rung__manifest *m = r->v->ds->manifest;
	const struct rung__manifest_file *file = m->files;
	uint64_t sum = 0, bytes;
	int fd;

	while (block >= file->first_block + file->block_count)
		file++;
	block -= file->first_block;
	bytes = block_bytes(file, block);
	fd = rung__dataset_open_file(r->v->ds, file->name, 0);
	if (fd < 0)
		return 0;
	if (rung__pread_all(fd, file->name, r->read, bytes, block * RUNG__BLOCK_BYTES) == 0)
		sum = rung__checksum(r->read, (size_t)bytes);
	close(fd);
	return sum;
}

/* The entries of a damaged block of checksums.npy that have two possible values. */
struct doubts {
	uint64_t count;
	/* offset in the block, the checksum computed from the file, and the entry in the damaged
	 * block */
	uint64_t at[DOUBTS_MAX], of_file[DOUBTS_MAX], as_recorded[DOUBTS_MAX];
};

/*
 * Fill r->buf with the checksums of the files. An entry that differs in the damaged block is
 * uncertain: either the entry is damaged, or the file is. More than DOUBTS_MAX uncertain entries
 * are too many to try, so only the checksums of the files are used.
 */
static void make_sums(struct repair *r, const struct repair_target *t, uint64_t block,
                      struct doubts *doubts)
{
	const uint64_t begin = block * RUNG__BLOCK_BYTES, bytes = block_bytes(t->file, block);
	const uint64_t data = RUNG__MAX(begin, RUNG__NPY_DATA_OFFSET);
	const uint64_t first = (data - RUNG__NPY_DATA_OFFSET) / sizeof(uint64_t),
		       count = (begin + bytes - data) / sizeof(uint64_t);

	doubts->count = 0;
	if (block == 0)
		rung__npy_format(&t->file->array, r->buf);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t at = data - begin + i * sizeof(uint64_t),
			       sum = sum_of_block(r, first + i);

		memcpy(r->buf + at, &sum, sizeof(sum));
		if (sum == r->v->sums[first + i])
			continue;
		if (doubts->count < DOUBTS_MAX) {
			doubts->at[doubts->count] = at;
			doubts->of_file[doubts->count] = sum;
			doubts->as_recorded[doubts->count] = r->v->sums[first + i];
		}
		doubts->count++;
	}
	if (doubts->count > DOUBTS_MAX)
		doubts->count = 0;
}

/* Repair a block of checksums.npy: try every combination of the uncertain entries, until one has
 * the checksum that the manifest records. A wrong combination has that checksum with probability
 * 2^-64. */
static int repair_sums(struct repair *r, struct repair_target *t, uint64_t block)
{
	const uint64_t wanted = recorded(r->v, t->file, block);
	struct doubts doubts;

	make_sums(r, t, block, &doubts);
	for (uint64_t subset = 0; subset < UINT64_C(1) << doubts.count; subset++) {
		for (uint64_t i = 0; i < doubts.count; i++)
			memcpy(r->buf + doubts.at[i],
			       subset >> i & 1 ? &doubts.as_recorded[i] : &doubts.of_file[i],
			       sizeof(uint64_t));
		if (rung__checksum(r->buf, (size_t)block_bytes(t->file, block)) == wanted)
			return write_block(r, t, block, wanted);
	}
	return rung__fail(
		RUNG_E_CORRUPT,
		"%s: block %" PRIu64
		" cannot be rebuilt from the files, because some of them are damaged as well",
		t->file->name, block);
}

/* ---- all files ---- */

/* Check all blocks again after blocks of checksums.npy were repaired: blocks whose checksum was
 * unknown before can be checked now. Keeps the states of repaired blocks for the report. */
static int check_again(struct repair *r)
{
	struct rung__verify *v = r->v;
	const struct rung__manifest *m = v->ds->manifest;
	unsigned char *states = rung__verify_states(v, &m->checksums),
		      *before = rung__malloc_array(m->checksums.block_count, 1);
	int rc;

	if (!before)
		return rung__fail(RUNG_E_NOMEM,
		                  "verify: no memory for the state of %" PRIu64 " blocks",
		                  m->checksums.block_count);
	memcpy(before, states, (size_t)m->checksums.block_count);
	memset(v->bad, RUNG__BLOCK_GOOD, (size_t)(m->block_count + m->checksums.block_count));
	rc = rung__verify_blocks(v);
	for (uint64_t i = 0; i < m->checksums.block_count && rc == 0; i++) {
		if (before[i] == RUNG__BLOCK_REPAIRED && states[i] == RUNG__BLOCK_GOOD)
			states[i] = RUNG__BLOCK_REPAIRED;
	}
	rung__free(before);
	return rc;
}

/* Repair all files, in the order of their dependencies. */
static int repair_all(struct repair *r)
{
	const struct rung__manifest *m = r->v->ds->manifest;
	const unsigned char *sums = rung__verify_states(r->v, &m->checksums);
	const struct rung__manifest_file *maps[] = { rung__manifest_file(m, RUNG__VERTEX_OF_RANK),
		                                     rung__manifest_file(m, RUNG__RANK_OF_VERTEX) };
	int rc = repair_file(r, &m->checksums, repair_sums);

	if (rc == 0 && memchr(sums, RUNG__BLOCK_REPAIRED, (size_t)m->checksums.block_count))
		rc = check_again(r);
	/* parts of typed datasets may have no maps */
	for (size_t i = 0; i < RUNG__ARRAY_LEN(maps) && rc == 0 && maps[i]; i++)
		rc = repair_file(r, maps[i], repair_block);
	for (uint32_t f = 0; f < m->file_count && rc == 0; f++) {
		if (&m->files[f] != maps[0] && &m->files[f] != maps[1])
			rc = repair_file(r, &m->files[f], repair_block);
	}
	return rc;
}

int rung__verify_repair(struct rung__verify *v)
{
	const struct rung__manifest *m = v->ds->manifest;
	struct repair r = { .v = v, .rebuild = { .v = v } };
	int rc;

	if (!memchr(v->bad, RUNG__BLOCK_BAD, (size_t)(m->block_count + m->checksums.block_count)))
		return 0;
	r.buf = rung__malloc_aligned(RUNG__PAGE_BYTES, RUNG__BLOCK_BYTES);
	r.read = rung__malloc_aligned(RUNG__PAGE_BYTES, RUNG__BLOCK_BYTES);
	rc = r.buf && r.read ? repair_all(&r)
	                     : rung__fail(RUNG_E_NOMEM, "verify: no memory to repair blocks");
	rung__rebuild_fini(&r.rebuild);
	rung__free(r.buf);
	rung__free(r.read);
	return rc;
}
