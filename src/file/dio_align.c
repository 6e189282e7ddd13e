/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The alignment of direct reads, as the kernel reports it. The struct statx of glibc 2.36 lacks the
 * two fields, so the kernel's header and the plain system call are used. That header must not be
 * included together with <sys/stat.h>, hence a separate file.
 */
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"

#ifdef STATX_DIOALIGN
/* @return false: a kernel before 6.1, or a file system that does not report the alignment */
static bool query(int fd, struct statx *st_out)
{
	*st_out = (struct statx){ .stx_mask = 0 };
	return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, st_out) == 0 &&
	       (st_out->stx_mask & STATX_DIOALIGN);
}

uint32_t rung__dio_align(int fd)
{
	struct statx st;
	uint32_t align;

	if (!query(fd, &st))
		return RUNG__PAGE_BYTES;
	/* callers align offset, length and memory to one value */
	align = RUNG__MAX(st.stx_dio_offset_align, st.stx_dio_mem_align);
	/* 0: O_DIRECT is refused. rung's buffers cannot follow an alignment above a page, or one
	 * that is not a power of two */
	if (align == 0 || align > RUNG__PAGE_BYTES || (align & (align - 1)))
		return RUNG__PAGE_BYTES;
	return align;
}

bool rung__dio_refused(int fd)
{
	struct statx st;

	return query(fd, &st) && st.stx_dio_offset_align == 0;
}
#else /* headers before Linux 6.1 */
uint32_t rung__dio_align(int fd)
{
	(void)fd;
	return RUNG__PAGE_BYTES;
}

bool rung__dio_refused(int fd)
{
	(void)fd;
	return false;
}
#endif
