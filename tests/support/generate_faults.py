# SPDX-License-Identifier: Apache-2.0
"""A library to preload into rung generate, whose calls fail."""
from clitest import NAMED_ONLY

# Calls that fail, in a process whose RUNG_TEST_FAULT names one of them:
# mkdir: other processes create every temporary folder first, with a file in it
# fsync: does not return; write: the disk is full; fallocate: not known to the file system
FAULTS = NAMED_ONLY + r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
static int is_fault(const char *name)
{
        const char *fault = getenv("RUNG_TEST_FAULT");
        return fault && strcmp(fault, name) == 0;
}
int mkdir(const char *path, mode_t mode)
{
        char file[4096];
        int rc = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
        if (rc < 0 || !is_fault("mkdir"))
                return rc;
        snprintf(file, sizeof(file), "%s/edges.npy", path);
        close(open(file, O_CREAT | O_WRONLY, 0666));
        errno = EEXIST;
        return -1;
}
int fsync(int fd)
{
        while (is_fault("fsync")) {
                if (write(2, "syncing\n", 8) == 8)
                        for (;;)
                                pause();
        }
        return (int)syscall(SYS_fsync, fd);
}
ssize_t write(int fd, const void *data, size_t bytes)
{
        return fd > 2 && is_fault("write") ? 0 : syscall(SYS_write, fd, data, bytes);
}
int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
        errno = EOPNOTSUPP;
        return is_fault("fallocate") ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}
"""
