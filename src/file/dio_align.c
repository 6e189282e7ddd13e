/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The alignment of direct reads. glibc 2.36's struct statx lacks the two fields, so the kernel's
 * header and the plain system call are used; that header must not be included together with
 * <sys/stat.h>, hence a separate file.
 */
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file/file.h"
#include "base/base.h"

#ifdef STATX_DIOALIGN
static bool ask(int fd, struct statx *st_out)
{
	*st_out = (struct statx){ .stx_mask = 0 };
	return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, st_out) == 0 &&
	       (st_out->stx_mask & STATX_DIOALIGN);
}

uint32_t rung__dio_align(int fd)
{
	struct statx st;
	uint32_t align;

	if (!ask(fd, &st))
		return RUNG__PAGE_BYTES;
	align = RUNG__MAX(st.stx_dio_offset_align, st.stx_dio_mem_align);
	if (align == 0 || align > RUNG__PAGE_BYTES || (align & (align - 1)))
		return RUNG__PAGE_BYTES;
	return align;
}

bool rung__dio_refused(int fd)
{
	struct statx st;

	return ask(fd, &st) && st.stx_dio_offset_align == 0;
}
#else
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
