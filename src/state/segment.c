/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed memory for several processes: memfds.
 *
 * The seals make shared memory safe to use after one check: an attacher is not affected if the
 * creator, by a defect or on purpose, writes to a map later or shrinks the file, which would kill
 * readers with SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "file/file.h"
#include "state/segment.h"

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
/* longest wait for pinned pages: direct reads can keep their pages pinned for a moment after they
 * have completed */
#define SEAL_TRIES_MAX 50u
#define SEAL_PAUSE_NS  20000000

int rung__segment_create(const char *name, uint64_t bytes, struct rung__segment *segment_out)
{
	struct rung__segment segment = { .bytes = rung__align_up(bytes, RUNG__PAGE_BYTES) };
	int rc;

	segment.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (segment.fd < 0)
		return rung__fail_errno(errno, "%s: cannot create shared memory (memfd_create)",
		                        name);
	if (ftruncate(segment.fd, (off_t)segment.bytes) < 0) {
		rc = rung__fail_errno(errno,
		                      "%s: cannot allocate %" PRIu64 " bytes of shared memory",
		                      name, segment.bytes);
		goto close_fd;
	}
	segment.base = rung__map_shared(segment.fd, segment.bytes, true);
	if (!segment.base) {
		rc = rung__fail(RUNG_E_NOMEM,
		                "%s: no memory for %" PRIu64 " bytes of shared memory", name,
		                segment.bytes);
		goto close_fd;
	}
	*segment_out = segment;
	return 0;
close_fd:
	close(segment.fd);
	return rc;
}

/* Add all seals; EBUSY means that pages are still pinned for I/O. @return 0, or -1 with errno */
static int add_seals(int fd)
{
	struct timespec pause = { .tv_nsec = SEAL_PAUSE_NS };

	for (unsigned tries = 0; tries < SEAL_TRIES_MAX; tries++) {
		if (fcntl(fd, F_ADD_SEALS, SEALS) == 0)
			return 0;
		if (errno != EBUSY)
			return -1;
		nanosleep(&pause, NULL);
	}
	return -1;
}

int rung__segment_fix(const char *name, struct rung__segment *segment)
{
	/* F_SEAL_SEAL: no process can add a seal that would refuse writable mappings later */
	if (fcntl(segment->fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) < 0)
		return rung__fail_errno(
			errno, "%s: cannot seal the size of %" PRIu64 " bytes of shared memory",
			name, segment->bytes);
	return 0;
}

/*
 * F_SEAL_WRITE is refused while a mapping exists that is or could become writable, which is any
 * shared mapping through a descriptor open for writing. So the memory is opened a second time for
 * reading, and that mapping replaces the first one, at the same address. The descriptor for writing
 * is closed; other processes get the one for reading.
 */
int rung__segment_seal(const char *name, struct rung__segment *segment)
{
	int read_fd = rung__reopen(segment->fd, 0);

	if (read_fd < 0)
		return rung__fail_errno(
			errno, "%s: cannot reopen shared memory through /proc/self/fd", name);
	if (!rung__map_readonly(segment->base, read_fd, segment->bytes) ||
	    add_seals(segment->fd) < 0) {
		int rc = rung__fail_errno(errno,
		                          "%s: cannot seal %" PRIu64 " bytes of shared memory",
		                          name, segment->bytes);

		close(read_fd);
		return rc;
	}
	close(segment->fd);
	segment->fd = read_fd;
	return 0;
}

int rung__segment_attach(const char *name, int fd, uint64_t bytes, bool writable,
                         struct rung__segment *segment_out)
{
	struct rung__segment segment = { .bytes = rung__align_up(bytes, RUNG__PAGE_BYTES),
		                         .fd = -1 };
	int seals = fcntl(fd, F_GET_SEALS), wanted = writable ? SIZE_SEALS : SEALS;
	struct stat st;

	/* the seals are checked first, because without them the size and the contents could change
	 * after their checks */
	if (seals < 0 || (seals & wanted) != wanted)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the memory from the other process is not sealed, so it "
		                  "could change while this process uses it",
		                  name);
	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s: cannot check the size of shared memory", name);
	if ((uint64_t)st.st_size != segment.bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the shared memory has %jd bytes, but %" PRIu64
		                  " are expected",
		                  name, (intmax_t)st.st_size, segment.bytes);
	segment.base = rung__map_shared(fd, segment.bytes, writable);
	if (!segment.base)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory to map %" PRIu64 " bytes of shared memory", name,
		                  segment.bytes);
	*segment_out = segment;
	return 0;
}

void rung__segment_fini(struct rung__segment *segment)
{
	if (!segment->base)
		return;
	rung__unmap_pages(segment->base, segment->bytes);
	if (segment->fd >= 0)
		close(segment->fd);
	segment->base = NULL;
}
